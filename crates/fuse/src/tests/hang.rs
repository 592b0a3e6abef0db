//! Nothing that happens to a server leaves a caller waiting.
use super::{Mount, each_transport};
use crate::mount;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

/// Tears the connection down, as the death of the server does.
fn abort(mount: &Mount) {
    let dev = fs::metadata(mount.path()).unwrap().dev();
    let minor = rustix::fs::minor(dev);
    fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1").unwrap();
}

#[test]
fn a_connection_torn_down_answers_with_an_error_and_can_be_unmounted() {
    each_transport(
        |m| {
            fs::write(m.path().join("f"), "x").unwrap();
            if fs::read_dir("/sys/fs/fuse/connections").map_or(true, |mut d| d.next().is_none()) {
                eprintln!("NOT TESTED: /sys/fs/fuse/connections is not mounted");
                return;
            }
            abort(m);
            let e = fs::write(m.path().join("g"), "y").unwrap_err();
            assert!(matches!(e.kind(), ErrorKind::NotConnected | ErrorKind::ConnectionAborted), "{e}");
            m.session.wait().unwrap();
            mount::detach(m.path()).unwrap();
        },
        &[],
    );
}

#[test]
fn unmounting_ends_the_session() {
    each_transport(
        |m| {
            fs::write(m.path().join("f"), "x").unwrap();
            mount::detach(m.path()).unwrap();
            m.session.wait().unwrap();
        },
        &[],
    );
}

#[test]
fn a_bug_in_a_request_is_an_error_of_that_request() {
    let server = crate::server::Server::new(super::volume());
    server.volume.stop();
    let e = server.volume.sync().unwrap_err();
    assert_eq!(e.errno(), 5);
}
