//! Exit codes and error messages.
use std::io;
use std::process::ExitCode;

/// The exit code of a command that ran to its end.
pub type Outcome = anyhow::Result<ExitCode>;

/// 128 + SIGPIPE, as a shell reports it.
const BROKEN_PIPE: u8 = 141;

/// Code of a command line that is not accepted.
const USAGE: u8 = 2;

/// Prints the error, if there is one, and returns the exit code.
pub fn report(outcome: Outcome) -> ExitCode {
    let e = match outcome {
        Ok(code) => return code,
        Err(e) => e,
    };
    let is_pipe = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    if e.chain().filter_map(|c| c.downcast_ref::<io::Error>()).any(is_pipe) {
        return ExitCode::from(BROKEN_PIPE);
    }
    eprintln!("segno-lab: {}", segno_cli::describe(&e));
    ExitCode::FAILURE
}

/// Prints a usage error, or the help that was requested.
pub fn usage(e: &clap::Error) -> ExitCode {
    // The exit code is all that is left to report a failure to print.
    let _unprinted = e.print();
    if e.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}
