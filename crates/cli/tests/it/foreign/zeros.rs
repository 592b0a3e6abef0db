//! Doubt and loss are never reported as a success: discarded blocks, names without inodes, lost nodes.
use super::super::{Scratch, json, output, segno};
use super::tree::content;
use segno_format::BLOCK_SIZE;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

const BLOCKS: usize = 20;
/// Files of the volume: the first keeps its blocks, the second loses all, the third every third, and the fourth contains zeros.
const FILES: [&str; 4] = ["kept", "gone", "third", "zeros"];

/// A volume with these files, and the addresses of their blocks.
fn filled() -> (Scratch, HashMap<&'static str, Vec<u64>>) {
    let scratch = Scratch::new();
    for name in FILES {
        let bytes = BLOCKS * BLOCK_SIZE;
        let content = if name == "zeros" { vec![0; bytes] } else { content(name, bytes) };
        fs::write(scratch.path(name), content).unwrap();
        // `put` keeps holes of the host; these blocks are to be allocated.
        let device = ::segno::Device::open(scratch.image()).unwrap();
        let options = ::segno::MountOptions::new().discard(::segno::Discard::Never).background(false);
        let volume = ::segno::Volume::open_with(&device, &options).unwrap();
        volume.write(name, fs::read(scratch.path(name)).unwrap()).unwrap();
        volume.close().unwrap();
    }
    let addrs = FILES.map(|name| {
        let slots = json(&["dump", "--json", &scratch.image(), "path", name])["slots"].clone();
        let runs = slots.as_array().unwrap().iter().flat_map(|run| {
            let (first, count) = (run["addr"].as_u64().unwrap(), run["count"].as_u64().unwrap_or(1));
            first..first + count
        });
        (name, runs.collect::<Vec<u64>>())
    });
    assert!(addrs.iter().all(|(_, a)| a.len() == BLOCKS), "{addrs:?}");
    (scratch, addrs.into_iter().collect())
}

fn zero(scratch: &Scratch, blocks: impl IntoIterator<Item = u64>) {
    let image = File::options().write(true).open(scratch.image()).unwrap();
    blocks.into_iter().for_each(|at| image.write_all_at(&[0; BLOCK_SIZE], at * BLOCK_SIZE as u64).unwrap());
}

/// Deletes all files, as Linux does with `nodiscard`, and then discards.
fn deleted() -> Scratch {
    let (scratch, addrs) = filled();
    let device = ::segno::Device::open(scratch.image()).unwrap();
    let options = ::segno::MountOptions::new().discard(::segno::Discard::Never).background(false);
    let volume = ::segno::Volume::open_with(&device, &options).unwrap();
    FILES.iter().for_each(|name| volume.remove_file(name).unwrap());
    volume.close().unwrap();
    zero(&scratch, addrs["gone"].iter().chain(addrs["third"].iter().step_by(3)).copied());
    scratch
}

/// Exit code and report.
fn report(args: &[&str]) -> (i32, Value) {
    let out = segno(args);
    let report = serde_json::from_slice(&out.stdout);
    (out.status.code().unwrap(), report.unwrap_or_else(|e| panic!("{args:?}: {e}: {out:?}")))
}

fn text(args: &[&str]) -> (i32, String) {
    let out = segno(args);
    let all = [out.stdout, out.stderr].concat();
    (out.status.code().unwrap(), String::from_utf8(all).unwrap())
}

#[test]
fn discarded_blocks_are_neither_proven_nor_a_success() {
    let scratch = deleted();
    let image = scratch.image();
    let (code, listed) = report(&["undelete", "--json", &image]);
    assert_eq!(code, 1, "{listed}");
    let found: Vec<_> = listed["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| {
            (f["path"].as_str().unwrap(), f["class"].as_str().unwrap(), f["blocks"]["zero"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(found, [("kept", "A", 0), ("gone", "C", 20), ("third", "C", 7), ("zeros", "C", 20)]);
    assert_eq!([&listed["whole"], &listed["doubtful"], &listed["failed"]], [1, 3, 0]);
    let (code, said) = text(&["undelete", &image]);
    assert!(code == 1 && said.contains("4 deleted files: 1 whole, 3 partial or doubtful"), "{said}");
    assert!(
        said.contains("  0 % ") && said.contains(" 65 % ") && said.matches("100 % ").count() == 1,
        "{said}"
    );

    let target = scratch.path("back");
    let (code, said) = text(&["undelete", "--to", target.to_str().unwrap(), &image]);
    assert!(code == 1 && said.contains("1 whole, 1 partial or doubtful, 2 not copied"), "{said}");
    let names: std::collections::BTreeSet<_> =
        fs::read_dir(&target).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), ["kept", "third.partial"]);
    assert!(fs::read(target.join("kept")).unwrap() == fs::read(scratch.path("kept")).unwrap());
}

#[test]
fn the_older_checkpoint_lists_discarded_blocks_as_doubtful() {
    let scratch = deleted();
    let (code, listed) = report(&["undelete", "--previous", "--json", &scratch.image()]);
    let classes: HashMap<_, _> = listed["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (f["path"].as_str().unwrap(), f["class"].as_str().unwrap()))
        .collect();
    assert_eq!(code, 1, "{listed}");
    assert_eq!(classes, HashMap::from([("kept", "A"), ("gone", "C"), ("third", "C"), ("zeros", "C")]));
}

/// Zeros in blocks that a file has are its content.
#[test]
fn zeros_of_a_live_file_are_not_doubtful() {
    let (scratch, _) = filled();
    let (code, listed) = report(&["rescue", "--list", "--json", &scratch.image()]);
    assert_eq!((code, &listed["classes"]), (0, &serde_json::json!({ "A": 4, "B": 0, "C": 0 })), "{listed}");
}

/// Every form of a rescue fails if a file is doubtful, and gives their number.
#[test]
fn a_rescue_with_doubtful_files_fails() {
    let (scratch, _) = filled();
    let image = scratch.image();
    let (large, out, new) = (scratch.path("large"), scratch.path("out"), scratch.path("new"));
    fs::write(&large, content("large", 5 << 20)).unwrap();
    output(&["put", &image, large.to_str().unwrap(), "/"]);
    let nid = json(&["dump", "--json", &image, "path", "/large"])["inode"]["i_nid"][0].to_string();
    let node = json(&["dump", "--json", &image, "node", &nid])["blkaddr"].as_u64().unwrap();
    zero(&scratch, [node]);
    let (out, new) = (out.to_str().unwrap(), new.to_str().unwrap());
    for args in [&["--list", &image][..], &[&image, out], &["--to-image", new, &image]] {
        let (code, said) = text(&[&["rescue"], args].concat());
        assert!(
            code == 1 && said.contains("4 proven (A), 0 without contradiction (B), 1 doubtful (C)"),
            "{said}"
        );
    }
    let (code, listed) = report(&["rescue", "--list", "--json", &image]);
    assert_eq!((code, &listed["classes"]["C"]), (1, &1.into()), "{listed}");
}

#[test]
fn names_of_which_no_inode_is_found_are_a_failure() {
    let (scratch, _) = filled();
    let image = scratch.image();
    let inode = |name| json(&["dump", "--json", &image, "path", name])["blkaddr"].as_u64().unwrap();
    let inodes = FILES.map(inode);
    zero(&scratch, inodes[1..].iter().copied());
    let (code, said) = text(&["rescue", "--list", &image]);
    assert!(
        code == 1 && said.contains("3 more are lost: their names were found, but not their inodes"),
        "{said}"
    );
    zero(&scratch, [inodes[0]]);
    let (code, said) = text(&["rescue", "--list", &image]);
    assert!(code == 1 && said.contains("no files and directories were found, only 4 names"), "{said}");
    assert_eq!(report(&["rescue", "--list", "--json", &image]).0, 1);
}
