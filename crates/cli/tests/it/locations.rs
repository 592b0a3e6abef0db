//! Volumes inside disk images: every command takes the part of an image, and nothing outside of it changes.
use super::contents::COMMANDS;
use super::{Scratch, can_mount, json, output, refusal, segno};
use segno_testkit::f2fs_tools::{assert_clean, succeed};
use serde_json::Value;
use std::fs::{File, read, write};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MIB: u64 = 1 << 20;
const SECTOR: u64 = 512;
/// The part of the disks below that has the volume.
const START: u64 = 80 * MIB;
const LEN: u64 = 64 * MIB;

fn tool(name: &str) -> Command {
    let place = ["/usr/sbin", "/sbin", "/usr/bin"]
        .map(|dir| Path::new(dir).join(name))
        .into_iter()
        .find(|p| p.exists());
    Command::new(place.unwrap_or_else(|| panic!("{name} is missing: make setup installs it")))
}

/// Runs a program that reads what is done to a disk image.
fn script(command: &mut Command, path: &Path, bytes: u64, words: &str) {
    File::create(path).unwrap().set_len(bytes).unwrap();
    let piped = command.arg(path).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(words.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{words}");
}

pub fn sfdisk(path: &Path, bytes: u64, words: &str) {
    script(tool("sfdisk").args(["-q", "--no-reread", "--no-tell-kernel"]), path, bytes, words);
}

/// With sectors of 4096 bytes.
fn fdisk(path: &Path, bytes: u64, words: &str) {
    script(tool("fdisk").args(["-b", "4096"]), path, bytes, &words.replace(' ', "\n"));
}

fn parted(path: &Path, bytes: u64, words: &str) {
    File::create(path).unwrap().set_len(bytes).unwrap();
    let done = tool("parted").args(["-s", "-a", "none"]).arg(path).args(words.split(' ')).output().unwrap();
    assert!(done.status.success(), "{words}: {}", String::from_utf8_lossy(&done.stderr));
}

type Listed = Vec<(u64, u64, u64, String, Option<String>)>;

/// Number, first byte, bytes, name and UUID of each partition, as partx of util-linux prints them.
fn printed(path: &Path, sector: u64) -> Listed {
    let columns = ["-P", "-o", "NR,START,SECTORS,NAME,UUID,TYPE"];
    let done = tool("partx").args(columns).arg(format!("-S{sector}")).arg(path).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let mut all: Listed = text.lines().filter_map(partition).collect();
    all.sort();
    all
}

/// Of a line `NR="1" START="2048" …`; none for the container of logical partitions.
fn partition(line: &str) -> Option<(u64, u64, u64, String, Option<String>)> {
    let field = |key: &str| line.split(&format!("{key}=\"")).nth(1).unwrap().split('"').next().unwrap();
    let number = |key: &str| field(key).parse::<u64>().unwrap();
    let uuid = Some(field("UUID").to_owned()).filter(|uuid| uuid.len() == 36);
    let is_container = ["0x5", "0xf", "0x85"].contains(&field("TYPE"));
    let bytes = |key: &str| number(key) * SECTOR;
    (!is_container).then(|| (number("NR"), bytes("START"), bytes("SECTORS"), unescaped(field("NAME")), uuid))
}

/// partx writes other bytes than ASCII as `\xHH`.
fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend(part[2..].bytes());
    }
    String::from_utf8(bytes).unwrap()
}

fn found(path: &Path) -> Listed {
    let report = segno(&["find", "--json", path.to_str().unwrap()]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    let number = |p: &Value, key: &str| p[key].as_u64().unwrap();
    let part = |p: &Value| {
        let name = p["name"].as_str().unwrap().to_owned();
        let uuid = p["partuuid"].as_str().map(str::to_owned);
        (number(p, "number"), number(p, "offset"), number(p, "bytes"), name, uuid)
    };
    let mut all: Listed = report["parts"].as_array().unwrap().iter().map(part).collect();
    all.sort();
    all
}

#[test]
fn layouts_of_other_programs_are_read_as_partx_prints_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("disk");
    let gpt = [
        "start=2048, size=2048, name=boot\nsize=8192, name=\"root fs\"\n",
        "first-lba: 34\nstart=34, size=7\nstart=41, size=63\nstart=1000, size=1\n",
        "4: start=2048, size=2048\n1: start=8192, size=2048\n128: start=12000, size=100\n",
        "table-length: 4\nstart=2048, size=2048\nsize=2048\n",
        "table-length: 512\n512: start=4096, size=2048, name=last\n",
        "first-lba: 64\nstart=64, size=64, name=ünïcödé\n",
        "start=2048, size=2048, attrs=\"RequiredPartition LegacyBIOSBootable\", type=U\n",
    ];
    let mbr = [
        "start=63, size=1000, type=83\n",
        "start=2048, size=1000, type=83, bootable\nstart=4096, size=99, type=c\n",
        "4: start=2048, size=1000, type=83\n2: start=8192, size=64, type=82\n",
        "start=2048, size=1000\nstart=4096, size=20000, type=5\nsize=2000\nsize=3000\n",
        "1: start=2048, size=40000, type=f\n5: start=4096, size=8\n6: start=6200, size=8\n7: start=9000, size=8\n",
        "start=2048, size=50000, type=85\nsize=1000\nsize=1000\nsize=1000\nsize=1000\nsize=1000\n",
        "label-id: 0x12345678\nstart=1, size=1\nstart=2, size=2\nstart=4, size=4\nstart=8, size=8\n",
    ];
    let large_sectors = ["g n 1 256 511 n 2 512 4000 x n 1 four r w ", "g n 7 256 256 n 9 257 3000 w "];
    let commands = [
        "mklabel gpt mkpart one 1MiB 4MiB mkpart two 4MiB 100%",
        "mklabel gpt mkpart a 34s 40s mkpart b 1000s 2000s name 1 renamed rm 2 mkpart c 5000s 6000s",
        "mklabel msdos mkpart primary 1MiB 4MiB mkpart extended 4MiB 100% mkpart logical 5MiB 6MiB mkpart logical 7MiB 9MiB",
        "mklabel msdos mkpart primary 63s 5000s mkpart primary 5001s 8000s set 1 boot on",
    ];
    let mut layouts = 0;
    let mut compare = |sector: u64, words: &str| {
        let expected = printed(&path, sector);
        assert!(!expected.is_empty(), "{words}");
        assert_eq!(found(&path), expected, "{words}");
        layouts += 1;
    };
    for (label, words) in gpt.map(|w| ("gpt", w)).into_iter().chain(mbr.map(|w| ("dos", w))) {
        sfdisk(&path, 64 * MIB, &format!("label: {label}\n{words}"));
        compare(512, words);
    }
    for words in large_sectors {
        fdisk(&path, 64 * MIB, words);
        compare(4096, words);
    }
    for words in commands {
        parted(&path, 64 * MIB, words);
        compare(512, words);
    }
    // Behind what 32 bits of sectors reach.
    sfdisk(&path, 6 << 40, "label: gpt\nstart=8589934592, size=2048, name=far\n");
    compare(512, "6 TiB");
    println!("{layouts} layouts");
}

/// A disk of three partitions, of which the second has a volume that mkfs.f2fs made, with files; the rest is not zero.
fn disk(scratch: &Scratch) -> PathBuf {
    let (path, volume) = (scratch.path("disk"), scratch.path("volume"));
    let sectors = |bytes: u64| bytes / SECTOR;
    let (start, len) = (sectors(START), sectors(LEN));
    let words = format!(
        "label: gpt\nstart=2048, size={}, name=boot\nstart={start}, size={len}, name=data\nstart={}, size=2048\n",
        start - 2048,
        start + len
    );
    sfdisk(&path, 160 * MIB, &words);
    File::create(&volume).unwrap().set_len(LEN).unwrap();
    succeed("mkfs.f2fs", &["-q", "-l", "card", volume.to_str().unwrap()]);
    write(scratch.path("x"), "the file").unwrap();
    output(&["put", volume.to_str().unwrap(), scratch.path("x").to_str().unwrap(), "/x"]);
    let file = File::options().write(true).open(&path).unwrap();
    file.write_all_at(&read(&volume).unwrap(), START).unwrap();
    file.write_all_at(&vec![0xA5; (START - MIB) as usize], MIB).unwrap();
    file.write_all_at(&vec![0x5A; 2048 * 512], START + LEN).unwrap();
    path
}

/// Everything but the part.
fn outside(disk: &Path) -> (Vec<u8>, Vec<u8>) {
    let all = read(disk).unwrap();
    (all[..START as usize].to_vec(), all[(START + LEN) as usize..].to_vec())
}

/// The part, as f2fs-tools judge it.
fn judged(scratch: &Scratch, disk: &Path, context: &str) {
    let cut = scratch.path("cut");
    write(&cut, &read(disk).unwrap()[START as usize..(START + LEN) as usize]).unwrap();
    assert_clean(context, &cut);
}

#[test]
fn every_command_does_the_same_on_a_part_as_on_the_volume_alone() {
    let scratch = Scratch::new();
    let (disk, mnt) = (disk(&scratch), scratch.path("mnt"));
    std::fs::create_dir(&mnt).unwrap();
    let (alone, before) = (scratch.path("volume"), outside(&disk));
    let file = scratch.path("x");
    let (disk, begins) = (disk.to_str().unwrap(), START.to_string());
    let named = |suffix: &str| format!("{disk}#{suffix}");
    let places: [Vec<String>; 6] = [
        vec![named("2")],
        vec![named("data")],
        vec![named("card")],
        vec![named(&format!("@{START}+{LEN}"))],
        vec!["--partition".into(), "data".into(), disk.into()],
        vec!["--offset".into(), begins, disk.into()],
    ];
    let run = |command: &str, place: &[String]| {
        let new = scratch.path("new");
        let (image, options) = place.split_last().unwrap();
        let words = command.split(' ').flat_map(|word| match word {
            "IMAGE" => vec![image.clone()],
            "FILE" => vec![file.to_str().unwrap().to_owned(), "/x".to_owned()],
            "NEW" => vec![new.to_str().unwrap().to_owned()],
            word => vec![word.to_owned()],
        });
        let words = words.chain(options.iter().cloned());
        let done = segno(&words.collect::<Vec<_>>());
        let text = [done.stdout, done.stderr].map(|t| String::from_utf8(t).unwrap()).concat();
        let _gone = std::fs::remove_dir_all(&new).or_else(|_| std::fs::remove_file(&new));
        // Times and counts of checkpoints differ, and so do names of the image.
        let stable = |line: &&str| !line.contains(place.last().unwrap()) && !line.starts_with("checkpoint ");
        (done.status.code(), text.lines().filter(stable).collect::<Vec<_>>().join("\n"))
    };
    // Commands that show what depends on the name, on times or on the next checkpoint.
    let differ = ["info", "put", "build", "report", "map", "dump", "journal", "check", "stat"];
    let mut runs = 0;
    for (command, _) in COMMANDS.iter().filter(|(command, _)| !command.starts_with("mount")) {
        let whole = run(command, &[alone.to_str().unwrap().to_owned()]);
        for place in &places {
            let part = run(command, place);
            assert_eq!(part.0, whole.0, "{command} {place:?}: {} against {}", part.1, whole.1);
            if !differ.iter().any(|word| command.starts_with(word)) {
                assert_eq!(part.1, whole.1, "{command} {place:?}");
            }
            runs += 1;
        }
    }
    println!("{runs} runs of {} commands", COMMANDS.len());
    assert!(outside(Path::new(disk)) == before, "bytes outside of the partition changed");
    judged(&scratch, Path::new(disk), "after all commands");
}

#[test]
fn a_mount_of_a_part_changes_nothing_else_and_two_parts_are_mounted_at_once() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let disk = disk(&scratch);
    let name = disk.to_str().unwrap();
    let first = format!("{name}#1");
    let (one, two) = (scratch.path("one"), scratch.path("two"));
    [&one, &two].into_iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
    let [one, two] = [&one, &two].map(|dir| dir.to_str().unwrap());
    output(&["mkfs", "-q", "-f", "--partition", "1", name]);
    let all = read(&disk).unwrap();
    let third = all[(START + LEN) as usize..].to_vec();
    output(&["mount", "-o", "discard", &format!("{name}#2"), two]);
    output(&["mount", &first, one]);
    for dir in [one, two] {
        for n in 0..40 {
            write(Path::new(dir).join(format!("f{n}")), vec![n; 50_000]).unwrap();
        }
        for n in 0..30 {
            std::fs::remove_file(Path::new(dir).join(format!("f{n}"))).unwrap();
        }
    }
    for (taken, dir) in [(format!("{name}#2"), two), (format!("{name}#@{START}"), two), (first.clone(), one)]
    {
        for args in [&["ls", &taken][..], &["mkfs", "-f", &taken], &["check", "-y", &taken]] {
            let (code, said) = refusal(args);
            assert!(code != 0 && said.contains(&format!("is mounted at {dir}")), "{args:?}: {said}");
        }
    }
    let (code, said) = refusal(&["mkfs", "-q", "-f", name]);
    assert!(code == 1 && said.contains("is mounted at"), "{said}");
    output(&["umount", two]);
    output(&["umount", one]);
    for part in [&first, &format!("{name}#2")] {
        assert!(output(&["check", part]).ends_with("clean\n"), "{part}");
        assert_eq!(output(&["cat", part, "/f39"]).len(), 50_000);
    }
    let after = read(&disk).unwrap();
    assert!(after[..MIB as usize] == all[..MIB as usize], "the partition table changed");
    assert!(after[(START + LEN) as usize..] == third[..], "the third partition changed");
    judged(&scratch, &disk, "after a mount");
}

#[test]
fn a_format_stays_inside_its_part_and_needs_its_end() {
    let scratch = Scratch::new();
    let disk = disk(&scratch);
    let (name, before) = (disk.to_str().unwrap(), outside(&disk));
    output(&["mkfs", "-q", "-f", "-t", "1", "--journal", "8M", &format!("{name}#data")]);
    assert_eq!(output(&["ls", &format!("{name}#2")]), "");
    assert!(output(&["journal", "info", &format!("{name}#2")]).contains("after the end of the volume"));
    for (args, why) in [
        (vec!["--offset", "30M"], "--length has to say"),
        (vec!["--offset", "30M", "--size", "20M"], "--size makes an image file"),
        (vec!["--offset", "150M", "--length", "20M"], "ends at byte"),
    ] {
        let (code, said) = refusal(&[&["mkfs", "-q", "-f"], &args[..], &[name]].concat());
        assert!(code == 1 && said.contains(why), "{args:?}: {said}");
    }
    assert!(outside(&disk) == before, "bytes outside of the partition changed");
    judged(&scratch, &disk, "after a format");
}

#[test]
fn a_file_with_the_whole_name_comes_first() {
    let scratch = Scratch::new();
    let disk = disk(&scratch);
    let named = scratch.path("disk#2");
    std::fs::copy(scratch.path("image"), &named).unwrap();
    assert_eq!(output(&["ls", named.to_str().unwrap()]), "");
    let by_option = ["ls", "--partition", "2", disk.to_str().unwrap()];
    assert!(refusal(&by_option).1.contains("disk#2 is a file: rename it"));
    std::fs::remove_file(&named).unwrap();
    assert_eq!(output(&["ls", named.to_str().unwrap()]), "x\n");
}

#[test]
fn parts_that_are_not_there_are_named_and_nothing_is_written() {
    let scratch = Scratch::new();
    let disk = disk(&scratch);
    let (name, before) = (disk.to_str().unwrap(), read(&disk).unwrap());
    let plain = scratch.image();
    for (args, why) in [
        (vec!["ls", &format!("{name}#9")], "has no partition \"9\"; it has 1 (boot), 2 (data), 3"),
        (vec!["put", &format!("{name}#nothing"), "/etc/hostname"], "has no partition \"nothing\""),
        (vec!["ls", &format!("{plain}#1")], "has no partition table"),
        (vec!["ls", name], "`segno find"),
        (vec!["ls", &format!("{name}#boot")], "holds data that is not recognised"),
        (vec!["ls", "--offset", "4096", name], "--length says where the volume ends"),
        (vec!["ls", "--partition", "1", &format!("{name}#2")], "names a part already"),
        (vec!["check", "-y", &format!("{name}#@{START}+1048576")], "is truncated"),
    ] {
        let (code, said) = refusal(&args);
        assert!(code != 0 && said.contains(why), "{args:?}: {said}");
    }
    assert!(read(&disk).unwrap() == before, "something was written");
}

#[test]
fn volumes_without_a_partition_table_are_found() {
    let scratch = Scratch::new();
    let (path, volume) = (scratch.path("firmware"), read(scratch.image()).unwrap());
    let file = File::create(&path).unwrap();
    // A squashfs of 70,000 bytes, followed by the writable volume.
    file.write_all_at(b"hsqs", 0).unwrap();
    file.write_all_at(&70_000u64.to_le_bytes(), 40).unwrap();
    file.write_all_at(&volume, 131_072).unwrap();
    let name = path.to_str().unwrap();
    let found = json(&["find", "--json", name]);
    let parts = found["parts"].as_array().unwrap();
    assert!(parts[0]["contents"].as_str().unwrap().contains("squashfs"), "{found}");
    assert_eq!(
        (&parts[1]["offset"], &parts[1]["volume"]["label"]),
        (&Value::from(131_072), &Value::from("scratch"))
    );
    assert_eq!(output(&["ls", parts[1]["location"].as_str().unwrap()]), "");
    // Two volumes at odd sectors of something that is not known.
    let file = File::create(&path).unwrap();
    file.set_len(200 * MIB).unwrap();
    for at in [1_000_448, 100 * MIB + 512] {
        file.write_all_at(&volume, at).unwrap();
    }
    let found = json(&["find", "--json", name]);
    let offsets: Vec<&Value> = found["parts"].as_array().unwrap().iter().map(|p| &p["offset"]).collect();
    assert_eq!(offsets, [&Value::from(0), &Value::from(1_000_448), &Value::from(100 * MIB + 512)]);
    assert!(output(&["check", "--offset", "1000448", name]).ends_with("clean\n"));
}

#[test]
fn a_sparse_image_of_a_disk_is_read_and_not_written() {
    let scratch = Scratch::new();
    let disk = disk(&scratch);
    let sparse = scratch.path("disk.simg");
    let done = Command::new("img2simg").args([&disk, &sparse]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let part = format!("{}#data", sparse.display());
    assert_eq!(output(&["cat", &part, "/x"]), "the file");
    assert!(output(&["check", &part]).ends_with("clean\n"));
    assert_eq!(found(&sparse), found(&disk));
    let (code, said) = refusal(&["put", &part, "/etc/hostname"]);
    assert!(code == 1 && said.contains("`segno sparse unpack`"), "{said}");
}

/// In partitions, and where no table names them, at sectors of different alignments.
#[test]
fn none_of_several_volumes_is_taken_for_the_one_that_is_meant() {
    let scratch = Scratch::new();
    let table = disk(&scratch);
    output(&["mkfs", "-q", "-f", &format!("{}#1", table.display())]);
    let bare = scratch.path("bare");
    let file = File::create(&bare).unwrap();
    file.set_len(300 * MIB).unwrap();
    for at in [1_000_448, 100 * MIB + 512, 200 * MIB] {
        file.write_all_at(&read(scratch.path("volume")).unwrap(), at).unwrap();
    }
    let (out, before) = (scratch.path("out"), [&table, &bare].map(|path| read(path).unwrap()));
    let made = out.to_str().unwrap();
    for (path, parts) in [
        (&table, vec![("#1", MIB), ("#2", START)]),
        (&bare, vec![("#@1000448", 1_000_448), ("#@104858112", 100 * MIB + 512), ("#@209715200", 200 * MIB)]),
    ] {
        let name = path.to_str().unwrap();
        // Of a table near whose start a volume is.
        let (_, said) = refusal(&["ls", name]);
        assert_eq!(said.contains("`segno find"), path == &table, "{said}");
        let list: Vec<String> = parts.iter().map(|(part, _)| format!("{name}{part}")).collect();
        let list = list.join(", ");
        for args in [
            &["rescue", name, made][..],
            &["rescue", "--list", name],
            &["rescue", "--to-image", made, name],
            &["rescue", "--list", "--scan", made, name],
            &["rescue", "--list", "--map", made, name],
            &["undelete", name],
            &["undelete", "--previous", "--scan", made, name],
        ] {
            let (code, said) = refusal(args);
            assert!(code == 1 && said.contains(&format!("has several volumes, {list}: name one")), "{said}");
            assert!(!out.exists(), "{args:?}");
        }
        // It shows what is at its start, and nothing of a volume elsewhere.
        let (code, said) = refusal(&["dump", name, "path", "/x"]);
        assert!(code == 1 && !said.contains("card"), "{said}");
        for (part, offset) in parts {
            let has_file = part != "#1";
            let (begins, location) = (offset.to_string(), format!("{name}{part}"));
            for args in [
                &["rescue", "--only", "*", &location, made][..],
                &["rescue", "--offset", &begins, name, made],
                &["undelete", &location],
            ] {
                output(args);
                assert_eq!(out.join("x").exists(), has_file && args[0] == "rescue", "{args:?}");
                let _gone = std::fs::remove_dir_all(&out);
            }
        }
    }
    assert!([&table, &bare].map(|path| read(path).unwrap()) == before);
}

/// A volume may begin anywhere, and its files may be images; without its superblock it is not known where it ends.
#[test]
fn the_only_volume_of_a_disk_is_rescued_with_the_images_in_its_files() {
    let scratch = Scratch::new();
    let disk = scratch.path("disk");
    sfdisk(&disk, 300 * MIB, "label: gpt\nstart=2048, size=512000\n");
    let (name, part) = (disk.to_str().unwrap(), format!("{}#1", disk.display()));
    output(&["mkfs", "-q", &part]);
    let small = scratch.path("small");
    write(&small, "the file").unwrap();
    output(&["put", &part, small.to_str().unwrap(), "/x"]);
    for n in 0..2 {
        output(&["mkfs", "-q", "-f", "--size", "60M", small.to_str().unwrap()]);
        output(&["put", &part, small.to_str().unwrap(), &format!("/image{n}")]);
    }
    for wiped in [false, true] {
        if wiped {
            let file = File::options().write(true).open(&disk).unwrap();
            file.write_all_at(&[0; 8192], MIB).unwrap();
        }
        let out = scratch.path("out");
        let (code, said) = refusal(&["rescue", name, out.to_str().unwrap()]);
        assert_eq!(code, 0, "{said}");
        assert_eq!(read(out.join("x")).unwrap(), b"the file");
        assert!(read(out.join("image1")).unwrap() == read(&small).unwrap(), "an image is not whole");
        std::fs::remove_dir_all(&out).unwrap();
    }
}

#[test]
fn an_error_names_the_path_of_the_user_once() {
    let scratch = Scratch::new();
    let none = scratch.path("none");
    let none = none.to_str().unwrap();
    for args in [&["find", none][..], &["find", "--json", none], &["info", "--json", none]] {
        let (code, said) = refusal(args);
        assert_eq!((code, said.matches(none).count()), (1, 1), "{said}");
    }
    for (suffix, command) in [("svg", "map"), ("html", "report")] {
        let picture = format!("{none}/x.{suffix}");
        let (code, said) = refusal(&[command, "-o", &picture, &scratch.image()]);
        assert!(code == 1 && !said.contains("/.x"), "{said}");
        assert_eq!(said.matches(&picture).count(), 1, "{said}");
    }
}
