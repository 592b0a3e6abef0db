//! Volumes in a directory store.
use super::{can_mount, json, output, refusal};
use std::fs::write;
use std::path::Path;
use std::process::Command;

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
    assert!(mount("writeback", &volume).contains("cache=/DIR"));
    assert!(mount("cache=/c,cache_size=1M", &volume).contains("64M"));
    output(&["mkfs", "-q", "--size", "100M", &path("image")]);
    assert!(mount(&format!("cache={cache}"), &path("image")).contains("object store"));
    assert!(mount(&format!("cache={cache}"), &other).contains("belongs to another volume"));
}

/// `segno umount` asks the process, not the store, when the volume is closed.
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
