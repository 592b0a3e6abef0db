//! Exit codes of command lines that are not accepted, of every command and of the programs of section 8.
use super::{Scratch, refusal};
use std::os::unix::fs::symlink;
use std::process::Command;

/// Parsed by segno-lab, whose tests have them.
const OTHER_PROGRAM: [&str; 2] = ["bench", "crashtest"];

/// The words of every command, and of the commands of commands.
fn commands() -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for command in segno_cli::command_line().get_subcommands() {
        let name = command.get_name().to_owned();
        let below: Vec<_> =
            command.get_subcommands().map(|c| vec![name.clone(), c.get_name().into()]).collect();
        all.extend(if below.is_empty() { vec![vec![name]] } else { below });
    }
    all.retain(|words| !OTHER_PROGRAM.contains(&words[0].as_str()));
    assert!(all.len() > 30, "{all:?}");
    all
}

/// fsck(8) has 16 for a usage error.
fn expected(command: &[String]) -> i32 {
    if command[0] == "check" { 16 } else { 2 }
}

#[test]
fn an_unknown_option_is_a_usage_error_of_every_command() {
    for command in commands() {
        for more in [vec!["--no-such-option"], vec!["--json", "--no-such-option"]] {
            let words: Vec<&str> = command.iter().map(String::as_str).chain(more).collect();
            let (code, said) = refusal(&words);
            assert_eq!(code, expected(&command), "{words:?}: {said}");
        }
    }
}

/// All commands except those without a mandatory operand. `mount` without operands lists mounts, as `mounts`
/// does.
#[test]
fn a_missing_operand_is_a_usage_error_of_every_command() {
    for command in commands().into_iter().filter(|words| *words != ["mount"] && *words != ["mounts"]) {
        let (code, said) = refusal(&command);
        assert_eq!(code, expected(&command), "{command:?}: {said}");
    }
}

#[test]
fn no_command_is_a_usage_error() {
    assert_eq!(refusal(&[] as &[&str]).0, 2);
    assert_eq!(refusal(&["nonsense"]).0, 2);
    assert_eq!(refusal(&["--nonsense"]).0, 2);
}

/// fsck(8) and mount(8) read the codes: 16 and 1 are their words for a usage error.
#[test]
fn programs_of_section_8_have_the_codes_of_their_callers() {
    let scratch = Scratch::new();
    let image = scratch.image();
    for (name, args, code) in [
        ("mkfs.segno", vec!["--no-such-option", &image], 2),
        ("mkfs.segno", vec![], 2),
        ("fsck.segno", vec!["--no-such-option", &image], 16),
        ("fsck.f2fs", vec![], 16),
        ("mount.segno", vec!["-X", &image, "/mnt"], 1),
        ("mount.segno", vec![&image], 1),
        ("mount.segno", vec![&image, "/mnt", "-o", "sparkle"], 1),
        ("mount.fuse.segno", vec![&image, "/mnt", "-o", "cache=0x"], 1),
    ] {
        let program = scratch.path(name);
        if !program.exists() {
            symlink(env!("CARGO_BIN_EXE_segno"), &program).unwrap();
        }
        let out = Command::new(&program).args(&args).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{name} {args:?}: {said}");
    }
}

/// Words that the parser of the command line does not know.
#[test]
fn selectors_settings_and_mount_options_are_part_of_the_usage() {
    let scratch = Scratch::new();
    let (image, dir) = (scratch.image(), scratch.dir.path().to_str().unwrap().to_owned());
    for (args, part) in [
        (vec!["mount", "-o", "sparkle", &image, &dir], "unknown mount option sparkle"),
        (vec!["mount", "-o", "norecovery", &image, &dir], "add ro"),
        (vec!["ctl", &dir, "sparkle=1"], "there is no setting sparkle"),
        (vec!["dump", &image, "sparkle"], "sparkle"),
        (vec!["dump", &image, "sb", "3"], "there are 1 and 2"),
        (vec!["map", "-o", "map.gif", &image], "ends in .svg or .png"),
        (vec!["get", "--json", &image, "/file", "-"], "leave out --json"),
        (vec!["get", &image, "/file", "/other", "-"], "takes one file"),
        (vec!["extract", "--json", "--tar", "-", &image], "leave out --json"),
        (vec!["put", &image, "-", "other", "/to"], "standard input is one file"),
    ] {
        let (code, said) = refusal(&args);
        assert!(code == 2 && said.contains(part), "{args:?}: {code} {said}");
    }
}
