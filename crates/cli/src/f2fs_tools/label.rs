//! f2fslabel.
use super::call::Call;
use crate::exit::{Outcome, WithCode};
use anyhow::anyhow;

pub fn run(call: &Call) -> Outcome {
    let usage = |why: &str| WithCode(call.tool.usage, anyhow!("f2fslabel: {why}"));
    match call.operands.len() {
        0 => Err(usage("no device is named").into()),
        1 | 2 => {
            let words =
                ["segno", "label", "--"].map(Into::into).into_iter().chain(call.operands.iter().cloned());
            crate::program::run_words(words.collect())
        }
        _ => Err(usage("more than a device and a label is named").into()),
    }
}
