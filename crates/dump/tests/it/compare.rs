//! The values that dump.f2fs prints of NAT, SIT, SSA and inodes are in the JSON too.
use segno::{Device, FormatOptions, MountOptions, Volume};
use segno_device::{BlockDevice, FileDevice, OpenOptions};
use segno_dump::{Image, What};
use segno_testkit::f2fs_tools;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

fn make(path: &Path) {
    let device = Device::create(path, 96 << 20).unwrap();
    segno::format(&device, &FormatOptions::default()).unwrap();
    let volume = Volume::open_with(&device, &MountOptions::new().background(false)).unwrap();
    for i in 0..300u32 {
        let dir = format!("d{}", i % 9);
        volume.create_dir_all(&dir).unwrap();
        volume.write(format!("{dir}/f{i}"), vec![i as u8; (i * 517) as usize]).unwrap();
    }
    volume.sync().unwrap();
    for i in (0..300u32).step_by(7) {
        volume.remove_file(format!("d{}/f{i}", i % 9)).unwrap();
    }
    volume.close().unwrap();
}

/// Standard output of dump.f2fs, which writes tables to files in its directory.
fn dump_f2fs(image: &Path, args: &[&str]) -> String {
    let mut command = f2fs_tools::command("dump.f2fs").unwrap();
    command.args(args).arg(image).current_dir(image.parent().unwrap());
    String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
}

fn ours(image: &Path, words: &[&str]) -> Value {
    let options = OpenOptions { read_only: true, direct: false };
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(image, options).unwrap());
    let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
    let what = What::parse(&words, false, false).unwrap();
    Image::open(&device, &what).unwrap().show(&what).unwrap()
}

/// The number after `key:` in a line.
fn number(line: &str, key: &str) -> u64 {
    let rest = line.split(&format!("{key}:")).nth(1).unwrap_or_else(|| panic!("no {key} in {line:?}"));
    rest.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
}

#[test]
fn nat_sit_and_inodes_agree_with_dump_f2fs() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    make(&image);
    dump_f2fs(&image, &["-n", "0~-1"]);
    let table = std::fs::read_to_string(dir.path().join("dump_nat")).unwrap();
    let theirs: Vec<_> =
        table.lines().map(|l| (number(l, "nid"), number(l, "ino"), number(l, "blkaddr"))).collect();
    let nat = ours(&image, &["nat", "3..100000000"]);
    let used = nat.as_array().unwrap().iter().filter(|e| e["state"] == "used");
    let of = |e: &Value, key: &str| e[key].as_u64().unwrap();
    let mine: Vec<_> = used.map(|e| (of(e, "nid"), of(e, "ino"), of(e, "block_addr"))).collect();
    assert!(theirs.len() > 250);
    assert_eq!(mine, theirs);

    dump_f2fs(&image, &["-s", "0~-1"]);
    let table = std::fs::read_to_string(dir.path().join("dump_sit")).unwrap();
    let lines = table.lines().filter(|l| l.starts_with("segno:"));
    let theirs: Vec<_> =
        lines.map(|l| (number(l, "segno"), number(l, "vblocks"), number(l, "seg_type"))).collect();
    let sit = ours(&image, &["sit"]);
    let mine: Vec<_> =
        sit.as_array().unwrap().iter().map(|e| (of(e, "segno"), of(e, "vblocks"), of(e, "type"))).collect();
    // It leaves out segments that were never used.
    let mine: BTreeMap<_, _> = mine.into_iter().map(|(seg, n, t)| (seg, (n, t))).collect();
    assert!(!theirs.is_empty());
    for (seg, n, t) in theirs {
        assert_eq!(mine[&seg], (n, t), "segment {seg}");
    }

    for (ino, _, _) in mine_inodes(&nat).into_iter().step_by(5) {
        let text = dump_f2fs(&image, &["-i", &ino.to_string()]);
        let shown = ours(&image, &["inode", &ino.to_string()]);
        for key in ["i_mode", "i_links", "i_size", "i_blocks", "i_ctime", "i_mtime_nsec", "i_flags", "i_pino"]
        {
            let line = text.lines().find(|l| l.split_whitespace().next() == Some(key));
            let line = line.unwrap_or_else(|| panic!("no {key} of inode {ino} in {text}"));
            let theirs: u64 = line.rsplit(':').next().unwrap().trim().trim_end_matches(']').parse().unwrap();
            assert_eq!(shown["inode"][key].as_u64(), Some(theirs), "{key} of inode {ino}");
        }
    }
}

fn mine_inodes(nat: &Value) -> Vec<(u64, u64, u64)> {
    let all = nat.as_array().unwrap().iter().filter(|e| e["state"] == "used");
    let of = |e: &Value, key: &str| e[key].as_u64().unwrap();
    all.map(|e| (of(e, "nid"), of(e, "ino"), 0)).filter(|(nid, ino, _)| nid == ino && *nid >= 3).collect()
}

/// Fields that dump.f2fs prints as `name [0x… : number]` below a heading that begins with one of these words.
fn fields(text: &str, heading: &str) -> Vec<(String, u64)> {
    let below = text.lines().skip_while(|l| !l.contains(heading));
    let parse = |l: &str| {
        let (name, value) = l.split_once("[0x")?;
        let number = value.split_once(" : ")?.1.strip_suffix(']')?.parse().ok()?;
        Some((name.trim().to_owned(), number))
    };
    let skipped = |l: &&str| parse(l).is_none();
    below
        .skip_while(skipped)
        .map_while(|l| parse(l).or_else(|| l.contains('[').then(Default::default)))
        .collect()
}

/// All numbers of superblock, checkpoint and inodes that both print.
#[test]
fn a_thousand_fields_agree_with_dump_f2fs() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    make(&image);
    let text = dump_f2fs(&image, &["-d", "1", "-i", "3"]);
    let mut compared = 0;
    let mut compare = |theirs: Vec<(String, u64)>, mine: &Value, what: &str| {
        for (name, number) in theirs {
            if let Some(found) = mine.get(&name).filter(|v| v.is_u64()) {
                assert_eq!(found.as_u64(), Some(number), "{name} of {what}");
                compared += 1;
            }
        }
    };
    compare(fields(&text, "Super block"), &ours(&image, &["sb"])["copies"][0], "the superblock");
    let packs = ours(&image, &["cp"]);
    let in_force = packs["packs"].as_array().unwrap().iter().find(|p| p["pack"] == packs["in_force"]);
    compare(fields(&text, "Checkpoint  "), in_force.unwrap(), "the checkpoint");
    let inodes = mine_inodes(&ours(&image, &["nat", "3..100000000"]));
    for (ino, _, _) in inodes.into_iter().step_by(4) {
        let ino = ino.to_string();
        let text = dump_f2fs(&image, &["-d", "1", "-i", &ino]);
        compare(fields(&text, "is inode"), &ours(&image, &["inode", &ino])["inode"], &ino);
    }
    assert!(compared > 1000, "{compared}");
}

#[test]
fn summaries_agree_with_dump_f2fs() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("image");
    make(&image);
    dump_f2fs(&image, &["-a", "0~-1"]);
    let table = std::fs::read_to_string(dir.path().join("dump_ssa")).unwrap();
    let ssa = ours(&image, &["ssa"]);
    let mut compared = 0;
    for part in table.split("\nsegno: ").skip(1) {
        let seg = usize::from_str_radix(part.split(',').next().unwrap().trim(), 16).unwrap();
        let start = ssa[seg]["entries"].as_array().unwrap();
        let mine: BTreeMap<u64, u64> = start
            .iter()
            .map(|e| (e["blkaddr"].as_u64().unwrap() % 512, e["nid"].as_u64().unwrap()))
            .collect();
        for cell in part.split('[').skip(1) {
            let Some((off, nid)) = cell.split_once(':') else { continue };
            // Nids are hexadecimal; some lines end in the middle.
            let parsed =
                (off.trim().parse::<u64>(), u64::from_str_radix(nid.trim().trim_end_matches(']'), 16));
            let (Ok(off), Ok(nid)) = parsed else { continue };
            assert_eq!(mine.get(&off).copied().unwrap_or(0), nid, "segment {seg}, block {off}");
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared}");
}
