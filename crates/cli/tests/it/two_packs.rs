//! Two checkpoint packs of which one has two valid ends of one version and different contents: no reader takes it for a checkpoint.
use super::{Scratch, json, output, segno};
use segno_device::{BlockDevice, FileDevice, OpenOptions};
use segno_format::Block;
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use std::fs::{read, write};

/// Commands that print something that depends on the checkpoint, with I for the image, O for a new path.
const READERS: [&str; 17] = [
    "info --json I",
    "info I",
    "check --json I",
    "check -a --json I",
    "check -n I",
    "ls I",
    "stat I /file",
    "cat I /file",
    "get I /file O",
    "extract I O",
    "extents --image I /file",
    "map --json I",
    "dump I sit 0..1",
    "rescue --list --json I",
    "undelete --json I",
    "journal info I",
    "report I",
];

/// A volume with a file.
fn volume() -> Scratch {
    let scratch = Scratch::new();
    let image = scratch.image();
    output(&["mkfs", "-q", "-f", "--size", "64M", "--journal", "4M", &image]);
    write(scratch.path("file"), vec![b'a'; 10_000]).unwrap();
    output(&["put", &image, scratch.path("file").to_str().unwrap(), "/file"]);
    scratch
}

fn pack_in_force(image: &str) -> u64 {
    json(&["info", "--json", image])["checkpoint"]["pack"].as_u64().unwrap()
}

/// Writes the pack in force over the other one, as its next version; `torn` with another state in its first block than in its last. A reader
/// that takes such a pack refuses the volume, or reports an unclean unmount.
fn follow(image: &str, torn: bool) {
    let info = json(&["info", "--json", image]);
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let total = number(&info["checkpoint"]["cp_pack_total_block_count"]) as usize;
    let (pack, start) = (number(&info["checkpoint"]["pack"]) - 1, number(&info["superblock"]["cp_blkaddr"]));
    let device = FileDevice::open(image, OpenOptions::default()).unwrap();
    let mut blocks = vec![Block::zeroed(); total];
    device.read(start + pack * 512, &mut blocks).unwrap();
    for at in [0, total - 1] {
        let cp: &mut RawCheckpoint = blocks[at].view_mut();
        cp.checkpoint_ver.set(cp.checkpoint_ver.get() + 1);
        if torn && at == 0 {
            cp.ckpt_flags.set(((cp.flags() - CpFlags::UMOUNT) | CpFlags::ERROR).bits());
        }
        RawCheckpoint::seal(&mut blocks[at]);
    }
    let [first, last] = [0, total - 1].map(|at| *blocks[at].view::<RawCheckpoint>());
    assert!(first.checkpoint_ver == last.checkpoint_ver && (first.ckpt_flags != last.ckpt_flags) == torn);
    device.write(start + (1 - pack) * 512, &blocks.iter().collect::<Vec<_>>()).unwrap();
}

/// Exit code and output of each reader.
fn answers(scratch: &Scratch, round: &str) -> Vec<(String, Option<i32>, String)> {
    let answer = |(n, command): (usize, &&str)| {
        let out = scratch.path(&format!("out-{round}-{n}"));
        let image = scratch.image();
        let words: Vec<&str> = command
            .split(' ')
            .map(|word| match word {
                "I" => image.as_str(),
                "O" => out.to_str().unwrap(),
                word => word,
            })
            .collect();
        let done = segno(&words);
        let text = [done.stdout, done.stderr].map(|t| String::from_utf8(t).unwrap()).concat();
        ((*command).to_owned(), done.status.code(), text.replace(round, "ROUND"))
    };
    READERS.iter().enumerate().map(answer).collect()
}

#[test]
fn all_readers_take_the_same_of_two_packs() {
    let mut seen = Vec::new();
    for moved in [false, true] {
        let scratch = volume();
        let image = scratch.image();
        if moved {
            follow(&image, false);
        }
        let pack = pack_in_force(&image);
        let before = answers(&scratch, "round-1");
        for (command, code, said) in &before {
            assert_eq!(*code, Some(0), "{command}: {said}");
        }
        follow(&image, true);
        let torn = read(&image).unwrap();
        for (before, after) in before.iter().zip(answers(&scratch, "round-2")) {
            assert_eq!(*before, after, "pack {pack} is in force");
        }
        let other = 3 - pack;
        let dumped = output(&["dump", &image, "cp", &other.to_string()]);
        assert!(dumped.contains("checksum at the end of the pack"), "{dumped}");
        assert_eq!(segno(&["undelete", "--previous", &image]).status.code(), Some(1));
        assert!(torn == read(&image).unwrap(), "a reader wrote");
        // A writer replaces the torn pack.
        output(&["put", &image, scratch.path("file").to_str().unwrap(), "/next"]);
        assert!(!output(&["dump", &image, "cp"]).contains("at the end of the pack"));
        assert!(output(&["check", "-f", &image]).ends_with("clean\n"));
        seen.push(pack);
    }
    seen.sort_unstable();
    assert_eq!(seen, [1, 2]);
}

/// The checkpoint blocks of both packs with a change; a pack that was never written stays as it is.
fn change_both(image: &str, change: fn(&mut RawCheckpoint)) {
    let start = json(&["info", "--json", image])["superblock"]["cp_blkaddr"].as_u64().unwrap();
    let device = FileDevice::open(image, OpenOptions::default()).unwrap();
    let mut block = [Block::zeroed()];
    for pack in [start, start + 512] {
        device.read(pack, &mut block).unwrap();
        if RawCheckpoint::verify(&block[0], pack).is_err() {
            continue;
        }
        let cp: &mut RawCheckpoint = block[0].view_mut();
        change(cp);
        let last = pack + u64::from(cp.cp_pack_total_block_count.get()) - 1;
        RawCheckpoint::seal(&mut block[0]);
        device.write(pack, &[&block[0]]).unwrap();
        device.write(last, &[&block[0]]).unwrap();
    }
}

#[test]
fn a_checkpoint_that_cannot_be_repaired_is_reported_as_a_finding() {
    let changes: [fn(&mut RawCheckpoint); 4] = [
        |cp| cp.overprov_segment_count.set(0),
        |cp| cp.rsvd_segment_count.set(1_000_000),
        |cp| cp.user_block_count.set(0),
        |cp| cp.user_block_count.set(1_000_000_000),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let scratch = volume();
        let image = scratch.image();
        change_both(&image, change);
        let before = read(&image).unwrap();
        let to = scratch.path("to");
        for options in
            [&["-y"][..], &["-n"], &["-p"], &["-y", "--json"], &["-y", "--to", to.to_str().unwrap()]]
        {
            let done = segno(&[&["check"], options, &[image.as_str()]].concat());
            let [out, err] = [done.stdout, done.stderr].map(|t| String::from_utf8(t).unwrap());
            let context = format!("change {n}, {options:?}: {out}{err}");
            assert_eq!(done.status.code(), Some(4), "{context}");
            assert!(out.contains("cannot be repaired yet") && !err.contains("planner is wrong"), "{context}");
        }
        assert!(read(&image).unwrap() == before, "change {n} was followed by a write");
    }
}
