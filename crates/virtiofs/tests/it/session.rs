//! Sessions of well-behaved guests.
use crate::Rig;
use crate::client::{Client, HIPRIO, REQUESTS, chain};
use crate::fuse::*;
use segno_engine::Owner;
use segno_fuse::GuestOptions;
use segno_virtiofs::End;
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;

/// A pattern that no other file has.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn a_file_from_create_to_forget() {
    for indirect in [false, true] {
        let rig = Rig::new();
        let (export, mut guest) = rig.export();
        guest.indirect = indirect;
        assert_eq!(body(&guest.call(&init())).len(), 64);
        // A second monitor is refused, if not at once.
        let refusal = std::iter::repeat_with(|| UnixStream::connect(rig.socket())).find_map(Result::err);
        assert_eq!(refusal.unwrap().kind(), ErrorKind::ConnectionRefused);
        let file = node(&guest.call(&create("file", 0o100_644)));
        let data = pattern(1 << 20);
        assert_eq!(body(&guest.call(&write(file, 5, &data)))[..4], (1_u32 << 20).to_le_bytes());
        body(&guest.call(&request(FSYNC, file, &[&[0; 16]])));
        assert_eq!(body(&guest.call(&read(file, 5, 1 << 20))), data);
        assert_eq!(body(&guest.call(&read(file, (1 << 20) + 3, 100))), &data[(1 << 20) - 2..]);
        assert!(body(&guest.call(&read(file, 2 << 20, 100))).is_empty());
        let other = node(&guest.call(&mknod("other", 0o100_600)));
        assert_ne!(other, file);
        assert_eq!(body(&guest.call(&request(STATFS, ROOT, &[]))).len(), 80);

        // No reply: the entry is used with a length of 0.
        assert_eq!(guest.call_on(HIPRIO, &forget(file, 1), 0), []);
        assert_eq!(parse(&guest.call(&read(file, 0, 10))).0, ESTALE);
        assert_eq!(node(&guest.call(&named(LOOKUP, "file"))), file);
        assert_eq!(parse(&guest.call(&request(99, ROOT, &[]))).0, ENOSYS);
        body(&guest.call(&request(SYNCFS, ROOT, &[&[0; 8]])));
        body(&guest.call(&request(DESTROY, ROOT, &[])));
        drop(guest);
        assert_eq!(export.end(), End::Disconnected);
        assert!(!rig.socket().exists());
        rig.assert_clean();
    }
}

/// Names of the root directory after a power cut now.
fn after_power_cut(rig: &Rig) -> Vec<String> {
    use segno_device::{FileDevice, OpenOptions};
    use segno_engine::{MountOptions, Volume};
    let copy = rig.dir.path().join("copy");
    std::fs::copy(rig.dir.path().join("image"), &copy).unwrap();
    let device = FileDevice::open(&copy, OpenOptions::default()).unwrap();
    let volume = Volume::mount(std::sync::Arc::new(device), MountOptions::default()).unwrap();
    let mut names = Vec::new();
    let mut each = |e: segno_engine::DirEntry<'_>| {
        names.push(String::from_utf8_lossy(e.name).into_owned());
        true
    };
    volume.readdir(volume.root(), 0, &mut each).unwrap();
    names.retain(|n| !n.starts_with('.'));
    names.sort();
    names
}

#[test]
fn syncfs_and_destroy_make_everything_durable() {
    let rig = Rig::new();
    let (export, mut guest) = rig.export();
    body(&guest.call(&init()));
    body(&guest.call(&mknod("a", 0o100_644)));
    body(&guest.call(&request(SYNCFS, ROOT, &[&[0; 8]])));
    assert_eq!(after_power_cut(&rig), ["a"]);
    body(&guest.call(&mknod("b", 0o100_644)));
    body(&guest.call(&request(DESTROY, ROOT, &[])));
    assert_eq!(after_power_cut(&rig), ["a", "b"]);
    drop(guest);
    assert_eq!(export.end(), End::Disconnected);
    rig.assert_clean();
}

/// An inode without a name is kept for the guest that has it open, and only for that one.
#[test]
fn a_guest_that_starts_over_has_forgotten_everything() {
    type StartOver = (&'static str, fn(&mut Client));
    let start_over: [StartOver; 4] = [
        ("INIT", |_| {}),
        ("DESTROY", |guest| drop(guest.call(&request(DESTROY, ROOT, &[])))),
        ("reset of the guest", |guest| {
            guest.stop();
            guest.start();
        }),
        ("RESET_DEVICE", |guest| {
            use vhost::VhostBackend;
            use vhost::vhost_user::VhostUserFrontend;
            guest.stop();
            guest.frontend.reset_device().unwrap();
            let features = guest.frontend.get_features().unwrap();
            guest.frontend.set_features(features).unwrap();
            guest.start();
        }),
    ];
    let rig = Rig::new();
    let (export, mut guest) = rig.export();
    let inodes = || rig.volume.report().into_iter().find(|(name, _)| *name == "valid_inode_count").unwrap().1;
    let before = inodes();
    for (how, start_over) in start_over {
        body(&guest.call(&init()));
        let file = node(&guest.call(&create("file", 0o100_644)));
        body(&guest.call(&named(UNLINK, "file")));
        body(&guest.call(&write(file, 0, b"still here")));
        assert_eq!((body(&guest.call(&read(file, 0, 100))), inodes()), (&b"still here"[..], before + 1));
        start_over(&mut guest);
        body(&guest.call(&init()));
        assert_eq!(parse(&guest.call(&getattr(file))).0, ESTALE, "{how}");
        assert_eq!(inodes(), before, "{how}");
    }
    drop(guest);
    assert_eq!(export.end(), End::Disconnected);
    rig.assert_clean();
}

#[test]
fn nothing_is_served_before_init() {
    let rig = Rig::new();
    let (export, mut guest) = rig.export();
    assert_eq!(parse(&guest.call(&named(LOOKUP, "file"))).0, EIO);
    assert_eq!(guest.call_on(HIPRIO, &forget(5, 1), 0), []);
    // FUSE 7.30, Linux 5.3.
    assert_eq!(parse(&guest.call(&init_of(30))).0, -71);
    assert_eq!(parse(&guest.call(&named(LOOKUP, "file"))).0, EIO);
    body(&guest.call(&init()));
    assert_eq!(node(&guest.call(&named(LOOKUP, "file"))), 0);
    export.stopper.stop();
    assert_eq!(export.end(), End::Stopped);
    rig.assert_clean();
}

/// The engine takes every number that it is given for an inode.
#[test]
fn only_inodes_that_were_looked_up_can_be_named() {
    let rig = Rig::new();
    let owner = Owner { uid: 0, gid: 0, umask: 0 };
    let hidden = rig.volume.mknod(rig.volume.root(), b"file", 0o100_644, (0, 0), owner).unwrap().ino;
    let hidden = u64::from(hidden.0);
    let (export, mut guest) = rig.export();
    body(&guest.call(&init()));
    let known = node(&guest.call(&create("known", 0o100_644)));
    for number in [0, 2, 3, hidden, 12345, u64::from(u32::MAX), u64::MAX] {
        assert_eq!(parse(&guest.call(&getattr(number))).0, ESTALE, "{number}");
        let link = request(LINK, ROOT, &[&number.to_le_bytes(), b"link\0"]);
        assert_eq!(parse(&guest.call(&link)).0, ESTALE, "{number}");
        // More often than it was looked up.
        assert_eq!(guest.call_on(HIPRIO, &forget(number, u64::MAX), 0), []);
    }
    assert_eq!(node(&guest.call(&named(LOOKUP, "file"))), hidden);
    body(&guest.call(&request(LINK, ROOT, &[&hidden.to_le_bytes(), b"link\0"])));
    body(&guest.call(&getattr(known)));
    drop(guest);
    export.end();
    rig.assert_clean();
}

/// A write clears set-user-ID in the volume, and the guest is not notified.
#[test]
fn attributes_with_set_id_bits_are_not_cached() {
    let rig = Rig::new();
    let (export, mut guest) = rig.export();
    body(&guest.call(&init()));
    let valid = |guest: &mut Client, name: &str, mode| attr_valid(&guest.call(&mknod(name, mode)));
    assert_eq!(valid(&mut guest, "plain", 0o100_755), 1 << 31);
    assert_eq!(valid(&mut guest, "suid", 0o104_755), 0);
    assert_eq!(valid(&mut guest, "sgid", 0o102_755), 0);
    drop(guest);
    export.end();
    rig.assert_clean();
}

/// The guest would take a short reply for the end of the file.
#[test]
fn a_read_beyond_the_room_for_it_fails() {
    let rig = Rig::new();
    let (export, mut guest) = rig.export();
    body(&guest.call(&init()));
    let file = node(&guest.call(&create("file", 0o100_644)));
    body(&guest.call(&write(file, 0, &[1; 8192])));
    assert_eq!(parse(&guest.call_on(REQUESTS, &read(file, 0, 8192), 16 + 4096)).0, -22);
    assert_eq!(parse(&guest.call(&read(file, 0, 2 << 20))).0, -22);
    assert_eq!(body(&guest.call_on(REQUESTS, &read(file, 0, 8192), 16 + 8192)).len(), 8192);
    drop(guest);
    export.end();
    rig.assert_clean();
}

#[test]
fn a_monitor_that_disappears_loses_no_acknowledged_change() {
    let rig = Rig::new();
    let (export, mut guest) = rig.export();
    body(&guest.call(&init()));
    let file = node(&guest.call(&create("file", 0o100_644)));
    // The same request several times; the replies are not awaited.
    let message = write(file, 0, &pattern(100_000));
    use vm_memory::{Bytes, GuestAddress};
    guest.memory.write_slice(&message, GuestAddress(crate::client::REQUEST)).unwrap();
    for _ in 0..100 {
        guest.offer(REQUESTS, &chain(message.len(), 24));
    }
    drop(guest);
    assert_eq!(export.end(), End::Disconnected);
    rig.assert_clean();
}

#[test]
fn a_session_follows_another() {
    let rig = Rig::new();
    for round in 0..5 {
        let (export, mut guest) = rig.export_with(GuestOptions { threads: 1, ..GuestOptions::default() });
        body(&guest.call(&init()));
        assert_eq!(node(&guest.call(&named(LOOKUP, &format!("file{}", round + 1)))), 0);
        node(&guest.call(&create(&format!("file{}", round + 1), 0o100_644)));
        node(&guest.call(&named(LOOKUP, "file1")));
        drop(guest);
        assert_eq!(export.end(), End::Disconnected);
    }
    rig.assert_clean();
}

#[test]
fn the_configuration_has_the_tag() {
    let rig = Rig::new();
    let (export, mut guest) = rig.export();
    let tag = guest.config(0, 36);
    assert_eq!(&tag[..8], b"scratch\0");
    drop(guest);
    export.end();
}

/// The guest's user has the uid of the server's user, which gives no authority.
#[test]
fn root_of_a_guest_changes_no_setting_and_not_the_volume() {
    let rig = Rig::new();
    rig.volume.set_label("ours").unwrap();
    let (export, mut guest) = rig.export();
    body(&guest.call(&init()));
    for space in ["system", "trusted"] {
        for (name, value) in
            [("gc", "off"), ("writeback.contexts", "2"), ("fsync.lookup", "global"), ("shutdown", "2")]
        {
            let reply = guest.call(&set_attribute(&format!("{space}.segno.{name}"), value.as_bytes()));
            assert_eq!(parse(&reply).0, EPERM, "{space}, {name}");
        }
    }
    // FITRIM, FS_IOC_SHUTDOWN, FS_IOC_SETFSLABEL.
    for cmd in [0xc018_5879, 0x8004_587d, 0x4100_9432] {
        assert_eq!(parse(&guest.call(&ioctl(cmd))).0, EPERM, "{cmd:#x}");
    }
    body(&guest.call(&set_attribute("system.segno.sync", b"")));
    body(&guest.call(&set_attribute("trusted.other", b"stored")));
    assert_eq!((rig.volume.gc_mode().name(), rig.volume.label().as_str()), ("normal", "ours"));
    body(&guest.call(&request(DESTROY, ROOT, &[])));
    drop(guest);
    assert_eq!(export.end(), End::Disconnected);
    rig.assert_clean();
}
