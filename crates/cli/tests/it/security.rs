//! SECURITY.md names tests that exist, and its table of commands is that of the tests.
use super::{confined, exclusion, further_devices, modes, names, output, preserve, tangled};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The source files below a directory.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            // Packages outside the workspace build into separate directories.
            if entry.file_name() != "target" {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Functions of a source file, as `file::function`.
fn functions(path: &Path) -> Vec<String> {
    let named_by = if path.ends_with("mod.rs") { path.parent().unwrap() } else { path };
    let module = named_by.file_stem().unwrap().to_str().unwrap();
    let text = fs::read_to_string(path).unwrap();
    let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
    names.map(|name| format!("{module}::{name}")).collect()
}

#[test]
fn the_tests_that_the_threat_model_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    ["crates", "lab"].iter().for_each(|folder| sources(&root.join(folder), &mut paths));
    let found: BTreeSet<String> = paths.iter().flat_map(|path| functions(path)).collect();
    let text = fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let (commands, rules) = text.split_once("## Commands").unwrap().1.split_once("## Rules").unwrap();
    let tests = rules.lines().filter_map(|line| line.rsplit(" | ").next()).chain(commands.lines());
    let named: Vec<&str> =
        tests.flat_map(|cell| cell.split('`').filter(|name| name.contains("::"))).collect();
    assert!(named.len() > 10, "{named:?}");
    for test in named {
        assert!(found.contains(test), "SECURITY.md names {test}, which does not exist");
    }
}

/// The first word of each command of a test's table.
fn first_words<'a>(commands: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    commands.into_iter().filter_map(|command| command.split(' ').next()).map(str::to_owned).collect()
}

/// Columns of the table of commands, and the commands that their tests run.
fn columns() -> Vec<(&'static str, BTreeSet<String>)> {
    let users = exclusion::READERS.into_iter().chain(exclusion::WRITERS);
    let walks = tangled::WALKERS.iter().map(|row| row.0).chain(tangled::SEARCHES.iter().map(|row| row.0));
    vec![
        ("one user", first_words(users)),
        ("devices", first_words(further_devices::COMMANDS.iter().map(|row| row.0[0]))),
        ("walk", first_words(walks)),
        ("printing", first_words(names::COMMANDS)),
        ("what leaves", first_words(preserve::EXITS.iter().map(|row| row.0[0]))),
        ("permissions", first_words(modes::COMMANDS.iter().map(|words| words[0]))),
        ("privileges", first_words(confined::COMMANDS.iter().map(|row| row.0))),
    ]
}

/// Subcommands that this program has.
fn commands() -> Vec<String> {
    let help = output(&["--help"]);
    let list = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let words = list.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    words.filter(|word| *word != "help").map(str::to_owned).collect()
}

/// Each cell of the table of commands is `yes` if a test covers it, or else gives the reason why the rule
/// does not apply.
#[test]
fn each_rule_is_tested_for_each_command_or_does_not_apply() {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SECURITY.md")).unwrap();
    let section = text.split("## Commands").nth(1).unwrap().split("\n## ").next().unwrap();
    let reasons: BTreeSet<&str> =
        section.lines().filter_map(|line| Some(line.strip_prefix("- (")?.split_once(')')?.0)).collect();
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let columns = columns();
    let heads: Vec<&str> = columns.iter().map(|column| column.0).collect();
    assert_eq!(rows[0][1..], heads);
    let mut wrong = Vec::new();
    for command in commands() {
        let row = rows.iter().find(|row| row[0] == format!("`{command}`"));
        let cells = row.unwrap_or_else(|| panic!("SECURITY.md has no row of {command}"));
        for (cell, (head, tested)) in cells[1..].iter().zip(&columns) {
            if (*cell == "yes") != tested.contains(&command) || *cell != "yes" && !reasons.contains(cell) {
                wrong.push(format!("{command}, {head}: {cell:?}, tested: {}", tested.contains(&command)));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
