//! Volumes in good order of kinds that this version does not support: every command names what is missing, writes nothing, and the check agrees
//! with the mount.
use super::contents::COMMANDS;
use super::{Scratch, json, output, refusal, segno};
use segno_device::{BlockDevice, FileDevice, OpenOptions};
use segno_format::Block;
use segno_format::superblock::RawSuperblock;
use std::fs;

/// Commands that show what there is of a volume whose blocks have the usual size, and say what they do not know.
const SHOW: [&str; 7] =
    ["info", "dump", "map", "report", "journal info", "rescue IMAGE", "rescue --to-image"];

struct Case {
    /// Part of the message.
    said: &'static str,
    change: fn(&mut RawSuperblock),
    /// Copies that there are.
    copies: std::ops::Range<u64>,
    /// Whether the blocks have another size.
    blocks: bool,
}

fn cases() -> Vec<Case> {
    fn feature<const BIT: u32>(sb: &mut RawSuperblock) {
        sb.feature.set(sb.feature.get() | BIT);
    }
    let of = |said, change: fn(&mut RawSuperblock)| Case { said, change, copies: 0..2, blocks: false };
    let blocks = |said, change: fn(&mut RawSuperblock), copies| Case { said, change, copies, blocks: true };
    vec![
        of("device_alias, which this version does not support: Linux 6.13 or later", feature::<0x8000>),
        of("packed_ssa, which this version does not support: Linux 6.19 or later", feature::<0x1_0000>),
        of("0x20000, which this version does not support", feature::<0x2_0000>),
        of("0x80000000, which this version does not support", feature::<0x8000_0000>),
        blocks("blocks of 16384 bytes (log_blocksize 14)", |sb| sb.log_blocksize.set(14), 0..2),
        // As made for machines with pages of 16 KiB: the second copy is elsewhere.
        blocks(
            "blocks of 16384 bytes (log_blocksize 14)",
            |sb| {
                sb.log_blocksize.set(14);
                sb.log_sectors_per_block.set(5);
            },
            0..1,
        ),
        blocks("blocks of 65536 bytes (log_blocksize 16)", |sb| sb.log_blocksize.set(16), 0..2),
    ]
}

/// A volume with a journal and a file, changed.
fn volume(case: &Case) -> Scratch {
    let scratch = Scratch::new();
    let image = scratch.image();
    output(&["mkfs", "-q", "-f", "--size", "64M", "--journal", "4M", "-O", "extra_attr,sb_checksum", &image]);
    fs::write(scratch.path("x"), "x").unwrap();
    output(&["put", &image, scratch.path("x").to_str().unwrap(), "/x"]);
    let device = FileDevice::open(&image, OpenOptions::default()).unwrap();
    for copy in 0..2 {
        let mut one = [Block::zeroed()];
        device.read(copy, &mut one).unwrap();
        let mut sb = RawSuperblock::from_block(&one[0].0);
        (case.change)(&mut sb);
        sb.seal();
        match case.copies.contains(&copy) {
            true => sb.store(&mut one[0].0),
            false => one[0] = Block::zeroed(),
        }
        device.write(copy, &[&one[0]]).unwrap();
    }
    scratch
}

#[test]
fn every_command_names_what_it_does_not_support() {
    for case in cases() {
        let scratch = volume(&case);
        let (image, new, mnt) = (scratch.image(), scratch.path("new"), scratch.path("mnt"));
        fs::create_dir(&mnt).unwrap();
        let before = fs::read(&image).unwrap();
        let more = [
            ("undelete IMAGE", 1),
            ("check -n IMAGE", 8),
            ("check -f -a IMAGE", 8),
            ("journal create IMAGE", 1),
        ];
        for (command, code) in COMMANDS.iter().chain(&more) {
            let words = command.split(' ').map(|word| match word {
                "IMAGE" => image.clone(),
                "FILE" => scratch.path("x").display().to_string(),
                "NEW" => new.display().to_string(),
                "MNT" => mnt.display().to_string(),
                word => word.to_owned(),
            });
            let out = segno(&words.collect::<Vec<_>>());
            let said = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
            let context =
                format!("{command} of a volume with {}: {:?}: {said}", case.said, out.status.code());
            assert!(said.contains(case.said), "{context}");
            assert_eq!(said.matches(case.said).count(), 1, "{context}");
            let is_damage = ["corrupt", "damage", "clean\n", "mkfs"].iter().any(|word| said.contains(word));
            if !case.blocks && SHOW.iter().any(|show| command.starts_with(show)) {
                assert_eq!(out.status.code(), Some(0), "{context}");
            } else {
                assert_eq!(out.status.code(), Some(*code), "{context}");
                assert!(!is_damage && said.lines().count() == 1 && said.contains(&image), "{context}");
                assert!(!new.exists(), "{context}: something was made");
            }
            let _made = fs::remove_dir_all(&new).or_else(|_| fs::remove_file(&new));
        }
        assert!(before == fs::read(&image).unwrap(), "{} was written to", case.said);
        let (code, said) = refusal(&["mkfs", &image]);
        assert_eq!((code, said), (1, format!("segno: {image} holds an F2FS volume; overwrite it with -f\n")));
        output(&["mkfs", "-q", "-f", &image]);
        assert!(output(&["check", &image]).ends_with("clean\n"));
    }
}

#[test]
fn a_rescue_copies_what_it_finds_of_a_volume_with_an_unknown_feature() {
    for case in cases().into_iter().filter(|case| !case.blocks) {
        let scratch = volume(&case);
        let image = scratch.image();
        output(&["rescue", &image, scratch.path("out").to_str().unwrap()]);
        assert_eq!(fs::read(scratch.path("out/x")).unwrap(), b"x", "{}", case.said);
        let info = json(&["info", "--json", &image]);
        assert!(info["unsupported"].as_str().unwrap().contains(case.said), "{info}");
    }
}
