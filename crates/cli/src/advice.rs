//! Answers to commands and options of f2fs-tools and mount(8) that Segno lacks or names differently.
use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// A command that does not exist, under its names, and what to do instead.
struct Missing {
    names: &'static [&'static str],
    answer: &'static str,
}

const COMMANDS: &[Missing] = &[
    Missing {
        names: &["fsck", "fsck.f2fs", "fsck.segno"],
        answer: "`segno check IMAGE` checks; -a repairs what costs no data, -y everything",
    },
    Missing { names: &["repair", "fix"], answer: "`segno check -y IMAGE` repairs a volume" },
    Missing {
        names: &["recover", "restore", "photorec"],
        answer: "`segno rescue IMAGE DIR` copies files of a damaged volume, \
        `segno undelete IMAGE` lists deleted ones",
    },
    Missing { names: &["format", "mkfs.f2fs", "mkfs.segno"], answer: "`segno mkfs IMAGE` formats" },
    Missing {
        names: &["dump.f2fs"],
        answer: "`segno dump IMAGE WHAT` shows structures, `segno get` copies files",
    },
    Missing {
        names: &["resize", "resize.f2fs", "grow", "shrink"],
        answer: "Segno does not resize volumes. Unmount it and use `resize.f2fs` of f2fs-tools, after `segno journal \
                 discard IMAGE` if a journal is behind the volume; or make a larger one and copy the files",
    },
    Missing {
        names: &["label", "f2fslabel", "f2fslabel.f2fs", "tune"],
        answer: "`segno info IMAGE` shows the label. To change it: \
                 `f2fslabel IMAGE LABEL` of f2fs-tools, or on a mount `xfs_io -c 'label -s LABEL' DIR`",
    },
    Missing {
        names: &["defrag", "defrag.f2fs", "defragment"],
        answer: "Segno does not defragment files. `segno extents FILE` shows the pieces of a file, a copy of it has \
                 fewer; `segno ctl DIR gc=now` collects free space",
    },
    Missing {
        names: &["sload", "sload.f2fs"],
        answer: "`segno put IMAGE SOURCE` copies a tree into a volume",
    },
    Missing {
        names: &["inject", "inject.f2fs"],
        answer: "Segno does not damage volumes on request; `segno crashtest` tries damage in memory",
    },
    Missing {
        names: &["f2fs_io", "io"],
        answer: "`segno ctl DIR gc=now` cleans, `segno sync DIR` makes changes durable, `segno extents FILE` shows \
                 blocks, `segno ctl DIR shutdown=2` stops a mount that permits it",
    },
    Missing { names: &["f2fstat", "status"], answer: "`segno stats DIR` shows the counters of a mount" },
    Missing {
        names: &["fibmap", "fibmap.f2fs", "filefrag"],
        answer: "`segno extents FILE` shows the blocks of a file",
    },
    Missing {
        names: &["f2fscrypt", "encrypt"],
        answer: "Segno has no keys: names of encrypted files are shown encoded, and their data cannot be read",
    },
    Missing {
        names: &["trim", "fstrim", "discard"],
        answer: "`fstrim DIR` discards the free space of a mount",
    },
    Missing { names: &["unmount"], answer: "`segno umount DIR` unmounts" },
    Missing {
        names: &["remount"],
        answer: "`mount -o remount,ro DIR` and `mount -o remount,rw DIR` change a mount",
    },
    Missing {
        names: &["cp", "copy", "extract-files", "pull", "push"],
        answer: "`segno get IMAGE PATH… DEST` copies out of an image and `segno put IMAGE SOURCE… [/PATH]` into it",
    },
    Missing {
        names: &["df"],
        answer: "`segno info IMAGE` shows the space of an image, df(1) that of a mount",
    },
    Missing { names: &["version"], answer: "`segno --version` shows the version" },
    Missing {
        names: &["quota", "setquota", "repquota"],
        answer: "Segno counts usage and does not enforce limits; there is no command for quotas",
    },
];

/// An option that a command does not have, in its spellings, and what to do instead.
struct Foreign {
    command: &'static str,
    options: &'static [&'static str],
    answer: &'static str,
}

const fn foreign(command: &'static str, options: &'static [&'static str], answer: &'static str) -> Foreign {
    Foreign { command, options, answer }
}

const LEAVE_OUT: &str = "leave it out";
const RAW_ONLY: &str =
    "leave it out: sparse images are recognised and read in place; `segno sparse unpack` converts one";
const VERSION: &str = "`segno --version` shows the version";
const TREES: &str = "leave it out: a directory is copied with all that is in it, and with all attributes";

const OPTIONS: &[Foreign] = &[
    foreign(
        "mkfs",
        &["-g"],
        "it stands for a set of options; with mkfs.f2fs, `-g android` is `-f -w 4096 -R 0:0 -O \
         encrypt,quota,project_quota,extra_attr,verity`",
    ),
    foreign("mkfs", &["-a", "-d", "-H"], LEAVE_OUT),
    foreign("mkfs", &["-b"], "leave it out: blocks have 4096 bytes"),
    foreign("mkfs", &["-r"], "leave it out: -U and -T choose the volume id and the times"),
    foreign(
        "mkfs",
        &["-S"],
        "leave it out: with --size the image file is sparse already; `segno sparse pack` converts it to Android's sparse \
         format",
    ),
    foreign("mkfs", &["-V"], VERSION),
    foreign("mkfs", &["-L", "-n"], "the label is -l LABEL"),
    foreign("check", &["-g", "-H", "-m", "-O"], "leave it out: the volume itself states what it needs"),
    foreign("check", &["-l"], "`segno info IMAGE` shows superblock and checkpoint"),
    foreign("check", &["-M"], "`segno extents --all --image IMAGE /` shows where files are"),
    foreign("check", &["-t"], "`segno ls -R IMAGE` shows the directory tree"),
    foreign("check", &["-S"], RAW_ONLY),
    foreign("check", &["-r"], "leave it out; --json gives the details"),
    foreign(
        "dump",
        &["-i", "-I"],
        "`segno dump IMAGE inode INO` shows an inode, `segno dump IMAGE node NID` a node",
    ),
    foreign("dump", &["-n"], "`segno dump IMAGE nat FROM..END` shows the NAT"),
    foreign("dump", &["-s"], "`segno dump IMAGE sit FROM..END` shows the SIT"),
    foreign("dump", &["-a"], "`segno dump IMAGE ssa FROM..END` shows the summaries"),
    foreign(
        "dump",
        &["-b"],
        "`segno dump IMAGE block ADDR` shows a block and `segno dump IMAGE owner ADDR` whose it is",
    ),
    foreign("dump", &["-M"], "`segno extents --all --image IMAGE /` shows where files are"),
    foreign("dump", &["-o", "-r"], "`segno get IMAGE PATH… DEST` copies files"),
    foreign("dump", &["-d"], LEAVE_OUT),
    foreign("dump", &["-S"], RAW_ONLY),
    foreign("dump", &["-V"], VERSION),
    foreign("mount", &["-t"], "leave it out; with mount(8) the type is segno: `mount -t segno IMAGE DIR`"),
    foreign("mount", &["-r", "--read-only"], "`-o ro` mounts read-only"),
    foreign("mount", &["-w", "--rw"], "leave it out: a mount is writable unless `-o ro` is given"),
    foreign("mount", &["-a"], "`mount -a -t segno` mounts what fstab lists"),
    foreign(
        "umount",
        &["-l", "-f", "--lazy", "--force"],
        "umount(8) has it: `umount -l DIR` detaches a mount that is busy",
    ),
    foreign("ls", &["-a", "--all"], "leave it out: all names are shown"),
    foreign("get", &["-r", "-R", "-a", "-p"], TREES),
    foreign("put", &["-r", "-R", "-p"], TREES),
];

/// The answer to a usage error, if the word is known.
pub fn on(e: &clap::Error, args: &[OsString]) -> Option<anyhow::Error> {
    match (e.kind(), args.get(1)?.to_str()?) {
        (ErrorKind::InvalidSubcommand, word) if word.contains('/') => Some(anyhow!(
            "{word} is not a command: `segno info {word}` describes an image, `segno mount {word} DIR` mounts it"
        )),
        (ErrorKind::InvalidSubcommand, word) => {
            let found = COMMANDS.iter().find(|c| c.names.contains(&word))?;
            Some(anyhow!("there is no command {word}: {}", found.answer))
        }
        (ErrorKind::UnknownArgument, command) => {
            let option = string(e, ContextKind::InvalidArg)?;
            let is_it = |f: &&Foreign| f.command == command && f.options.contains(&option);
            let found = OPTIONS.iter().find(is_it)?;
            Some(anyhow!("{command} has no option {option}: {}", found.answer))
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
        for missing in COMMANDS {
            for name in missing.names {
                let said = answer(&["segno", name, "image"]).unwrap_or_default();
                assert!(said.contains(missing.answer), "{name}: {said}");
            }
        }
        for f in OPTIONS {
            for option in f.options {
                let said = answer(&["segno", f.command, option, "image"]).unwrap_or_default();
                assert!(said.contains(f.answer), "{} {option}: {said}", f.command);
            }
        }
    }

    /// Commands that an answer names exist, with their options.
    #[test]
    fn answers_name_commands_that_exist() {
        let mut cli = command_line();
        cli.build();
        let answers = COMMANDS.iter().map(|c| c.answer).chain(OPTIONS.iter().map(|o| o.answer));
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
