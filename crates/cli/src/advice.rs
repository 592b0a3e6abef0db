//! Answers to commands and options of f2fs-tools and mount(8) that Segno lacks or names differently.
use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Names of commands that do not exist, with the advice to print for them.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["fsck", "fsck.f2fs", "fsck.segno"],
        "`segno check IMAGE` checks; -a repairs what costs no data, -y everything",
    ),
    (&["repair", "fix"], "`segno check -y IMAGE` repairs a volume"),
    (
        &["recover", "restore", "photorec"],
        "`segno rescue IMAGE DIR` copies files of a damaged volume, \
        `segno undelete IMAGE` lists deleted ones",
    ),
    (&["format", "mkfs.f2fs", "mkfs.segno"], "`segno mkfs IMAGE` formats"),
    (&["dump.f2fs"], "`segno dump IMAGE WHAT` shows structures, `segno get` copies files"),
    (
        &["resize", "resize.f2fs", "grow", "shrink"],
        "Segno does not resize volumes. `segno build --size SIZE OLD NEW` makes a copy of another size. \
         `resize.f2fs` damages a volume if it is interrupted, and that of f2fs-tools 1.15 if it expands one with -s: copy the \
         volume first, and run `segno journal discard IMAGE` if a journal is behind it",
    ),
    (&["f2fslabel", "tune"], "`segno label IMAGE LABEL` changes the label"),
    (
        &["defrag", "defrag.f2fs", "defragment"],
        "Segno does not defragment files. `segno extents FILE` shows the pieces of a file, a copy of it has \
                 fewer; `segno ctl DIR gc=now` collects free space",
    ),
    (
        &["sload", "sload.f2fs"],
        "`segno put IMAGE SOURCE` copies a tree into a volume, `segno build SOURCE IMAGE` makes an image of one",
    ),
    (
        &["inject", "inject.f2fs"],
        "Segno does not damage volumes on request; `segno crashtest` tries damage in memory",
    ),
    (
        &["f2fs_io", "io"],
        "`segno ctl DIR gc=now` cleans, `segno sync DIR` makes changes durable, `segno extents FILE` shows \
                 blocks, `segno ctl DIR shutdown=2` stops a mount that permits it",
    ),
    (&["f2fstat", "status"], "`segno stats DIR` shows the counters of a mount"),
    (&["fibmap", "fibmap.f2fs", "filefrag"], "`segno extents FILE` shows the blocks of a file"),
    (
        &["f2fscrypt", "encrypt"],
        "Segno has no keys: names of encrypted files are shown encoded, and their data cannot be read",
    ),
    (&["trim", "fstrim", "discard"], "`fstrim DIR` discards the free space of a mount"),
    (&["unmount"], "`segno umount DIR` unmounts"),
    (&["remount"], "`mount -o remount,ro DIR` and `mount -o remount,rw DIR` change a mount"),
    (
        &["cp", "copy", "extract-files", "pull", "push"],
        "`segno get IMAGE PATH… DEST` copies out of an image and `segno put IMAGE SOURCE… [/PATH]` into it",
    ),
    (&["df"], "`segno info IMAGE` shows the space of an image, df(1) that of a mount"),
    (&["version"], "`segno --version` shows the version"),
    (
        &["quota", "setquota", "repquota"],
        "Segno counts usage and does not enforce limits; there is no command for quotas",
    ),
];

const LEAVE_OUT: &str = "leave it out";
const RAW_ONLY: &str =
    "leave it out: sparse images are recognised and read in place; `segno sparse unpack` converts one";
const VERSION: &str = "`segno --version` shows the version";
const TREES: &str = "leave it out: a directory is copied with all that is in it, and with all attributes";

/// Options that a command does not have, in all spellings, with the advice to print for them.
const OPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "mkfs",
        &["-g"],
        "it stands for a set of options; `-g android` of mkfs.f2fs is `-f -w 4096 -R 0:0 -O \
         encrypt,quota,project_quota,extra_attr,verity`",
    ),
    ("mkfs", &["-a", "-d", "-H"], LEAVE_OUT),
    ("mkfs", &["-b"], "leave it out: blocks have 4096 bytes"),
    ("mkfs", &["-S"], "--size SIZE --sparse writes the Android sparse format"),
    ("mkfs", &["-V"], VERSION),
    ("mkfs", &["-L", "-n"], "the label is -l LABEL"),
    ("check", &["-g", "-H", "-m", "-O"], "leave it out: the volume itself states what it needs"),
    ("check", &["-l"], "`segno info IMAGE` shows superblock and checkpoint"),
    ("check", &["-M"], "`segno extents --all --image IMAGE /` shows where files are"),
    ("check", &["-t"], "`segno ls -R IMAGE` shows the directory tree"),
    ("check", &["-S"], RAW_ONLY),
    ("check", &["-r"], "leave it out; --json gives the details"),
    (
        "dump",
        &["-i", "-I"],
        "`segno dump IMAGE inode INO` shows an inode, `segno dump IMAGE node NID` a node",
    ),
    ("dump", &["-n"], "`segno dump IMAGE nat FROM..END` shows the NAT"),
    ("dump", &["-s"], "`segno dump IMAGE sit FROM..END` shows the SIT"),
    ("dump", &["-a"], "`segno dump IMAGE ssa FROM..END` shows the summaries"),
    (
        "dump",
        &["-b"],
        "`segno dump IMAGE block ADDR` shows a block and `segno dump IMAGE owner ADDR` whose it is",
    ),
    ("dump", &["-M"], "`segno extents --all --image IMAGE /` shows where files are"),
    ("dump", &["-o", "-r"], "`segno get IMAGE PATH… DEST` copies files"),
    ("dump", &["-d"], LEAVE_OUT),
    ("dump", &["-S"], RAW_ONLY),
    ("dump", &["-V"], VERSION),
    ("mount", &["-t"], "leave it out; with mount(8) the type is segno: `mount -t segno IMAGE DIR`"),
    ("mount", &["-r", "--read-only"], "`-o ro` mounts read-only"),
    ("mount", &["-w", "--rw"], "leave it out: a mount is writable unless `-o ro` is given"),
    ("mount", &["-a"], "`mount -a -t segno` mounts what fstab lists"),
    (
        "umount",
        &["-l", "-f", "--lazy", "--force"],
        "umount(8) has it: `umount -l DIR` detaches a mount that is busy",
    ),
    ("ls", &["-a", "--all"], "leave it out: all names are shown"),
    ("get", &["-r", "-R", "-a", "-p"], TREES),
    ("put", &["-r", "-R", "-p"], TREES),
];

/// The answer to a usage error, if the word is known.
pub fn on(e: &clap::Error, args: &[OsString]) -> Option<anyhow::Error> {
    match (e.kind(), args.get(1)?.to_str()?) {
        (ErrorKind::InvalidSubcommand, word) if word.contains('/') => Some(anyhow!(
            "{word} is not a command: `segno info {word}` describes an image, `segno mount {word} DIR` mounts it"
        )),
        (ErrorKind::InvalidSubcommand, word) => {
            let (_, answer) = COMMANDS.iter().find(|(names, _)| names.contains(&word))?;
            Some(anyhow!("there is no command {word}: {answer}"))
        }
        (ErrorKind::UnknownArgument, command) => {
            let option = string(e, ContextKind::InvalidArg)?;
            let (.., answer) =
                OPTIONS.iter().find(|(of, options, _)| *of == command && options.contains(&option))?;
            Some(anyhow!("{command} has no option {option}: {answer}"))
        }
        _ => None,
    }
}

fn string(e: &clap::Error, kind: ContextKind) -> Option<&str> {
    match e.get(kind)? {
        ContextValue::String(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    /// The answer to a command line; `None` if it is accepted, or wrong in another way.
    fn answer(words: &[&str]) -> Option<String> {
        let args: Vec<OsString> = words.iter().map(OsString::from).collect();
        let e = command_line().try_get_matches_from(&args).err()?;
        on(&e, &args).map(|a| a.to_string())
    }

    #[test]
    fn every_row_is_met() {
        for (names, instead) in COMMANDS {
            for name in *names {
                let said = answer(&["segno", name, "image"]).unwrap_or_default();
                assert!(said.contains(instead), "{name}: {said}");
            }
        }
        for (command, options, instead) in OPTIONS {
            for option in *options {
                let said = answer(&["segno", command, option, "image"]).unwrap_or_default();
                assert!(said.contains(instead), "{command} {option}: {said}");
            }
        }
    }

    /// Commands that an answer names exist, with their options.
    #[test]
    fn answers_name_commands_that_exist() {
        let mut cli = command_line();
        cli.build();
        let answers = COMMANDS.iter().map(|c| c.1).chain(OPTIONS.iter().map(|o| o.2));
        let quoted = answers.flat_map(|a| a.split('`').skip(1).step_by(2));
        for command in quoted.filter_map(|q| q.strip_prefix("segno ")) {
            let mut words = command.split(' ');
            let name = words.next().unwrap_or_default();
            let Some(sub) = cli.find_subcommand(name) else {
                assert_eq!(name, "--version", "{command}");
                continue;
            };
            for option in words.filter(|w| w.starts_with('-')) {
                let known = sub.get_arguments().any(|a| {
                    a.get_short().is_some_and(|s| option == format!("-{s}"))
                        || a.get_long().is_some_and(|l| option == format!("--{l}"))
                });
                assert!(known, "{command}: {option}");
            }
        }
    }
}
