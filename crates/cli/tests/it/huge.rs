//! An image file of 15 TiB that is a hole but for a small volume: every command that searches or copies it ends, within 1 GiB of addresses;
//! commands that mount it in memory end within 256 MiB.
use super::Scratch;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::{Command, Output, Stdio};

const SIZE: u64 = 15 << 40;

/// Runs the command with a limited address space.
fn limited(args: &[&str]) -> Output {
    within("1048576", args).output().unwrap()
}

fn within(kib: &str, args: &[&str]) -> Command {
    let script = "ulimit -v \"$0\" && exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, kib, env!("CARGO_BIN_EXE_segno")]).args(args).env("MALLOC_ARENA_MAX", "1");
    command
}

#[track_caller]
fn ends(args: &[&str], code: i32) -> String {
    let out = limited(args);
    let said = [out.stdout, out.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    assert_eq!(out.status.code(), Some(code), "{args:?}: {said}");
    said
}

/// A volume of 64 MiB with a file, on an image of 15 TiB; `None` if the host has no such files.
fn image() -> Option<(Scratch, String)> {
    let scratch = Scratch::new();
    let image = scratch.image();
    fs::write(scratch.path("file"), vec![5; 100_000]).unwrap();
    super::output(&["put", &image, scratch.path("file").to_str().unwrap(), "/file"]);
    let grown = OpenOptions::new().write(true).open(&image).unwrap();
    if grown.set_len(SIZE).is_err() {
        println!("NOT TESTED: the host has no files of 15 TiB");
        return None;
    }
    // The last block is not zero, as after a partition table at the end of a disk.
    grown.write_all_at(&[1; 4096], SIZE - 4096).unwrap();
    Some((scratch, image))
}

#[test]
fn commands_end_on_an_image_of_15_tib_of_holes() {
    let Some((scratch, image)) = image() else { return };
    let path = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
    let (out, sparse, copy) = (path("out"), path("sparse"), path("copy"));
    ends(&["rescue", "--list", &image], 0);
    ends(&["rescue", &image, &out], 0);
    assert_eq!(fs::read(scratch.path("out/file")).unwrap(), vec![5; 100_000]);
    ends(&["undelete", &image], 0);
    ends(&["info", &image], 0);
    ends(&["dump", &image, "node", "3"], 0);
    ends(&["dump", "--versions", &image, "node", "3"], 0);
    ends(&["ls", &image], 0);
    assert!(ends(&["check", "-f", &image], 0).ends_with("clean\n"));
    ends(&["sparse", "pack", &image, &sparse], 0);
    assert!(fs::metadata(&sparse).unwrap().len() < 10 << 20);
    // The sparse image is read in place.
    ends(&["rescue", "--list", &sparse], 0);
    ends(&["undelete", &sparse], 0);
    let wiped = OpenOptions::new().write(true).open(&image).unwrap();
    wiped.write_all_at(&[0; 4096], 4096).unwrap();
    ends(&["check", "-y", "--to", &copy, &image], 1);
    assert!(ends(&["check", "-f", &copy], 0).ends_with("clean\n"));
    // Without a superblock all places of the image are searched.
    wiped.write_all_at(&[0; 8192], 0).unwrap();
    assert!(ends(&["rescue", "--list", &image], 0).contains("file"));
    assert!(fs::metadata(&image).unwrap().blocks() < 20_000, "holes were filled");
}

#[test]
fn an_image_of_holes_alone_is_searched_eight_times_and_named() {
    let scratch = Scratch::new();
    let image = scratch.path("holes");
    let file = fs::File::create(&image).unwrap();
    if file.set_len(SIZE).is_err() {
        println!("NOT TESTED: the host has no files of 15 TiB");
        return;
    }
    let image = image.to_str().unwrap();
    let said = ends(&["rescue", "--list", image], 1);
    assert!(said.contains("is empty") && said.contains("no node of an F2FS volume was found"), "{said}");
    ends(&["undelete", image], 1);
    let sparse = scratch.path("sparse").to_str().unwrap().to_owned();
    ends(&["sparse", "pack", image, &sparse], 0);
    assert_eq!(fs::metadata(&sparse).unwrap().len(), 28 + 16);
}

/// A volume that is as large as its image.
#[test]
fn a_volume_of_15_tib_is_checked_and_searched_in_little_memory() {
    let scratch = Scratch::new();
    let image = scratch.path("large");
    let image = image.to_str().unwrap();
    let out = limited(&["mkfs", "-q", "--size", "15T", image]);
    if !out.status.success() {
        println!("NOT TESTED: {}", String::from_utf8_lossy(&out.stderr));
        return;
    }
    assert!(ends(&["check", "-f", image], 0).ends_with("clean\n"));
    ends(&["check", "-a", image], 0);
    ends(&["rescue", "--list", image], 0);
    ends(&["undelete", image], 0);
    ends(&["info", image], 0);
    ends(&["map", image], 0);
    ends(&["dump", image, "sit", "0..1"], 0);
    ends(&["ls", image], 0);
}

/// A sparse file of some KiB repeats a word over 8 TiB.
#[test]
fn a_repeated_word_is_searched_once() {
    let (scratch, sparse) = (Scratch::new(), "sparse");
    fs::write(scratch.path("file"), vec![5; 100_000]).unwrap();
    let path = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
    super::output(&["put", &scratch.image(), &path("file"), "/file"]);
    super::output(&["sparse", "pack", &scratch.image(), &path(sparse)]);
    let mut bytes = fs::read(scratch.path(sparse)).unwrap();
    let count = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (blocks, chunks) = (count(&bytes, 16) + (1 << 31), count(&bytes, 20) + 1);
    bytes[16..20].copy_from_slice(&blocks.to_le_bytes());
    bytes[20..24].copy_from_slice(&chunks.to_le_bytes());
    let fill: [u32; 4] = [0xCAC2, 1 << 31, 16, 0x0101_0101];
    fill.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    fs::write(scratch.path(sparse), bytes).unwrap();
    assert!(ends(&["rescue", "--list", &path(sparse)], 0).contains("file"));
    ends(&["undelete", &path(sparse)], 0);
    ends(&["rescue", &path(sparse), &path("out")], 0);
    assert_eq!(fs::read(scratch.path("out/file")).unwrap(), vec![5; 100_000]);
}

/// Tables of an empty volume would take 300 MiB here if they had an entry for each segment.
#[test]
fn a_mounted_volume_of_15_tib_takes_memory_for_what_it_holds() {
    let scratch = Scratch::new();
    let (image, file) = (scratch.path("large"), scratch.path("file"));
    let (image, file) = (image.to_str().unwrap(), file.to_str().unwrap());
    let made = limited(&["mkfs", "-q", "--size", "15T", image]);
    if !made.status.success() {
        println!("NOT TESTED: {}", String::from_utf8_lossy(&made.stderr));
        return;
    }
    fs::write(file, vec![5; 100_000]).unwrap();
    let copy = scratch.path("copy");
    for args in [
        &["put", image, file, "/file"][..],
        &["ls", "-l", image],
        &["get", image, "/file", copy.to_str().unwrap()],
        &["extents", "--image", image, "/file"],
    ] {
        let out = within("262144", args).output().unwrap();
        assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    assert_eq!(fs::read(copy).unwrap(), vec![5; 100_000]);
}

/// A report of 524,000 segments. In memory as a tree of values it takes 900 MiB.
#[test]
fn a_map_in_json_is_written_segment_by_segment() {
    let scratch = Scratch::new();
    let image = scratch.path("large");
    let image = image.to_str().unwrap();
    super::output(&["mkfs", "-q", "--size", "1T", image]);
    let mut command = within("262144", &["map", "--json", image]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let segments = lines.filter(|line| line.as_ref().unwrap().contains("\"segno\"")).count();
    assert!(child.wait().unwrap().success());
    // A reader that goes ends it as it ends other output.
    let mut ended = within("262144", &["map", "--json", image]).stdout(Stdio::piped()).spawn().unwrap();
    drop(ended.stdout.take());
    assert_eq!(ended.wait().unwrap().code(), Some(141));
    let superblock = super::output(&["dump", "--json", image, "sb", "1"]);
    assert!(superblock.contains(&format!("\"segment_count_main\": {segments},")), "{segments}: {superblock}");
}
