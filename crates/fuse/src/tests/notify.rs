//! Notifications reach the kernel over both transports.
use super::each_transport;
use crate::attr::ino_of;
use segno_engine::SetAttr;
use segno_format::Ino;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

#[test]
fn attributes_changed_by_the_server_are_fetched_again() {
    each_transport(
        |mount| {
            let path = mount.path().join("f");
            File::create(&path).unwrap();
            let mode = || fs::metadata(&path).unwrap().mode() & 0o7777;
            let ino = ino_of(fs::metadata(&path).unwrap().ino());
            let set = SetAttr { mode: Some(0o4711), ..SetAttr::default() };
            mount.server.volume.setattr(ino, &set).unwrap();
            assert_ne!(mode(), 0o4711, "attributes are cached");
            mount.server.notifier.attributes_changed(ino).unwrap();
            assert_eq!(mode(), 0o4711);
        },
        &[],
    );
}

#[test]
fn a_notification_for_an_uncached_inode_is_no_error() {
    each_transport(
        |mount| {
            mount.server.notifier.attributes_changed(Ino(123_456)).unwrap();
            mount.server.notifier.attributes_changed(mount.server.volume.root()).unwrap();
        },
        &[],
    );
}
