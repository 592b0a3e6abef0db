//! Nothing that happens to a server leaves a caller waiting.
use super::each_transport;
use rustix::mount::{UnmountFlags, unmount};
use std::fs::{self, File};
use std::io::ErrorKind;

#[test]
fn a_connection_torn_down_answers_with_an_error_and_can_be_unmounted() {
    each_transport(
        |m| {
            fs::write(m.path().join("f"), "x").unwrap();
            let open = File::open(m.path().join("f")).unwrap();
            // A mount in use stays when it is forced to go, but its connection ends, as it does when the server dies.
            unmount(m.path(), UnmountFlags::FORCE).unwrap_err();
            let e = fs::write(m.path().join("g"), "y").unwrap_err();
            assert!(matches!(e.kind(), ErrorKind::NotConnected | ErrorKind::ConnectionAborted), "{e}");
            m.session.wait().unwrap();
            drop(open);
            unmount(m.path(), UnmountFlags::empty()).unwrap();
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
