//! The table of docs/exclusion.md: each command with each other user of the same bytes, on real mounts. Needs root, as it attaches loop
//! devices and mounts; it is left out without.
use super::fsck::damaged as damage;
use super::{Scratch, output};
use std::fs::{OpenOptions, create_dir, create_dir_all, read, write};
use std::os::unix::fs::FileExt;
use std::process::{Command, Output};

/// Commands that write, with `I` for the image and `F` for a file to be stored.
pub(super) const WRITERS: [&str; 23] = [
    "mount I D",
    "put I F /",
    "mkdir -p I /made",
    "touch I /made/one",
    "mv I /made/one /made/two",
    "ln -s I two /made/link",
    "chmod I 600 /made/two",
    "chown I 1:2 /made/two",
    "setfattr -n user.x I /made/two",
    "rm -r I /made",
    "shell -c ls I",
    "mkfs -f I",
    "mkfs -f --size 64M I",
    "check -a I",
    "check -y I",
    "journal replay I",
    "journal discard I",
    "journal create I",
    "journal resize --size 8M I",
    "journal remove I",
    "put I F /a",
    "build -f D I",
    "label I new",
];
pub(super) const READERS: [&str; 18] = [
    "label I",
    "info I",
    "stat I /a",
    "getfattr I /a",
    "shell -r -c ls I",
    "report I",
    "extract I O",
    "ls I",
    "cat I /a",
    "get I / O",
    "dump I sb",
    "map I",
    "extents --image I /a",
    "check -n I",
    "rescue --list I",
    "undelete I",
    "journal info I",
    "sparse pack I O",
];

/// Another user of the image: scripts that begin and end it, the commands it excludes, and their message.
struct Other {
    name: &'static str,
    begin: &'static str,
    end: &'static str,
    refused: Refused,
    said: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Refused {
    Nobody,
    Writers,
    All,
}

const LOOP: &str = "L=$(losetup --find --show $I)";
const OTHERS: [Other; 8] = [
    Other {
        name: "a writable mount",
        begin: "$S mount $I $M",
        end: "$S umount $M",
        refused: Refused::All,
        said: "is mounted at $M: `segno umount $M` first",
    },
    Other {
        name: "a read-only mount",
        begin: "$S mount -o ro $I $M",
        end: "$S umount $M",
        refused: Refused::Writers,
        said: "is mounted at $M: `segno umount $M` first",
    },
    Other {
        name: "a loop device",
        begin: LOOP,
        end: "losetup -d $L",
        refused: Refused::Writers,
        said: "is in use: $L uses it; `losetup -d $L` first",
    },
    Other {
        name: "a loop device that the kernel has mounted read-only",
        begin: "L=$(losetup --find --show $I) && mount -t squashfs -o ro $L $M",
        end: "umount $M; losetup -d $L",
        refused: Refused::Writers,
        said: "is in use: $L, mounted at $M, uses it; `umount $M` and `losetup -d $L` first",
    },
    Other {
        name: "a part of the image that the kernel has mounted writable",
        begin: "truncate -s 80M $I && L=$(losetup --find --show -o 67108864 $I) && mkfs.ext4 -q $L && mount -t ext4 $L $M",
        end: "umount $M; losetup -d $L; truncate -s 64M $I",
        refused: Refused::All,
        said: "is in use: $L, mounted at $M, uses it; `umount $M` and `losetup -d $L` first",
    },
    Other {
        name: "a loop device mounted in another namespace",
        begin: "L=$(losetup --find --show $I) && { unshare --mount sh -c \"mount -t squashfs -o ro $L $M && touch $M.up && exec sleep 60\" & N=$!; \
                while kill -0 $N && ! test -e $M.up; do sleep 0.01; done; test -e $M.up; }",
        end: "kill $N; wait $N; rm $M.up; losetup -d $L",
        refused: Refused::All,
        said: "is in use: $L uses it; `losetup -d $L` first",
    },
    Other {
        name: "a mount of segno on a loop device",
        begin: "L=$(losetup --find --show $I) && $S mount $L $M",
        end: "$S umount $M; losetup -d $L",
        refused: Refused::All,
        said: "is mounted at $M: `segno umount $M` first",
    },
    // Any user may mount one with this name.
    Other {
        name: "a FUSE file system with the name of the image",
        begin: "exec 9<>/dev/fuse && mount -i -t fuse.segno -o fd=9,rootmode=40000,user_id=65534,group_id=65534 $I $M",
        end: "exec 9<&-; umount -l $M",
        refused: Refused::Nobody,
        said: "",
    },
];

/// Runs a shell script in a new mount namespace.
fn run(scratch: &Scratch, script: &str) -> Option<Output> {
    let (path, program) = (|name| scratch.path(name).display().to_string(), env!("CARGO_BIN_EXE_segno"));
    let _exists = create_dir(scratch.path("m"));
    let script = format!("S={program} I={} M={}; {script}", scratch.image(), path("m"));
    let out = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output().ok()?;
    if out.status.code() == Some(99) || out.stderr.starts_with(b"unshare") {
        println!("NOT TESTED: {}", String::from_utf8_lossy(&out.stderr));
        return None;
    }
    Some(out)
}

/// Message and exit code of each command while another user is there; `None` if this machine lacks that user.
fn beside(scratch: &Scratch, other: &Other, commands: &[&str]) -> Option<Vec<(String, i32)>> {
    let file = scratch.path("file");
    write(&file, "content").unwrap();
    let mut script =
        format!("{{ {}; }} >&2 || exit 99; echo \"said: {}\"; ", other.begin, other.said.replace('`', "\\`"));
    for (i, command) in commands.iter().enumerate() {
        let out = scratch.path(&format!("{}-{i}", other.name.replace(' ', "-")));
        create_dir_all(format!("{}-dir", out.display())).unwrap();
        let words = command.split(' ').map(|word| match word {
            "I" => "$I".to_owned(),
            "F" => file.display().to_string(),
            "D" => format!("{}-dir", out.display()),
            "O" => out.display().to_string(),
            word => word.to_owned(),
        });
        let words = words.collect::<Vec<_>>().join(" ");
        script += &format!("$S {words} 2>$M.err >/dev/null 9<&-; echo \"code: $?\"; cat $M.err; ");
        if command.starts_with("mount") {
            script += &format!("$S umount {}-dir 2>/dev/null; ", out.display());
        }
    }
    script += other.end;
    let out = run(scratch, &script)?;
    let text = String::from_utf8(out.stdout).unwrap();
    let (said, answers) = text.split_once("code: ").unwrap();
    let expected = said.trim().strip_prefix("said:").unwrap().trim().to_owned();
    let answers = answers.split("code: ").map(|answer| {
        let (code, said) = answer.split_once('\n').unwrap();
        let said = if expected.is_empty() { said.to_owned() } else { said.replace(&expected, "SAID") };
        (said, code.parse().unwrap())
    });
    Some(answers.collect())
}

/// A volume with a file.
fn volume() -> Scratch {
    let scratch = Scratch::new();
    write(scratch.path("a"), "a").unwrap();
    output(&["put", &scratch.image(), scratch.path("a").to_str().unwrap(), "/a"]);
    as_squashfs(&scratch);
    scratch
}

/// Makes a volume one that Linux also mounts as a SquashFS: the tables of an empty one are between superblocks and checkpoint.
fn as_squashfs(scratch: &Scratch) {
    let image = OpenOptions::new().write(true).open(scratch.image()).unwrap();
    let (superblock, tables) = squashfs(8192);
    image.write_all_at(&superblock, 0).unwrap();
    image.write_all_at(&tables, 8192).unwrap();
}

/// The superblock of an empty SquashFS, and its tables, which are at this byte.
fn squashfs(at: u64) -> (Vec<u8>, Vec<u8>) {
    let mut tables = Vec::new();
    // Metadata that is not compressed: the inode of a directory without entries, then no directory, then user and group.
    let inode: [u16; 16] = [1, 0o755, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 3, 0, 2, 0];
    tables.extend((0x8000u16 | 32).to_le_bytes());
    tables.extend(inode.iter().flat_map(|v| v.to_le_bytes()));
    let ids = at + tables.len() as u64;
    tables.extend((0x8000u16 | 4).to_le_bytes());
    tables.extend(0u32.to_le_bytes());
    let index = at + tables.len() as u64;
    tables.extend(ids.to_le_bytes());
    let mut superblock = Vec::new();
    superblock.extend([0x7371_7368u32, 1, 0, 1 << 17, 0].iter().flat_map(|v| v.to_le_bytes()));
    superblock.extend([1u16, 17, 0x10, 1, 4, 0].iter().flat_map(|v| v.to_le_bytes()));
    let none = u64::MAX;
    superblock.extend([0, index + 8, index, none, at, ids, none, none].iter().flat_map(|v| v.to_le_bytes()));
    (superblock, tables)
}

/// The exit code of a refusal by fsck(8) is another one.
fn refusal_of(command: &str) -> i32 {
    if command.starts_with("check") { 8 } else { 1 }
}

/// Runs all commands with each of the other users, and returns the violations of the table.
fn violations(
    others: &[Other],
    made: impl Fn() -> Scratch,
    (readers, writers): (&[&str], &[&str]),
) -> Vec<String> {
    let mut wrong = Vec::new();
    for other in others {
        let scratch = made();
        let before = read(scratch.image()).unwrap();
        // Refusals write nothing, so they come first.
        for (commands, refused) in
            [(readers, other.refused == Refused::All), (writers, other.refused != Refused::Nobody)]
        {
            let Some(answers) = beside(&scratch, other, commands) else { continue };
            assert_eq!(answers.len(), commands.len());
            for (command, (said, code)) in commands.iter().zip(answers) {
                let right = if refused {
                    said.contains("SAID") && said.lines().count() == 1 && code == refusal_of(command)
                } else {
                    let in_use = said.contains(" in use") || said.contains("is mounted");
                    !in_use && (code == 0 || command.starts_with("journal"))
                };
                if !right {
                    wrong.push(format!("{command} beside {}: {code}: {said}", other.name));
                }
            }
            let is_written = ["$S mount", "--show $I) && mkfs"].iter().any(|w| other.begin.contains(w));
            if refused && !is_written && before != read(scratch.image()).unwrap() {
                wrong.push(format!("a refused command wrote beside {}", other.name));
            }
        }
    }
    wrong
}

#[test]
fn each_command_beside_each_other_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let wrong = violations(&OTHERS, volume, (&READERS, &WRITERS));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Commands on a loop device, whose image is in use.
#[test]
fn commands_on_a_block_device_beside_users_of_it_and_of_its_image() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let others = [
        Other {
            name: "a mount of its image",
            begin: "$S mount $I $M && L=$(losetup --find --show $I)",
            end: "$S umount $M; losetup -d $L",
            refused: Refused::All,
            said: "is mounted at $M: `segno umount $M` first",
        },
        Other {
            name: "a read-only mount of its image",
            begin: "$S mount -o ro $I $M && L=$(losetup --find --show $I)",
            end: "$S umount $M; losetup -d $L",
            refused: Refused::Writers,
            said: "is mounted at $M: `segno umount $M` first",
        },
        Other {
            name: "its mount by the kernel",
            begin: "L=$(losetup --find --show $I) && mkfs.ext4 -q $L && mount -t ext4 $L $M",
            end: "umount $M; losetup -d $L",
            refused: Refused::All,
            said: "is mounted at $M: `umount $M` first",
        },
        Other {
            name: "another loop device over the same bytes",
            begin: "L=$(losetup --find --show $I) && K=$(losetup --find --show $I)",
            end: "losetup -d $K; losetup -d $L",
            refused: Refused::Writers,
            said: "is in use: $K uses it; `losetup -d $K` first",
        },
        Other {
            name: "a mount of other bytes of the same image",
            begin: "truncate -s 160M $I && K=$(losetup --find --show -o 83886080 $I) && L=$(losetup --find --show --sizelimit 67108864 $I) && \
                    $S mkfs -q -f $K && $S mount $K $M",
            end: "$S umount $M; losetup -d $K; losetup -d $L",
            refused: Refused::Nobody,
            said: "",
        },
    ];
    let of_device = |commands: &[&'static str]| -> Vec<String> {
        let commands = commands.iter().filter(|c| !c.contains("--size") && !c.starts_with("build"));
        commands
            .map(|c| c.split(' ').map(|w| if w == "I" { "$L" } else { w }).collect::<Vec<_>>().join(" "))
            .collect()
    };
    let (readers, writers) = (of_device(&READERS), of_device(&WRITERS));
    let words = |commands: &'static [String]| commands.iter().map(String::as_str).collect::<Vec<_>>();
    let (readers, writers) = (words(readers.leak()), words(writers.leak()));
    let wrong = violations(&others, volume, (&readers, &writers));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// As the root is when the system starts: the mount does not know of the repair.
#[test]
fn a_block_device_that_the_kernel_has_mounted_read_only() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = Scratch::new();
    damage(&scratch);
    as_squashfs(&scratch);
    let script = "L=$(losetup --find --show $I) && mount -t squashfs -o ro $L $M || exit 99; \
                  for args in '$L -n' '$L -y' '$L -a'; do eval $S check $args >/dev/null; echo $?; done; \
                  $S info $L >/dev/null; echo $?; $S put $L $I / ; echo $?; $S check -y $I; echo $?; umount $M; losetup -d $L";
    let Some(out) = run(&scratch, script) else { return };
    let (codes, said) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    assert_eq!(codes.split_whitespace().collect::<Vec<_>>(), ["4", "3", "0", "0", "1", "8"], "{said}");
    let refused: Vec<&str> = said.lines().filter(|l| l.starts_with("segno: /")).collect();
    assert!(
        refused.len() == 2 && refused[0].contains("is mounted at") && refused[1].contains("is in use"),
        "{said}"
    );
}

/// Without the right to open loop devices, a user finds them by the path of the backing file.
#[test]
fn a_user_who_cannot_open_the_loop_device() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let scratch = volume();
    let script = "B=$(dirname $I); chmod 755 $B; chmod 666 $I; cp $S $B/segno; L=$(losetup --find --show $I) || exit 99; chmod 600 $L; \
                  U=\"setpriv --reuid=65534 --regid=65534 --clear-groups $B/segno\"; \
                  $U info $I >/dev/null; echo $?; $U put $I $S /b; echo $?; losetup -d $L; $U put $I $B/a /b >/dev/null; echo $?";
    let Some(out) = run(&scratch, script) else { return };
    let (codes, said) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
    assert_eq!(codes.split_whitespace().collect::<Vec<_>>(), ["0", "1", "0"], "{said}");
    assert!(said.contains("is in use: /dev/loop") && said.contains(" uses it; `losetup -d "), "{said}");
}
