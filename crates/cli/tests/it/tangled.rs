//! Directories that lead to themselves, and blocks that have two owners: each command ends, names the damage and shows the rest.
use super::{Scratch, json, output, segno};
use segno_format::inode::RawInode;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Features};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// Slots that name one block.
const SHARED: u32 = 700;

/// A volume with `/a/b/c`, `/d/file`, `/one` and `/two`.
fn made() -> Scratch {
    let scratch = Scratch::new();
    let tree = scratch.path("tree");
    for dir in ["a/b/c", "d"] {
        fs::create_dir_all(tree.join(dir)).unwrap();
    }
    for file in ["d/file", "one", "two"] {
        fs::write(tree.join(file), file.repeat(2000)).unwrap();
    }
    for name in ["a", "d", "one", "two"] {
        output(&["put", &scratch.image(), tree.join(name).to_str().unwrap(), "/"]);
    }
    scratch
}

fn dump(scratch: &Scratch, path: &str) -> Value {
    json(&["dump", "--json", &scratch.image(), "path", path])
}

fn number(scratch: &Scratch, path: &str) -> u32 {
    dump(scratch, path)["footer"]["ino"].as_u64().unwrap() as u32
}

/// Changes the block of an inode.
fn edit(scratch: &Scratch, path: &str, change: impl FnOnce(&mut Block)) {
    let at = dump(scratch, path)["blkaddr"].as_u64().unwrap() * BLOCK_SIZE as u64;
    let file = File::options().read(true).write(true).open(scratch.image()).unwrap();
    let mut block = Block::zeroed();
    file.read_exact_at(&mut block.0, at).unwrap();
    change(&mut block);
    file.write_all_at(&block.0, at).unwrap();
}

/// Lets the name of a subdirectory lead to another inode.
fn lead(scratch: &Scratch, dir: &str, old: u32, new: u32) {
    edit(scratch, dir, |block| {
        // An entry: inode number, length of the name, type.
        let entry = [&old.to_le_bytes()[..], &[1, 0, 2]].concat();
        let at = block.0.windows(7).position(|bytes| bytes == entry).unwrap();
        block.0[at..at + 4].copy_from_slice(&new.to_le_bytes());
    });
}

fn slot(scratch: &Scratch, path: &str, i: u32) -> BlockAddr {
    let mut found = BlockAddr::NULL;
    edit(scratch, path, |block| {
        let raw: &RawInode = block.view();
        found = raw.slot(&raw.layout(features()).unwrap(), i);
    });
    found
}

fn features() -> Features {
    Features::EXTRA_ATTR | Features::INODE_CRTIME
}

fn set_slot(block: &mut Block, i: u32, addr: BlockAddr) {
    let raw: &mut RawInode = block.view_mut();
    let layout = raw.layout(features()).unwrap();
    raw.set_slot(&layout, i, addr);
}

struct Case {
    name: &'static str,
    make: fn(&Scratch),
    /// Path that errors name.
    at: &'static str,
    /// Inode that they name.
    ino: fn(&Scratch) -> u32,
}

const TREES: [Case; 3] = [
    Case {
        name: "a subdirectory is the root",
        make: |s| lead(s, "/a", number(s, "/a/b"), 3),
        at: "/a/b",
        ino: |_| 3,
    },
    Case {
        name: "a subdirectory is its parent",
        make: |s| lead(s, "/a/b", number(s, "/a/b/c"), number(s, "/a/b")),
        at: "/a/b/c",
        ino: |s| number(s, "/a/b"),
    },
    Case {
        name: "a directory has two names",
        make: |s| lead(s, "/a/b", number(s, "/a/b/c"), number(s, "/d")),
        at: "",
        ino: |s| number(s, "/d"),
    },
];

/// Commands that walk the tree, and whether they show the rest of it; others make nothing.
pub(super) const WALKERS: [(&str, bool); 10] = [
    ("ls -R I", true),
    ("ls -R --json I", true),
    ("extents --all --image I /", true),
    ("extents --all --json --image I /", true),
    ("get I / D", true),
    ("get --json I / D", true),
    ("extract I D", false),
    ("build I D", false),
    ("chmod -R I u+rX /", false),
    ("chown -R I 0:0 /", false),
];

/// Commands that search a volume, and their exit codes.
pub(super) const SEARCHES: [(&str, i32); 5] = [
    ("check I", 4),
    ("rescue --list I", 1),
    ("rescue I D", 1),
    ("rescue --to-image D I", 1),
    ("undelete I", 0),
];

fn run(scratch: &Scratch, command: &str) -> (i32, String, String) {
    let (image, new) = (scratch.image(), scratch.path("new"));
    let _gone = fs::remove_dir_all(&new).or_else(|_| fs::remove_file(&new));
    let words = command.split(' ').map(|word| match word {
        "I" => image.as_str(),
        "D" => new.to_str().unwrap(),
        word => word,
    });
    let out = segno(&words.collect::<Vec<_>>());
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (out.status.code().unwrap(), text(out.stdout), text(out.stderr))
}

#[test]
fn every_walk_of_a_damaged_tree_ends_and_names_the_damage() {
    for case in TREES {
        let scratch = made();
        let ino = (case.ino)(&scratch);
        (case.make)(&scratch);
        for (command, goes_on) in WALKERS {
            let context = format!("{command}: {}", case.name);
            let (code, stdout, stderr) = run(&scratch, command);
            assert_eq!(code, 1, "{context}: {stderr}");
            assert_eq!(stderr.lines().count(), 1, "{context}: {stderr}");
            assert!(
                stderr.contains(case.at) && stderr.contains(&format!("nid {ino}:")),
                "{context}: {stderr}"
            );
            let new = scratch.path("new");
            // A directory of two names is read by one of them.
            let copied = [&["d/file", "a/b/c/file"][..], &["one"], &["two"]];
            let copied = copied.iter().filter(|either| either.iter().any(|f| new.join(f).exists())).count();
            let listed = ["file", "one", "two"].iter().filter(|name| stdout.contains(*name)).count();
            let found = if command.starts_with("get") { copied } else { listed };
            assert_eq!(found, if goes_on { 3 } else { 0 }, "{context}: {stdout}");
        }
    }
}

/// A check and a search follow the nodes, not the names.
#[test]
fn searches_of_a_damaged_tree_find_each_file_once() {
    for case in TREES {
        let scratch = made();
        (case.make)(&scratch);
        for (command, expected) in SEARCHES {
            let context = format!("{command}: {}", case.name);
            let (code, stdout, stderr) = run(&scratch, command);
            assert_eq!(code, expected, "{context}: {stderr}");
            let lines = |name: &str| stdout.lines().filter(|line| line.ends_with(name)).count();
            let listed = ["one", "two", "d/file"].map(lines);
            assert_eq!(listed, [usize::from(command == "rescue --list I"); 3], "{context}: {stdout}");
            let copied = ["one", "two", "d/file"].map(|name| scratch.path("new").join(name).is_file());
            assert_eq!(copied, [command == "rescue I D"; 3], "{context}");
            if command.starts_with("check") {
                assert!(stdout.contains("3 files, "), "{context}: {stdout}");
            }
        }
    }
}

#[test]
fn a_block_that_an_inode_names_often_is_not_multiplied() {
    let scratch = made();
    let (ino, addr) = (number(&scratch, "/one"), slot(&scratch, "/one", 0));
    edit(&scratch, "/one", |block| {
        (0..SHARED).for_each(|i| set_slot(block, i, addr));
        let raw: &mut RawInode = block.view_mut();
        raw.i_size.set(u64::from(SHARED) * BLOCK_SIZE as u64);
        raw.i_blocks.set(u64::from(SHARED) + 1);
    });
    for command in [
        "cat I /one",
        "get I /one D",
        "get I /one -",
        "get I / D",
        "extract I D",
        "build I D",
        "extents --image I /one",
    ] {
        let (code, stdout, stderr) = run(&scratch, command);
        assert_eq!(code, 1, "{command}: {stderr}");
        assert!(stdout.len() < BLOCK_SIZE && !stdout.contains("oneone"), "{command}: {} bytes", stdout.len());
        let damage = format!("nid {ino}: address in two slots (found {addr},");
        assert!(stderr.contains("one") && stderr.contains(&damage), "{command}: {stderr}");
        let new = scratch.path("new");
        assert_eq!(new.join("two").exists(), command == "get I / D", "{command}");
        assert!(!new.join("one").exists() && !new.is_file(), "{command}");
    }
    // It still has attributes and can be removed.
    output(&["stat", &scratch.image(), "/one"]);
    output(&["ls", "-l", &scratch.image()]);
}

#[test]
fn a_block_of_two_files_is_copied_for_one() {
    let scratch = made();
    let (addr, ino) = (slot(&scratch, "/one", 0), number(&scratch, "/two"));
    edit(&scratch, "/two", |block| set_slot(block, 0, addr));
    for command in ["get I / D", "extract I D", "build I D"] {
        let (code, _, stderr) = run(&scratch, command);
        assert_eq!(code, 1, "{command}: {stderr}");
        let of_either =
            [number(&scratch, "/one"), ino].iter().any(|ino| stderr.contains(&format!("nid {ino}:")));
        let damage = format!("address of a block that has another owner (found {addr},");
        assert!(of_either && stderr.contains(&damage), "{command}: {stderr}");
        let there = ["one", "two"].iter().filter(|name| scratch.path("new").join(name).exists()).count();
        assert_eq!(there, usize::from(command == "get I / D"), "{command}");
    }
    // Each of them alone can be read.
    assert_eq!(output(&["cat", &scratch.image(), "/two"]).len(), 6000);
}

/// A file of one link with a second name, which would be copied as often as it has names.
#[test]
fn a_file_with_more_names_than_links_is_copied_once() {
    let scratch = Scratch::new();
    let tree = scratch.path("tree");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("one"), "1".repeat(9000)).unwrap();
    fs::hard_link(tree.join("one"), tree.join("two")).unwrap();
    output(&["put", &scratch.image(), tree.to_str().unwrap(), "/"]);
    let (code, _, stderr) = run(&scratch, "get I / D");
    assert_eq!((code, stderr.as_str()), (0, ""));
    let ino = number(&scratch, "/tree/one");
    edit(&scratch, "/tree/one", |block| block.view_mut::<RawInode>().i_links.set(1));
    for command in ["get I / D", "extract I D", "build I D"] {
        let (code, _, stderr) = run(&scratch, command);
        assert!(
            code == 1
                && stderr.contains(&format!("nid {ino}: more names than i_links (found 2, expected 1)")),
            "{command}: {stderr}"
        );
    }
}
