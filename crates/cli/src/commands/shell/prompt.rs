//! The prompt of the shell: history of the session, and completion of commands, options and names.
use super::words::{self, Name, Splitter, Word};
use super::{Line, Session, host_names, is_on_host, volume_names};
use crate::command_line::quoted;
use crate::exit::{Outcome, Style};
use crate::show;
use anyhow::Context as _;
use clap::CommandFactory;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use segno::Volume;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

impl Session<'_> {
    /// Reads commands from the terminal, up to its end or `exit`.
    pub fn prompt(&mut self) -> Outcome {
        self.is_interactive = true;
        let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
        let history = MemHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).context("cannot use the terminal")?;
        editor.set_helper(Some(Completion {
            volume: self.files.volume,
            dir: PathBuf::new(),
            line: Line::command(),
        }));
        while !self.has_ended {
            if let Some(completion) = editor.helper_mut() {
                completion.dir.clone_from(&self.files.dir);
            }
            match editor.readline(&format!("segno:{}> ", show::path(&self.files.dir))) {
                Ok(line) => {
                    self.files.stopped.store(false, Ordering::Relaxed);
                    // At a prompt it is clear which command failed.
                    let _seen = self.line(line.as_bytes());
                }
                // Ctrl-C drops the line.
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(e) => {
                    Style::Text.report(Err(anyhow::Error::new(e).context("cannot read the terminal")));
                    break;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Completes commands and paths in a line.
struct Completion<'a> {
    volume: &'a Volume,
    /// The directory that paths on the volume start at.
    dir: PathBuf,
    line: clap::Command,
}

impl Helper for Completion<'_> {}
impl Highlighter for Completion<'_> {}
impl Validator for Completion<'_> {}
impl Hinter for Completion<'_> {
    type Hint = String;
}

impl Completer for Completion<'_> {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (before, start, word) = Splitter::new(line.as_bytes().get(..pos).unwrap_or_default()).at_end();
        let given = words::plain(&word);
        let mut found = match before.first() {
            None => self.commands(),
            Some(command) if given.as_bytes().starts_with(b"-") => self.options(command),
            Some(command) => return Ok((start, self.names(&words::plain(command), &given))),
        };
        found.retain(|candidate| candidate.as_bytes().starts_with(given.as_bytes()));
        found.sort();
        let pair = |text: String| Pair { replacement: format!("{text} "), display: text };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

impl Completion<'_> {
    fn commands(&self) -> Vec<String> {
        let names = self.line.get_subcommands().flat_map(clap::Command::get_name_and_visible_aliases);
        names.map(str::to_owned).chain(["help".to_owned()]).collect()
    }

    fn options(&self, command: &Word) -> Vec<String> {
        let command = words::plain(command);
        let command = self.line.get_subcommands().find(|c| command == c.get_name());
        let options = command.into_iter().flat_map(clap::Command::get_arguments);
        options
            .flat_map(|option| {
                let short = option.get_short().map(|c| format!("-{c}"));
                option.get_long().map(|name| format!("--{name}")).or(short)
            })
            .collect()
    }

    /// The paths that begin as given. A name with characters that mean something is quoted.
    fn names(&self, command: &OsString, given: &OsString) -> Vec<Pair> {
        let given = given.as_bytes();
        let (dir, begun) = given.split_at(given.iter().rposition(|&b| b == b'/').map_or(0, |n| n + 1));
        let dir = PathBuf::from(OsString::from_vec(dir.to_vec()));
        let mut found = Vec::new();
        if !is_on_host(command) || given.starts_with(b"/") {
            found = volume_names(self.volume, &self.dir.join(&dir));
        }
        if is_on_host(command) || command == "get" {
            found.extend(host_names(&dir));
        }
        found.retain(|n| {
            n.name.as_bytes().starts_with(begun)
                && (!begun.is_empty() || !n.name.as_bytes().starts_with(b"."))
        });
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found.iter().map(|name| pair(&dir, name)).collect()
    }
}

fn pair(dir: &Path, Name { name, is_dir }: &Name) -> Pair {
    let mut path = words::operand(&dir.join(name));
    if *is_dir {
        path.push("/");
    }
    let after = if *is_dir { "" } else { " " };
    Pair { display: show::path(Path::new(name)), replacement: quoted(path.as_bytes()) + after }
}
