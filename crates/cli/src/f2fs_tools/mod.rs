//! Calls by the names of f2fs-tools, with their options, from 1.15 to the present development version: each becomes a call of a command of
//! Segno. An option that changes nothing here is accepted, one that Segno lacks is refused by name, and so is one that no version has.
mod call;
#[cfg(test)]
mod docs;
mod dump;
mod fsck;
mod label;
mod mkfs;
mod mount;
mod sload;
mod table;
mod tool;

pub use table::PROGRAMS;

use crate::command_line::VERSION;
use crate::exit::{Outcome, Style, USAGE, WithCode};
use crate::out::stdout;
use call::Call;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use table::Program;
use tool::Tool;

/// The program that a call names.
pub fn of(args: &[OsString]) -> Option<&'static Program> {
    let name = Path::new(args.first()?).file_name()?;
    PROGRAMS.iter().find(|program| program.tool.names().any(|n| name == n))
}

/// Runs it.
pub fn run(program: &'static Program, args: &[OsString]) -> ExitCode {
    let tool = &program.tool;
    let outcome = match Call::parse(tool, args.get(1..).unwrap_or_default()) {
        Err(e) => Err(WithCode(tool.usage, e).into()),
        Ok(call) if call.has('V') => version(tool),
        Ok(call) => (program.run)(&call),
    };
    Style::Text.report(outcome.map_err(|e| match e.downcast_ref::<WithCode>() {
        Some(WithCode(USAGE, _)) => WithCode(tool.usage, e).into(),
        Some(_) => e,
        None => WithCode(tool.failed, e).into(),
    }))
}

/// The version of f2fs-tools whose options are taken: libblockdev reads it, and requires 1.11 or later. No
/// version of f2fs-tools contains the name segno, so a script that needs the original can check for it.
const VERSION_OF_TOOLS: &str = "1.16.0";

fn version(tool: &Tool) -> Outcome {
    writeln!(stdout(), "{} {VERSION_OF_TOOLS} (segno {VERSION})", tool.name)?;
    Ok(ExitCode::SUCCESS)
}

/// The original program that this one stands in for, where the Debian package has put it.
fn original(tool: &Tool) -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let dirs = ["/usr/sbin", "/sbin", "/usr/bin"]
        .map(|dir| Path::new(dir).join(format!("{}.f2fs-tools", tool.name)));
    dirs.into_iter().find(|path| path.is_file() && path.canonicalize().ok() != program)
}

/// Becomes another program, called by a name; returns if that fails. f2fs-tools is one program, which goes by the name.
fn become_program(
    program: impl AsRef<OsStr>,
    name: &str,
    args: impl IntoIterator<Item = OsString>,
) -> anyhow::Error {
    let e = Command::new(&program).arg0(name).args(args).exec();
    anyhow::anyhow!("cannot execute {}: {e}", Path::new(&program).display())
}
