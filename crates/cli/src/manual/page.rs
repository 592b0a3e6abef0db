//! Manual pages in the language of man(7), in the order of sections of man-pages(7).
use super::facts;
use super::facts::{EXAMPLES, OTHER_EXAMPLES, SYSTEM_EXAMPLES};
use super::formats::file_formats;
use super::programs::system_programs;
use super::roff::{listed, roff, title};
use clap::{Arg, Command};

/// A manual page.
pub struct Page {
    pub name: String,
    pub section: u8,
    pub text: String,
}

/// The pages of the program, its commands, the programs of section 8, and the file formats, with this date.
#[must_use]
pub fn pages(program: Command, date: &str) -> Vec<Page> {
    let mut cli = program.disable_help_subcommand(true);
    cli.build();
    let mut pages = vec![page(1, &cli, date)];
    pages.extend(cli.get_subcommands().filter(|c| !c.is_hide_set()).map(|c| page(1, c, date)));
    for mut program in system_programs() {
        program.build();
        pages.push(page(8, &program, date));
    }
    pages.push(Page { name: "segno".into(), section: 5, text: file_formats(date) });
    pages
}

fn page(section: u8, command: &Command, date: &str) -> Page {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let manual = if section == 1 { "User Commands" } else { "System Administration" };
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = title(&name, section, date, manual);
    text += &format!(".SH NAME\n{} \\- {}\n", roff(&name), roff(&about));
    text += &format!(".SH SYNOPSIS\n{}", synopsis(command));
    text += ".SH DESCRIPTION\n";
    let long = command.get_long_about().map_or(about, ToString::to_string);
    text += &paragraphs(&long);
    text += &options(command).map(|list| format!(".SH OPTIONS\n{list}")).unwrap_or_default();
    text += &commands(command);
    let of = name.strip_prefix("segno-").unwrap_or(&name);
    for (heading, entries) in facts::sections(of) {
        text += &format!(".SH {heading}\n{}", listed(&entries));
    }
    text += &format!(".SH EXAMPLES\n.EX\n{}\n.EE\n", examples(of));
    text += &format!(".SH BUGS\n{}\n", roff(facts::BUGS));
    text += &format!(".SH SEE ALSO\n{}\n", see_also(of));
    Page { name, section, text }
}

/// How the command is called, as clap shows it, in the typefaces of manual pages.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let words: Vec<&str> = usage.trim_start_matches("Usage:").split_whitespace().collect();
    let is_operand = |w: &&str| w.starts_with(['[', '<', '-']);
    let (name, rest) = words.split_at(words.iter().position(is_operand).unwrap_or(words.len()));
    let rest: String = rest.iter().map(|w| format!(" {}", operand(w))).collect();
    format!("\\fB{}\\fR{rest}\n", roff(&name.join(" ")))
}

/// `[OPTIONS]`, `<IMAGE>...`, `--option` or `<NAME|--all>`.
fn operand(word: &str) -> String {
    let (word, more) = word.strip_suffix("...").map_or((word, ""), |word| (word, "..."));
    if word == "[OPTIONS]" {
        return "[\\fIOPTION\\fR]...".into();
    }
    if word.starts_with('-') {
        return format!("\\fB{}\\fR{more}", roff(word));
    }
    let optional = word.starts_with('[');
    let inner = word.strip_prefix(['[', '<']).and_then(|w| w.strip_suffix([']', '>'])).unwrap_or(word);
    let inner = roff(inner);
    if optional { format!("[\\fI{inner}\\fR]{more}") } else { format!("\\fI{inner}\\fR{more}") }
}

fn paragraphs(text: &str) -> String {
    let all = text.split("\n\n").map(|p| roff(&p.lines().collect::<Vec<_>>().join(" ")) + "\n");
    all.collect::<Vec<_>>().join(".PP\n")
}

fn options(command: &Command) -> Option<String> {
    let shown = || command.get_arguments().filter(|a| !a.is_hide_set());
    let all = shown().filter(|a| !a.is_positional()).chain(shown().filter(|a| a.is_positional()));
    let list: String = all.map(option).collect();
    (!list.is_empty()).then_some(list)
}

fn option(arg: &Arg) -> String {
    let short = arg.get_short().map(|s| format!("\\fB\\-{s}\\fR"));
    let long = arg.get_long().map(|l| format!("\\fB{}\\fR", roff(&format!("--{l}"))));
    let names: Vec<String> = [short, long].into_iter().flatten().collect();
    let values = arg.get_value_names().unwrap_or_default().iter().map(|v| format!("\\fI{}\\fR", roff(v)));
    let takes = arg.is_positional() || arg.get_action().takes_values();
    let values = if takes { values.collect::<Vec<_>>().join(" ") } else { String::new() };
    let head = if names.is_empty() { values } else { format!("{} {values}", names.join(", ")) };
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = help.lines().filter(|l| !l.is_empty()).collect::<Vec<_>>().join(" ");
    let list = |values: Vec<String>| values.join(", ");
    let possible = arg.get_possible_values();
    if takes && !possible.is_empty() && !arg.is_hide_possible_values_set() {
        text += &format!(
            " [possible values: {}]",
            list(possible.iter().map(|v| v.get_name().to_owned()).collect())
        );
    }
    let defaults = arg.get_default_values();
    if takes && !defaults.iter().all(|d| d.is_empty()) && !arg.is_hide_default_value_set() {
        text +=
            &format!(" [default: {}]", list(defaults.iter().map(|d| d.to_string_lossy().into()).collect()));
    }
    format!(".TP\n{}\n{}\n", head.trim_end(), roff(&text))
}

/// Commands of a command, with their options; commands of `segno` have separate pages.
fn commands(command: &Command) -> String {
    let below = || command.get_subcommands().filter(|c| !c.is_hide_set());
    if below().next().is_none() {
        return String::new();
    }
    let about = |c: &Command| c.get_about().map(|a| roff(&a.to_string())).unwrap_or_default();
    let entry = |c: &Command| match command.get_name() {
        "segno" => format!(".TP\n\\fBsegno\\-{}\\fR(1)\n{}\n", roff(c.get_name()), about(c)),
        _ => {
            let long =
                c.get_long_about().or_else(|| c.get_about()).map(ToString::to_string).unwrap_or_default();
            let head = format!(".SS {}\n{}", roff(c.get_name()), synopsis(c));
            format!("{head}.PP\n{}{}", paragraphs(&long), options(c).unwrap_or_default())
        }
    };
    format!(".SH COMMANDS\n{}", below().map(entry).collect::<String>())
}

fn examples(of: &str) -> String {
    let all = EXAMPLES.iter().chain(SYSTEM_EXAMPLES).chain(OTHER_EXAMPLES);
    let found: Vec<String> = all.filter(|(name, _)| *name == of).map(|(_, example)| roff(example)).collect();
    match found.is_empty() {
        true => facts::SESSION.map(roff).join("\n"),
        false => found.join("\n"),
    }
}

fn see_also(of: &str) -> String {
    let own = if of == "segno" { "" } else { "segno(1) " };
    let pages = format!("{own}{}", facts::see(of));
    let page = |p: &str| match p.split_once('(') {
        Some((name, section)) => format!("\\fB{}\\fR({section}", roff(name)),
        None => roff(p),
    };
    pages.split_whitespace().map(page).collect::<Vec<_>>().join(", ")
}
