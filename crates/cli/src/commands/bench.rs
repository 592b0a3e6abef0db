//! `segno bench`: the experiments of `segno-bench`.
use crate::exit::Outcome;
use std::process::ExitCode;

pub fn run(args: &segno_bench::Args) -> Outcome {
    segno_bench::run(args)?;
    Ok(ExitCode::SUCCESS)
}
