//! Callers never hang, even if the server dies.
use super::{each_transport, unmount_idle};
use rustix::mount::{UnmountFlags, unmount};
use std::fs::{self, File};
use std::io::ErrorKind;

#[test]
fn requests_on_an_aborted_connection_fail_and_it_can_be_unmounted() {
    each_transport(
        |m| {
            fs::write(m.path().join("f"), "x").unwrap();
            let open = File::open(m.path().join("f")).unwrap();
            // A forced unmount of a mount in use fails but aborts the connection, as the death of the server does.
            unmount(m.path(), UnmountFlags::FORCE).unwrap_err();
            let e = fs::write(m.path().join("g"), "y").unwrap_err();
            assert!(matches!(e.kind(), ErrorKind::NotConnected | ErrorKind::ConnectionAborted), "{e}");
            m.session.wait().unwrap();
            drop(open);
            unmount_idle(m.path()).unwrap();
        },
        &[],
    );
}

#[test]
fn unmounting_ends_the_session() {
    each_transport(
        |m| {
            fs::write(m.path().join("f"), "x").unwrap();
            unmount(m.path(), UnmountFlags::DETACH).unwrap();
            m.session.wait().unwrap();
        },
        &[],
    );
}
