//! `segno shell`: many commands on one open volume.
mod prompt;
mod words;

use super::OnFiles;
use crate::confine::{ConfineOption, Confinement};
use crate::exit::{FAILED, Outcome, Style};
use crate::files::{FileCommand, Files, close};
use crate::out;
use crate::path::{on_volume, reason};
use crate::show;
use crate::storage::ImageArgs;
use anyhow::{Context, Result, ensure};
use clap::Parser;
use segno::{FileType, Volume};
use segno_format::size;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use words::{Name, Word};

/// Run commands on an image that stays open
///
/// The commands are those of segno, without the image, and cd, lcd and others; `help` lists them. Words are
/// split as by sh, with quotation marks, and *, ? and […] match names on the volume, for put and lcd on the
/// host. On a terminal there is a prompt with history and completion, and each change is durable when the
/// next prompt appears. Otherwise commands are read from standard input: the first that fails ends them, and
/// changes are durable after `sync` and at the end. Without a mount, and without root if the image is yours.
#[derive(clap::Args)]
pub struct Args {
    /// Run these commands, which ; or line ends separate
    #[arg(short, long, value_name = "COMMANDS")]
    command: Option<OsString>,
    /// Go on after a command that fails
    #[arg(short, long)]
    keep_going: bool,
    /// Refuse changes
    #[arg(short, long)]
    read_only: bool,
    #[command(flatten)]
    confine: ConfineOption,
    #[command(flatten)]
    of: ImageArgs,
}

// A comment for rustdoc would head the list of commands.
#[derive(Parser)]
#[command(multicall = true, name = "segno shell", disable_version_flag = true, max_term_width = 100)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    #[command(flatten)]
    Files(OnFiles),
    /// Change the directory of the volume that paths start at
    Cd {
        /// Directory of the volume
        #[arg(default_value = "/")]
        dir: PathBuf,
    },
    /// Show the directory of the volume that paths start at
    Pwd,
    /// Change the directory of the host that paths of get and put start at
    Lcd {
        /// Directory of the host
        dir: PathBuf,
    },
    /// Show the directory of the host that paths of get and put start at
    Lpwd,
    /// Show the space of the volume
    Df,
    /// Make all changes durable
    Sync,
    /// End the shell
    #[command(visible_alias = "quit")]
    Exit,
}

pub fn run(args: &Args) -> Outcome {
    let volume = args.of.open(args.read_only)?.volume()?;
    Confinement::new(&args.confine).runs_commands(&args.of.image).enter_of_process();
    let stopped = stopped_by_signals()?;
    let files = Files { volume: &volume, dir: PathBuf::from("/"), images: args.of.identities()?, stopped };
    let mut session = Session { args, files, is_interactive: false, has_ended: false };
    let done = match &args.command {
        Some(text) => {
            let mut rest = text.as_bytes();
            session.script(|line| rest.read_until(b'\n', line))
        }
        None if io::stdin().is_terminal() && out::stdout().is_terminal() => session.prompt(),
        // Not locked meanwhile: `put -` takes what follows.
        None => session.script(|line| io::stdin().lock().read_until(b'\n', line)),
    };
    drop(session);
    let closed = if args.read_only { Ok(()) } else { close(volume, &args.of.image) };
    let code = done?;
    closed?;
    Ok(code)
}

/// Set by the first SIGINT, SIGTERM or SIGHUP. The second one ends the program at once, as a power cut would.
fn stopped_by_signals() -> Result<Arc<AtomicBool>> {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stopped))
            .and_then(|_| flag::register(signal, Arc::clone(&stopped)))
            .context("cannot handle signals")?;
    }
    Ok(stopped)
}

struct Session<'a> {
    args: &'a Args,
    files: Files<'a>,
    /// Whether each change is durable before the next command.
    is_interactive: bool,
    has_ended: bool,
}

impl Session<'_> {
    /// Runs the commands of lines, up to one that fails.
    fn script(&mut self, mut read: impl FnMut(&mut Vec<u8>) -> io::Result<usize>) -> Outcome {
        let (mut line, mut number, mut code) = (Vec::new(), 0, ExitCode::SUCCESS);
        while !self.has_ended && read(&mut line).context("cannot read the commands")? > 0 {
            number += 1;
            if !self.line(&line) {
                code = ExitCode::from(FAILED);
                let stopped = self.files.go_on().is_err();
                let ends = stopped || !self.args.keep_going;
                let what = if ends { "; nothing after it was done" } else { "" };
                eprintln!("segno: line {number} failed{what}");
                if ends {
                    break;
                }
            }
            line.clear();
        }
        Ok(code)
    }

    /// Runs the commands of a line; whether they succeeded. At a prompt the next one is run after one that failed.
    fn line(&mut self, line: &[u8]) -> bool {
        let commands = match words::commands(line) {
            Ok(commands) => commands,
            Err(e) => return Style::Text.report(Err(e)) == ExitCode::SUCCESS,
        };
        let mut succeeded = true;
        for words in commands {
            succeeded &= self.words(&words) == ExitCode::SUCCESS;
            let goes_on = succeeded || self.is_interactive || self.args.keep_going;
            if self.has_ended || !goes_on || self.files.go_on().is_err() {
                break;
            }
        }
        succeeded
    }

    fn words(&mut self, words: &[Word]) -> ExitCode {
        let Some((name, operands)) = words.split_first() else { return ExitCode::SUCCESS };
        let name = words::plain(name);
        let on_host = is_on_host(&name);
        let files = &self.files;
        let names =
            |dir: &Path| if on_host { host_names(dir) } else { volume_names(files.volume, &files.path(dir)) };
        let expanded = operands.iter().flat_map(|word| words::expand(word, names));
        let args: Vec<OsString> = std::iter::once(name).chain(expanded).collect();
        let style = Style::of(&args);
        match Line::try_parse_from(&args) {
            Ok(line) => style.report(self.run(&line.command)),
            Err(e) => style.usage(e, FAILED),
        }
    }

    fn run(&mut self, command: &Command) -> Outcome {
        let volume = self.files.volume;
        match command {
            Command::Files(command) => return self.on_files(command.command()),
            Command::Cd { dir } => {
                let path = self.files.path(dir);
                // Fails unless it is a directory.
                on_volume(&path, volume.open_dir(&path))?;
                self.files.dir = on_volume(&path, volume.canonicalize(&path))?;
            }
            Command::Pwd => println!("{}", show::path(&self.files.dir)),
            Command::Lcd { dir } => {
                std::env::set_current_dir(dir).with_context(|| format!("{} on the host", show::path(dir)))?;
            }
            Command::Lpwd => {
                let dir = std::env::current_dir().context("the directory of the host")?;
                println!("{}", show::path(&dir));
            }
            Command::Df => {
                let space = volume.statfs();
                let bytes = |blocks: u64| size::human(blocks.saturating_mul(space.block_size));
                let used = bytes(space.blocks.saturating_sub(space.blocks_free));
                let (all, free) = (bytes(space.blocks), bytes(space.blocks_free));
                println!(
                    "{all}, {used} used, {free} free; {} of {} inodes free",
                    space.files_free, space.files
                );
            }
            Command::Sync => reason(volume.sync()).context("sync")?,
            Command::Exit => self.has_ended = true,
        }
        Ok(ExitCode::SUCCESS)
    }

    fn on_files(&self, command: &(dyn FileCommand + Sync)) -> Outcome {
        let Some(confinement) = command.confinement() else {
            ensure!(
                !(self.args.read_only && command.changes()),
                "the volume is open for reading only, by -r"
            );
            let done = command.run(&self.files);
            if self.is_interactive && command.changes() {
                reason(self.files.volume.sync()).context("making the change durable")?;
            }
            return done;
        };
        // The thread drops rights that the next command may need.
        let run = || {
            confinement.enter_thread(&self.args.of.image);
            command.run(&self.files)
        };
        let ended = thread::scope(|scope| scope.spawn(run).join());
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Whether the words of a command are names of the host.
fn is_on_host(command: &OsStr) -> bool {
    command == "put" || command == "lcd"
}

/// The names in a directory of the host.
fn host_names(dir: &Path) -> Vec<Name> {
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| Name { name: e.file_name(), is_dir: e.path().is_dir() }).collect()
}

/// The names in a directory of the volume.
fn volume_names(volume: &Volume, dir: &Path) -> Vec<Name> {
    let entries = volume.read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| Name { name: e.file_name(), is_dir: e.file_type() == FileType::Directory }).collect()
}
