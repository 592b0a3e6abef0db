//! Exit codes, and how an error reaches the user.
use crate::document::Schema;
use clap::error::{ContextKind, ErrorKind};
use segno_format::text;
use serde_json::json;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

/// Exit code of a command, or its error.
pub type Outcome = anyhow::Result<ExitCode>;

/// Codes of fsck(8).
pub mod fsck {
    pub const CLEAN: u8 = 0;
    pub const CORRECTED: u8 = 1;
    /// Together with another code: the volume was mounted while it was written.
    pub const REBOOT: u8 = 2;
    pub const ERRORS: u8 = 4;
    pub const OPERATIONAL: u8 = 8;
    pub const USAGE: u8 = 16;
    pub const CANCELLED: u8 = 32;

    /// The meanings of the codes, for manual pages; several are added.
    pub const CODES: &[(u8, &str)] = &[
        (CLEAN, "clean"),
        (CORRECTED, "corrected"),
        (REBOOT, "with 1: restart the system, as the volume was mounted read-only while it was written"),
        (ERRORS, "errors left"),
        (OPERATIONAL, "the check was not possible, and nothing was written"),
        (USAGE, "the command line is not accepted"),
        (CANCELLED, "cancelled by a signal, and nothing was changed"),
        (crate::exit::READER_GONE, "standard output was closed by its reader"),
    ];
}

/// Code of a failed command.
pub const FAILED: u8 = 1;

/// Code of a command line that is not accepted, as clap and most programs have it. `check` has [`fsck::USAGE`].
pub const USAGE: u8 = 2;

/// 128 + SIGPIPE, as a shell reports a closed pipe.
const READER_GONE: u8 = 141;

/// The meanings of the codes of commands, for manual pages. `check` has those of fsck(8).
pub const CODES: &[(u8, &str)] = &[
    (0, "done"),
    (FAILED, "failed; standard error says why"),
    (USAGE, "the command line is not accepted"),
    (READER_GONE, "standard output was closed by its reader"),
];

/// The codes of the helper that mount(8) calls.
pub const HELPER_CODES: &[(u8, &str)] =
    &[(0, "mounted"), (FAILED, "failed, or the command line is not accepted; standard error says why")];

/// An error with a specific exit code.
#[derive(Debug)]
pub struct WithCode(pub u8, pub anyhow::Error);

impl std::fmt::Display for WithCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&describe(&self.1))
    }
}

impl std::error::Error for WithCode {}

/// Words that the parser of the command line lets through are not accepted.
pub fn usage(e: impl Into<anyhow::Error>) -> anyhow::Error {
    WithCode(USAGE, e.into()).into()
}

/// How errors reach the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Text,
    /// A document on a line, with `error` and `code`.
    Json,
}

impl Style {
    /// JSON if the report was requested as JSON.
    pub fn of(args: &[OsString]) -> Self {
        let mut options = args.iter().take_while(|a| *a != "--");
        if options.any(|a| a == "--json" || a == "--json-lines") { Self::Json } else { Self::Text }
    }

    /// Prints the error, if there is one, and returns the exit code.
    pub fn report(self, outcome: Outcome) -> ExitCode {
        let e = match outcome {
            Ok(code) => return code,
            Err(e) => e,
        };
        let is_pipe = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
        if e.chain().filter_map(|c| c.downcast_ref::<io::Error>()).any(is_pipe) {
            return ExitCode::from(READER_GONE);
        }
        let code = e.downcast_ref::<WithCode>().map_or(FAILED, |w| w.0);
        match self {
            Self::Text => eprintln!("segno: {}", describe(&e)),
            Self::Json => print_json(&describe(&e), code),
        }
        ExitCode::from(code)
    }

    /// Prints a usage error, or the help that was requested; `code` is for the error.
    pub fn usage(self, mut e: clap::Error, code: u8) -> ExitCode {
        if !e.use_stderr() {
            return print_usage(&e, code);
        }
        // `-- -g` as a way to pass an option that does not exist: it would become the name of an image.
        if e.kind() == ErrorKind::UnknownArgument {
            e.remove(ContextKind::Suggested);
        }
        if self == Self::Text {
            return print_usage(&e, code);
        }
        let text = e.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim();
        print_json(text, code);
        ExitCode::from(code)
    }
}

fn print_json(error: &str, code: u8) {
    match Schema("segno.error", 1).line(&json!({ "error": error, "code": code })) {
        Ok(line) => eprintln!("{line}"),
        Err(_) => eprintln!("segno: {error}"),
    }
}

/// The error and its causes on one line, each once: many errors include the text of their cause.
pub fn describe(e: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in e.chain().map(|c| c.to_string().trim().to_owned()) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn print_usage(e: &clap::Error, code: u8) -> ExitCode {
    let plain = e.render().to_string();
    if e.use_stderr() && text::lines(plain.as_bytes()) != plain {
        // It repeats an argument.
        plain.lines().for_each(|line| eprintln!("{line}"));
        return ExitCode::from(code);
    }
    // The exit code is all that is left to report a failure to print.
    let _unprinted = e.print();
    if e.use_stderr() { ExitCode::from(code) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn each_cause_is_told_once() {
        let cause = || io::Error::other("no luck");
        let e = Err::<(), _>(cause()).context("cannot open x: no luck").context("mounting").unwrap_err();
        assert_eq!(describe(&e), "mounting: cannot open x: no luck");
        let e = Err::<(), _>(cause()).context("mounting").unwrap_err();
        assert_eq!(describe(&e), "mounting: no luck");
    }

    #[test]
    fn a_report_as_json_has_errors_as_json() {
        for (words, style) in [
            ("segno ls --json image", Style::Json),
            ("segno stats --json-lines dir", Style::Json),
            ("segno ls image", Style::Text),
            ("segno ls -- --json", Style::Text),
        ] {
            let args: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            assert_eq!(Style::of(&args), style, "{words}");
        }
    }
}
