//! Pages and completions, as text; the tests judge them too.
use clap::{Arg, Args, Command};
use clap_complete::{Shell, generate};
use segno_cli::manual::{self, Page};
use std::io;

/// The command line, with the experiments of segno-lab.
fn command_line() -> Command {
    let bench = |stub: Command| {
        let about = stub.get_about().cloned().unwrap_or_default();
        segno_bench::Args::augment_args(Command::new("bench").about(about).subcommand_required(true))
    };
    segno_cli::command_line().mut_subcommand("bench", bench)
}

/// All manual pages, with the date of this second.
pub fn pages(secs: u64) -> Vec<Page> {
    manual::pages(command_line(), &manual::date(secs))
}

/// Words of lists and assignments, which clap's script for bash does not complete.
const BASH: &str = include_str!("words.bash");

/// Names and text of the files of completions.
pub fn completions() -> io::Result<Vec<(String, String)>> {
    let shells = [(Shell::Bash, bash as fn(&str) -> String), (Shell::Zsh, zsh), (Shell::Fish, fish)];
    let file = |(shell, finish): (Shell, fn(&str) -> String)| {
        let mut text = Vec::new();
        generate(shell, &mut command_line(), "segno", &mut text);
        let text = String::from_utf8(text).map_err(io::Error::other)?;
        Ok((clap_complete::Generator::file_name(&shell, "segno"), finish(&text)))
    };
    shells.into_iter().map(file).collect()
}

/// The words of an argument.
fn words(arg: &Arg) -> Vec<String> {
    arg.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect()
}

/// Words of options that take lists with commas.
fn lists() -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for command in command_line().get_subcommands() {
        let is_list = |a: &&Arg| a.get_value_delimiter().is_some() && !a.get_possible_values().is_empty();
        all.extend(command.get_arguments().filter(is_list).map(words));
    }
    all
}

fn bash(text: &str) -> String {
    format!("{text}\n{BASH}")
}

fn zsh(text: &str) -> String {
    let replaced = |text: String, words: Vec<String>| {
        let words = words.join(" ");
        text.replace(&format!(":({words})"), &format!(":_sequence compadd - {words}"))
    };
    lists().into_iter().fold(text.to_owned(), replaced)
}

/// Options get lists, and operands the words that clap leaves out.
fn fish(text: &str) -> String {
    let replaced = |text: String, words: Vec<String>| {
        let each: Vec<String> = words.iter().map(|word| format!("{word}\\t''")).collect();
        let list = format!("-a \"(__fish_append , {})\"", words.join(" "));
        text.replace(&format!("-a \"{}\"", each.join("\n")), &list)
    };
    let mut text = lists().into_iter().fold(text.to_owned(), replaced);
    for command in command_line().get_subcommands() {
        for words in command.get_positionals().map(words).filter(|words| !words.is_empty()) {
            let condition = format!("__fish_segno_using_subcommand {}", command.get_name());
            text += &format!("complete -c segno -n \"{condition}\" -a \"{}\"\n", words.join(" "));
        }
    }
    text
}
