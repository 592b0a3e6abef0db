//! The command line of this process: which program called it, and how to print it, with further devices, in
//! messages that suggest to repeat it.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The version of all programs.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that the programs are built from; `None` if they are built from no repository.
pub const COMMIT: Option<&str> = option_env!("SEGNO_COMMIT");

/// Version with commit, and the command line: how to make a picture or page again.
pub fn made_by() -> [String; 2] {
    let commit = COMMIT.map_or_else(String::new, |commit| format!(", commit {commit}"));
    [format!("segno {VERSION}{commit}"), with_devices(&[])]
}

/// Names under which mount(8) calls.
const NAMES: [&str; 2] = ["mount.segno", "mount.fuse.segno"];

/// Commands whose second word is a command, too.
const WITH_COMMANDS: [&str; 2] = ["journal", "store"];

/// Whether mount(8) or its helper makes this call, not a user.
pub fn is_mount_helper(args: &[OsString]) -> bool {
    let name = args.first().and_then(|a| Path::new(a).file_name());
    let by_name = name.is_some_and(|n| NAMES.iter().any(|h| n == OsStr::new(h)));
    by_name || is_mount_fuse(args)
}

/// Whether mount.fuse3 makes the call: `segno SOURCE DIR -o …` with absolute paths. No subcommand contains a
/// slash. A user who names an image instead of a command gets an error that explains it.
fn is_mount_fuse(args: &[OsString]) -> bool {
    let is_absolute = |a: &OsString| a.as_bytes().starts_with(b"/");
    match args {
        [_, source, dir, options, ..] => is_absolute(source) && is_absolute(dir) && options == "-o",
        _ => false,
    }
}

/// The command line of this process, with these devices.
pub fn with_devices(devices: &[PathBuf]) -> String {
    inserted(std::env::args_os().collect(), devices)
}

fn inserted(mut args: Vec<OsString>, devices: &[PathBuf]) -> String {
    let is_helper = is_mount_helper(&args);
    // The server of a mount executes the command that the user typed with one more option.
    let is_mount = args.get(1).is_some_and(|a| a == "mount");
    if is_mount && args.get(2).is_some_and(|a| a == "--detach") {
        args.remove(2);
    }
    let words = args.iter().map(|a| quoted(a.as_bytes()));
    let option = |device: &PathBuf| {
        let path = quoted(device.as_os_str().as_bytes());
        if is_helper { format!("-o device={path}") } else { format!("--device={path}") }
    };
    let place = if is_helper { args.len() } else { words_of_command(&args) };
    let (command, rest): (Vec<_>, Vec<_>) = words.enumerate().partition(|(i, _)| *i < place);
    let text = |words: Vec<(usize, String)>| words.into_iter().map(|(_, word)| word);
    let all: Vec<String> = text(command).chain(devices.iter().map(option)).chain(text(rest)).collect();
    all.join(" ")
}

/// Words before the options: the program, and the commands of `segno`.
fn words_of_command(args: &[OsString]) -> usize {
    let is_fsck = |a: &OsString| Path::new(a).file_name().is_some_and(|n| n.as_bytes().starts_with(b"fsck."));
    let has_commands = |a: &OsString| WITH_COMMANDS.iter().any(|c| OsStr::new(c) == a);
    match args {
        [program, ..] if is_fsck(program) => 1,
        [_, command, ..] if has_commands(command) => 3,
        _ => 2,
    }
}

/// A word as shells read it, of characters that a terminal shows.
pub fn quoted(word: &[u8]) -> String {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(b);
    if !word.is_empty() && word.iter().all(is_plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    match std::str::from_utf8(word) {
        Ok(text) if text.chars().all(is_shown) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => format!("$'{}'", word.utf8_chunks().map(escaped).collect::<String>()),
    }
}

fn escaped(chunk: std::str::Utf8Chunk<'_>) -> String {
    let bytes = |bytes: &[u8]| bytes.iter().map(|b| format!("\\x{b:02x}")).collect::<String>();
    let one = |c: char| match c {
        '\'' | '\\' => format!("\\{c}"),
        c if is_shown(c) => c.to_string(),
        c => bytes(c.encode_utf8(&mut [0; 4]).as_bytes()),
    };
    chunk.valid().chars().map(one).chain([bytes(chunk.invalid())]).collect()
}

/// Whether the character is one that Rust prints without an escape, also in its debug format.
fn is_shown(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || c.escape_debug().count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_by_a_shell_as_it_is() {
        for (word, expected) in [
            (&b"/dev/sdb"[..], "/dev/sdb"),
            (b"", "''"),
            (b"a b", "'a b'"),
            (b"it's", r"'it'\''s'"),
            ("grün".as_bytes(), "'grün'"),
            (b"$(rm -rf /)\\", r"'$(rm -rf /)\'"),
            (b"a\x1b[2J'\\", r"$'a\x1b[2J\'\\'"),
            (b"\xff1", r"$'\xff1'"),
            // Writes the rest of the line from right to left.
            ("\u{202e}x".as_bytes(), r"$'\xe2\x80\xaex'"),
        ] {
            assert_eq!(quoted(word), expected);
            let shell =
                std::process::Command::new("bash").args(["-c", &format!("printf %s {expected}")]).output();
            assert_eq!(shell.unwrap().stdout, word, "{expected}");
        }
    }

    /// The printer of messages changes no word that is quoted here.
    #[test]
    fn characters_that_are_shown_pass_the_printer() {
        for c in ('\0'..=char::MAX).filter(|&c| is_shown(c)) {
            let text = c.to_string();
            assert_eq!(segno_format::text::line(text.as_bytes()), text);
        }
    }

    #[test]
    fn devices_follow_the_command() {
        let repeated = |line: &str| {
            let args = line.split(' ').map(OsString::from).collect();
            inserted(args, &["/b".into(), "c d".into()])
        };
        for (line, expected) in [
            ("segno ls -l image /a", "segno ls --device=/b --device='c d' -l image /a"),
            ("./segno journal info image", "./segno journal info --device=/b --device='c d' image"),
            ("fsck.segno -a image", "fsck.segno --device=/b --device='c d' -a image"),
            ("segno mount --detach -- /image /mnt", "segno mount --device=/b --device='c d' -- /image /mnt"),
            ("/sbin/mount.segno image /mnt", "/sbin/mount.segno image /mnt -o device=/b -o device='c d'"),
            ("segno /image /mnt -o ro", "segno /image /mnt -o ro -o device=/b -o device='c d'"),
        ] {
            assert_eq!(repeated(line), expected);
        }
    }

    #[test]
    fn a_user_who_names_an_image_is_not_mount() {
        for (call, is_helper) in [
            ("/sbin/mount.segno /img /mnt", true),
            ("mount.fuse.segno img mnt -o ro", true),
            ("/usr/bin/segno /srv/img /mnt -o rw,dev,suid", true),
            ("segno ./img", false),
            ("segno /img", false),
            ("segno /img /mnt", false),
            ("segno check /img", false),
            ("segno mount /img /mnt -o ro", false),
        ] {
            let args: Vec<OsString> = call.split(' ').map(OsString::from).collect();
            assert_eq!(is_mount_helper(&args), is_helper, "{call}");
        }
    }
}
