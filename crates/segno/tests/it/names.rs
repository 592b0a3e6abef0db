//! Names come, change and go.
use super::{finish, volume};
use segno::{FileType, Special};
use std::collections::BTreeSet;
use std::io::ErrorKind;

#[test]
fn many_names_are_listed_once_each() {
    let (volume, device) = volume();
    volume.create_dir("/d").unwrap();
    (0..1000).for_each(|i| volume.write(format!("/d/{i}"), "").unwrap());
    // Removing an entry before the position neither hides nor repeats others.
    let mut seen = BTreeSet::new();
    for entry in volume.read_dir("/d").unwrap() {
        let entry = entry.unwrap();
        assert!(seen.insert(entry.file_name()) && entry.metadata().unwrap().ino() == entry.ino());
        volume.remove_file(entry.path()).unwrap();
    }
    assert_eq!((seen.len(), volume.read_dir("/d").unwrap().count()), (1000, 0));
    finish(volume, &device);
}

#[test]
fn trees_are_walked_and_removed() {
    let (volume, device) = volume();
    volume.write("/outside", "").unwrap();
    for i in 0..30 {
        volume.create_dir_all(format!("/tree/{i}/{i}")).unwrap();
        volume.write(format!("/tree/{i}/{i}/file"), "x").unwrap();
    }
    volume.create_dir_all("/tree/7/7").unwrap();
    volume.symlink("/outside", "/tree/link").unwrap();
    let mut seen: Vec<_> = volume.walk("/tree").unwrap().map(|e| e.unwrap().path().to_owned()).collect();
    let in_order = seen.iter().enumerate().all(|(i, p)| {
        seen.iter().position(|above| Some(above.as_path()) == p.parent()).is_none_or(|above| above < i)
    });
    assert!(in_order, "a directory comes after what it contains");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 91);
    assert_eq!(volume.remove_dir("/tree").unwrap_err().kind(), ErrorKind::DirectoryNotEmpty);
    assert_eq!(volume.remove_dir_all("/tree/link").unwrap_err().kind(), ErrorKind::NotADirectory);
    volume.remove_dir_all("/tree").unwrap();
    assert!(volume.exists("/outside").unwrap() && !volume.exists("/tree").unwrap());
    assert_eq!(volume.create_dir_all("/outside/x").unwrap_err().kind(), ErrorKind::NotADirectory);
    finish(volume, &device);
}

#[test]
fn names_are_linked_replaced_and_exchanged() {
    let (volume, device) = volume();
    volume.write("/a", "a").unwrap();
    volume.write("/b", "b").unwrap();
    volume.hard_link("/a", "/also").unwrap();
    assert_eq!(volume.metadata("/also").unwrap().nlink(), 2);
    volume.exchange("/a", "/b").unwrap();
    assert_eq!((volume.read("/a").unwrap(), volume.read("/b").unwrap()), (b"b".into(), b"a".into()));
    volume.rename("/a", "/b").unwrap();
    assert_eq!((volume.read("/b").unwrap(), volume.read("/also").unwrap()), (b"b".into(), b"a".into()));
    let refused = volume.rename("/gone", "/b").unwrap_err();
    assert_eq!(refused.to_string(), "cannot rename /gone: no such file or directory");
    volume.create_dir("/d").unwrap();
    assert_eq!(volume.hard_link("/d", "/e").unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(volume.remove_file("/d").unwrap_err().kind(), ErrorKind::IsADirectory);
    finish(volume, &device);
}

#[test]
fn special_files_are_created_and_not_opened() {
    let (volume, device) = volume();
    volume.create_special("/null", Special::CharDevice { major: 1, minor: 3 }).unwrap();
    volume.create_special("/pipe", Special::Fifo).unwrap();
    let found = volume.metadata("/null").unwrap();
    assert_eq!((found.file_type(), found.device_number()), (FileType::CharDevice, (1, 3)));
    assert_eq!(volume.open_file("/pipe").unwrap_err().kind(), ErrorKind::Unsupported);
    finish(volume, &device);
}

#[test]
fn a_removed_directory_takes_no_names() {
    let (volume, device) = volume();
    volume.create_dir("/d").unwrap();
    let dir = volume.open_dir("/d").unwrap();
    volume.remove_dir("/d").unwrap();
    assert_eq!(dir.write("file", "").unwrap_err().kind(), ErrorKind::NotFound);
    assert!(dir.read_dir(".").is_ok_and(|mut names| names.next().is_none_or(|e| e.is_err())));
    drop(dir);
    finish(volume, &device);
}

#[test]
fn names_that_change_under_paths_lead_nowhere_else() {
    let (volume, device) = volume();
    std::thread::scope(|threads| {
        for i in 0..3 {
            let volume = &volume;
            threads.spawn(move || {
                // Whatever fails here has lost a race; nothing may be damaged or left over.
                for _ in 0..300 {
                    let _raced = volume.create_dir_all("/d/e");
                    let _raced = volume.write(format!("/d/e/{i}"), "x");
                    let _raced = volume.rename(format!("/d/e/{i}"), "/d/e/moved");
                    let _raced = volume.remove_dir_all("/d");
                }
            });
        }
        (0..100).for_each(|_| volume.sync().unwrap());
    });
    let _gone_already = volume.remove_dir_all("/d");
    assert_eq!(volume.read_dir("/").unwrap().count(), 0);
    volume.close().unwrap();
    let report = segno::check(&device).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!((report.summary.inodes, report.summary.orphans), (1, 0));
}
