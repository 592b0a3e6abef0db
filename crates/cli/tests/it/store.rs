//! Volumes in a directory store.
use super::{Scratch, can_mount, json, output, refusal};
use std::collections::BTreeSet;
use std::fs::{OpenOptions, create_dir, write};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

const MIB: u64 = 1 << 20;

#[test]
fn a_directory_holds_a_volume() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let url = |name: &str| format!("file://{}", path(name));
    let volume = url("volume");
    assert!(
        output(&["store", "probe", &format!("file://{}", dir.path().display())])
            .contains("second writer out")
    );
    output(&["mkfs", "-q", "--size", "1G", &volume]);
    assert!(refusal(&["mkfs", "-q", "--size", "1G", &volume]).1.contains("-f"));
    write(path("file"), vec![7; 300_000]).unwrap();
    output(&["put", &volume, &path("file"), "/copied"]);
    assert_eq!(output(&["ls", &volume, "/"]).trim(), "copied");
    assert!(output(&["check", &volume]).ends_with("clean\n"));
    let info = json(&["store", "info", "--json", &volume]);
    assert_eq!(
        (&info["held"], &info["fenced"], &info["bytes"]),
        (&false.into(), &true.into(), &(1u64 << 30).into())
    );

    output(&["store", "export", &volume, &path("image")]);
    assert!(output(&["check", &path("image")]).ends_with("clean\n"));
    output(&["store", "import", &url("again"), &path("image")]);
    assert!(output(&["check", &url("again")]).ends_with("clean\n"));
    output(&["get", &url("again"), "/copied", &path("back")]);
    assert!(Path::new(&path("back")).metadata().unwrap().len() == 300_000);
}

#[test]
fn refusals_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let absent = format!("file://{}", dir.path().display());
    assert!(refusal(&["check", &absent]).1.contains("check bucket and prefix"));
    assert!(refusal(&["mkfs", &absent]).1.contains("--size"));
    assert!(refusal(&["info", "s3://key:secret@bucket/prefix"]).1.contains("AWS_ACCESS_KEY_ID"));
    assert!(refusal(&["info", "s3://bucket"]).1.contains("prefix"));
    assert!(refusal(&["store", "info", "disk.img"]).1.contains("s3://BUCKET/PREFIX"));
}

#[test]
fn a_local_cache_is_drained_and_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (volume, other) = (format!("file://{}", path("volume")), format!("file://{}", path("other")));
    output(&["mkfs", "-q", "--size", "1G", &volume]);
    output(&["mkfs", "-q", "--size", "1G", &other]);
    let cache = path("cache");
    assert!(refusal(&["store", "drain", "--cache", &cache, &volume]).1.contains("there is no cache"));
    std::fs::create_dir(&cache).unwrap();
    output(&["store", "drain", "--cache", &cache, &volume]);
    assert!(refusal(&["store", "drain", "--cache", &cache, &other]).1.contains("belongs to another volume"));
    let export = |cache: &str| refusal(&["store", "export", "--cache", cache, &volume, &path("image")]).1;
    assert!(export(&path("absent")).contains("there is no cache"));
    assert!(export(&cache).contains("no commits that the store does not have"));
    assert!(!Path::new(&path("image")).exists());
    assert!(refusal(&["store", "drain", &path("volume")]).1.contains("not on a mount"));
    write(path("file"), b"no cache").unwrap();
    let why = refusal(&["store", "drain", "--cache", dir.path().to_str().unwrap(), &volume]).1;
    assert!(why.contains("neither empty nor a cache"), "{why}");

    std::fs::create_dir(path("mnt")).unwrap();
    let mount = |options: &str, image: &str| refusal(&["mount", "-o", options, image, &path("mnt")]).1;
    assert!(mount("store_writeback", &volume).contains("store_cache=/DIR"));
    assert!(mount("store_cache=/c,store_cache_size=1M", &volume).contains("64M"));
    // Under their earlier names.
    assert!(mount("writeback", &volume).contains("store_cache=/DIR"));
    assert!(mount("cache=/c,cache_size=1M", &volume).contains("64M"));
    output(&["mkfs", "-q", "--size", "100M", &path("image")]);
    assert!(mount(&format!("cache={cache}"), &path("image")).contains("object store"));
    let why = mount(&format!("cache={cache}"), &other);
    assert!(
        why.contains("belongs to another volume") && why.contains("cache is called store_cache"),
        "{why}"
    );
    let why = mount(&format!("store_cache={cache}"), &other);
    assert!(why.contains("belongs to another volume") && !why.contains("is called"), "{why}");
}

/// `segno umount` queries the process, not the store, to learn when the volume is closed.
#[test]
fn an_unmount_ends_though_the_store_does_not_answer() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let url = format!("file://{}", path("volume"));
    output(&["mkfs", "-q", "--size", "1G", &url]);
    std::fs::create_dir(path("mnt")).unwrap();
    output(&["mount", &url, &path("mnt")]);
    // A read of a FIFO that nobody writes to waits for ever.
    let record = path("volume/volume");
    std::fs::remove_file(&record).unwrap();
    assert!(Command::new("mkfifo").arg(&record).status().unwrap().success());
    let (code, said) = refusal(&["umount", &path("mnt")]);
    assert_eq!(code, 0, "{said}");
    // It found the process, or it would not have asked the store.
    assert!(said.contains("cannot tell whether") && said.contains("no answer"), "{said}");
}

/// A range beyond the end of an object is damage, not an outage that is waited for.
#[test]
fn a_check_names_an_object_that_was_emptied() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let url = format!("file://{}", path("volume"));
    output(&["mkfs", "-q", "--size", "1G", &url]);
    write(path("file"), vec![7; 100_000]).unwrap();
    output(&["put", &url, &path("file"), "/copied"]);
    for epoch in std::fs::read_dir(path("volume/log")).unwrap() {
        for object in std::fs::read_dir(epoch.unwrap().path()).unwrap() {
            let object = object.unwrap();
            // Not the seals.
            if object.metadata().unwrap().len() > 4096 {
                write(object.path(), b"").unwrap();
            }
        }
    }
    let (code, said) = refusal(&["check", &url]);
    assert!(code != 0 && said.contains("object log/") && said.contains("damaged"), "{code} {said}");
    assert!(!said.contains("waiting for the store"), "{said}");
}

/// The volume is in order, and the other writer's; the first one's user learns that changes are lost.
#[test]
fn an_unmount_reports_that_another_writer_took_the_volume() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let url = format!("file://{}", path("volume"));
    output(&["mkfs", "-q", "--size", "1G", &url]);
    for mount in ["first", "second"] {
        std::fs::create_dir(path(mount)).unwrap();
    }
    output(&["mount", &url, &path("first")]);
    write(path("first/unsynced"), b"x").unwrap();
    let (code, said) = refusal(&["mount", "--takeover", &url, &path("second")]);
    assert!(code == 0 && said.contains("was ended at its commit"), "{code} {said}");
    let (code, said) = refusal(&["umount", &path("first")]);
    assert!(code != 0 && said.contains("took") && said.contains("are lost"), "{code} {said}");
    assert!(!said.contains("segno check"), "{said}");
    let (code, said) = refusal(&["umount", &path("second")]);
    assert_eq!((code, said.as_str()), (0, ""));
}

/// Size, zone, and the minimum share of the size for files, in percent. Below 768 MiB even zones of one
/// segment leave less than 80.
const ROOM: [(&str, u64, u64); 11] = [
    ("128M", 2, 45),
    ("256M", 2, 65),
    ("512M", 2, 75),
    ("768M", 2, 80),
    ("1G", 2, 84),
    ("2G", 4, 80),
    ("4G", 8, 80),
    ("8G", 16, 80),
    ("16G", 32, 80),
    ("64G", 32, 90),
    ("1T", 32, 95),
];

#[test]
fn most_of_a_volume_of_any_size_is_for_files() {
    let dir = tempfile::tempdir().unwrap();
    for (size, zone, percent) in ROOM {
        let url = format!("file://{}/{size}", dir.path().display());
        let made = super::segno(&["mkfs", "--json", "--size", size, &url]);
        assert_eq!(String::from_utf8_lossy(&made.stderr), "", "{size}: no warning of a small reserve");
        let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
        let info = json(&["store", "info", "--json", &url]);
        assert_eq!(info["zone_bytes"], zone * MIB, "{size}");
        let (usable, all) = (made["usable_bytes"].as_u64().unwrap(), info["bytes"].as_u64().unwrap());
        assert!(usable * 100 >= all * percent, "{size}: {usable} of {all}");
    }
    let said = output(&["mkfs", "--size", "1G", &format!("file://{}/text", dir.path().display())]);
    let (volume, journal) = said.split_once('\n').unwrap();
    assert!(volume.ends_with(" of 511 segments, 868.0 MiB for files"), "{said}");
    assert_eq!(journal, "no journal: the volume is on an object store\n");
    let small = format!("file://{}/small", dir.path().display());
    let (code, said) = refusal(&["mkfs", "--size", "16M", &small]);
    assert!(code != 0 && said.contains("16.0 MiB is too small"), "{said}");
}

/// The kernel reports the bytes that mkfs printed, a file takes them, and a full volume is overwritten.
#[test]
fn a_small_volume_takes_what_mkfs_printed() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (mnt, url) = (dir.path().join("mnt"), format!("file://{}/volume", dir.path().display()));
    create_dir(&mnt).unwrap();
    let usable = json(&["mkfs", "--json", "--size", "256M", &url])["usable_bytes"].as_u64().unwrap();
    output(&["mount", &url, mnt.to_str().unwrap()]);
    let stat = rustix::fs::statvfs(&mnt).unwrap();
    let available = stat.f_bavail * stat.f_frsize;
    assert!(available <= usable && available + MIB >= usable, "{available} of {usable}");
    let mut file = OpenOptions::new().write(true).create_new(true).open(mnt.join("all")).unwrap();
    let piece = [7; 1 << 16];
    let taken = fill(&mut file, &piece);
    file.sync_all().unwrap();
    assert!(taken + 2 * MIB >= usable, "{taken} of {usable}");
    // Every sixteenth piece and back again: cleaning works with the reserve alone.
    let pieces = taken / piece.len() as u64;
    for round in 0..4 {
        for n in (round..pieces).step_by(16) {
            file.write_all_at(&[round as u8; 4096], n * piece.len() as u64).unwrap();
        }
        file.sync_all().unwrap();
    }
    drop(file);
    output(&["umount", mnt.to_str().unwrap()]);
    assert!(output(&["check", &url]).ends_with("clean\n"));
}

/// Bytes that a file takes.
fn fill(file: &mut std::fs::File, piece: &[u8]) -> u64 {
    let mut taken = 0;
    loop {
        match file.write(piece) {
            Ok(n) => taken += n as u64,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::StorageFull);
                return taken;
            }
        }
    }
}

/// Name and labels of each sample.
fn series(dirs: &[&str]) -> Vec<String> {
    let text = output(&[&["metrics", "--format", "prometheus"], dirs].concat());
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
}

fn volumes(series: &[String]) -> BTreeSet<&str> {
    series.iter().filter_map(|s| Some(s.split_once("volume=\"")?.1.split_once('"')?.0)).collect()
}

#[test]
fn metrics_of_several_mounts_have_each_series_once() {
    if !can_mount() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let mut ids = BTreeSet::new();
    for (name, size) in [("one", "256M"), ("two", "1G")] {
        create_dir(path(name)).unwrap();
        let url = format!("file://{}", path(&format!("store-{name}")));
        ids.insert(json(&["mkfs", "--json", "--size", size, &url])["uuid"].as_str().unwrap().to_owned());
        output(&["mount", &url, &path(name)]);
    }
    // A volume and its copy.
    let scratch = Scratch::new();
    std::fs::copy(scratch.image(), path("copy.img")).unwrap();
    for (image, name) in [(scratch.image(), "image"), (path("copy.img"), "copy")] {
        create_dir(path(name)).unwrap();
        output(&["mount", &image, &path(name)]);
    }
    let (one, two, image, copy) = (path("one"), path("two"), path("image"), path("copy"));
    let of_stores = series(&[&one, &two]);
    let of_all = series(&[&one, &two, &image, &copy, &one]);
    for dir in [&one, &two, &image, &copy] {
        output(&["umount", dir]);
    }
    for found in [&of_stores, &of_all] {
        let once: BTreeSet<&String> = found.iter().collect();
        assert_eq!(once.len(), found.len());
    }
    assert_eq!(volumes(&of_stores), ids.iter().map(String::as_str).collect());
    let all = volumes(&of_all);
    assert_eq!(all.len(), 4, "{all:?}");
    assert!(all.iter().any(|v| v.ends_with(&format!(" {copy}"))), "{all:?}");
}
