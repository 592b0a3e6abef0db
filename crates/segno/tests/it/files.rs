//! Open files.
use super::{finish, volume};
use segno::{OpenOptions, SetMetadata, Time};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};

#[test]
fn files_are_read_and_written_in_sequence_and_anywhere() {
    let (volume, device) = volume();
    let mut file = volume.create_file("/f").unwrap();
    file.write_all(b"0123456789").unwrap();
    file.seek(SeekFrom::End(-3)).unwrap();
    let mut end = String::new();
    file.read_to_string(&mut end).unwrap();
    assert_eq!(end, "789");
    file.write_at(b"ab", 1).unwrap();
    let mut start = [0; 4];
    assert_eq!(file.read_at(&mut start, 0).unwrap(), 4);
    assert_eq!(&start, b"0ab3");
    assert_eq!(file.stream_position().unwrap(), 10);
    assert_eq!(file.seek(SeekFrom::Current(-11)).unwrap_err().kind(), ErrorKind::InvalidInput);
    file.set_len(2).unwrap();
    file.sync_data().unwrap();
    assert_eq!(volume.read("/f").unwrap(), b"0a");
    drop(file);
    finish(volume, &device);
}

#[test]
fn options_say_what_a_file_may_be_used_for() {
    let (volume, device) = volume();
    volume.write("/f", "x").unwrap();
    let mut reader = volume.open_file("/f").unwrap();
    let refused = reader.write(b"y").unwrap_err();
    assert_eq!(refused.to_string(), "cannot write /f: the file is not open for writing");
    let inner = refused.get_ref().and_then(|e| e.downcast_ref::<segno::Error>()).unwrap();
    assert_eq!(inner.errno(), 9);
    assert!(reader.set_len(0).is_err());
    let writer = volume.open_file_with("/f", &OpenOptions::new().write(true)).unwrap();
    assert!(writer.read_at(&mut [0], 0).is_err());
    for bad in [
        OpenOptions::new(),
        OpenOptions::new().read(true).create(true),
        OpenOptions::new().append(true).truncate(true),
    ] {
        assert_eq!(volume.open_file_with("/f", &bad).unwrap_err().kind(), ErrorKind::InvalidInput, "{bad:?}");
    }
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).owner(1, 2);
    assert_eq!(volume.open_file_with("/f", &new).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let made = volume.open_file_with("/g", &new).unwrap().metadata().unwrap();
    assert_eq!((made.mode(), made.uid(), made.gid()), (0o100_600, 1, 2));
    assert_eq!(volume.open_file("/").unwrap_err().kind(), ErrorKind::IsADirectory);
    drop((reader, writer));
    finish(volume, &device);
}

#[test]
fn appends_of_several_handles_do_not_overlap() {
    let (volume, device) = volume();
    std::thread::scope(|threads| {
        for byte in b'a'..b'e' {
            let volume = &volume;
            threads.spawn(move || {
                let options = OpenOptions::new().append(true).create(true);
                let mut log = volume.open_file_with("/log", &options).unwrap();
                (0..200).for_each(|_| log.write_all(&[byte; 7]).unwrap());
            });
        }
    });
    let log = volume.read("/log").unwrap();
    assert_eq!(log.len(), 4 * 200 * 7);
    assert!(log.chunks(7).all(|record| record.iter().all(|b| *b == record[0])));
    finish(volume, &device);
}

#[test]
fn a_removed_file_lives_until_it_is_closed() {
    let (volume, device) = volume();
    let file = volume.create_file("/f").unwrap();
    volume.remove_file("/f").unwrap();
    file.write_at(b"still here", 0).unwrap();
    let mut text = [0; 10];
    file.read_at(&mut text, 0).unwrap();
    assert_eq!((&text, file.metadata().unwrap().nlink()), (b"still here", 0));
    drop(file);
    finish(volume, &device);
}

#[test]
fn space_is_reserved_and_freed_in_place() {
    let (volume, device) = volume();
    let file = volume.create_file("/f").unwrap();
    file.allocate(0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().blocks(), 2048);
    file.punch_hole(0, 1 << 20).unwrap();
    assert_eq!((file.metadata().unwrap().blocks(), file.metadata().unwrap().len()), (0, 1 << 20));
    file.write_at(b"x", 512 << 10).unwrap();
    assert_eq!(file.seek_data(0).unwrap(), Some(512 << 10));
    assert_eq!(file.seek_hole(512 << 10).unwrap(), Some(516 << 10));
    assert_eq!(file.seek_data(516 << 10).unwrap(), None);
    assert_eq!(volume.extents("/f").unwrap().len(), 1);
    drop(file);
    finish(volume, &device);
}

#[test]
fn attributes_change_together() {
    let (volume, device) = volume();
    volume.write("/f", "").unwrap();
    volume.symlink("f", "/link").unwrap();
    let time = Time { secs: -5, nsec: 9 };
    let change = SetMetadata::new().mode(0o100_751).owner(3, 4).accessed(time).modified(time);
    volume.set_metadata("/link", &change).unwrap();
    let found = volume.metadata("/f").unwrap();
    assert_eq!((found.mode(), found.uid(), found.gid()), (0o100_751, 3, 4));
    assert_eq!((found.accessed(), found.modified()), (time, time));
    assert!(found.changed() > time);
    volume.set_symlink_metadata("/link", &SetMetadata::new().owner(8, 9)).unwrap();
    assert_eq!(volume.symlink_metadata("/link").unwrap().uid(), 8);
    assert_eq!(volume.metadata("/link").unwrap().uid(), 3);
    volume.set_len("/link", 100).unwrap();
    assert_eq!(volume.metadata("/f").unwrap().len(), 100);
    let refused = volume.set_xattr("/f", "strange.name", b"").unwrap_err();
    assert_eq!((refused.errno(), refused.kind()), (95, ErrorKind::Unsupported));
    finish(volume, &device);
}
