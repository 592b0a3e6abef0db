//! `segno export` until a monitor connects; the tests of `segno-virtiofs` continue from there.
use super::{Scratch, output, refusal};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, metadata};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that listens.
struct Server(Child);

impl Server {
    fn start(socket: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_segno"))
            .arg("export")
            .arg("--vhost-user")
            .arg(socket)
            .args(args)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("is ready for a virtual machine at"), "{line}");
        Self(child)
    }

    fn signal(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        self.0.wait().unwrap().code()
    }
}

#[test]
fn an_export_ends_clean_by_a_signal() {
    let scratch = Scratch::new();
    let (image, socket) = (scratch.image(), scratch.path("socket"));
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut server = Server::start(&socket, &["-o", "cache=32M,uid=1000", &image]);
        assert_eq!(metadata(&socket).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(server.signal(signal), Some(0));
        assert!(output(&["check", &image]).ends_with("clean\n"));
    }
}

#[test]
fn an_export_ends_with_its_monitor() {
    let scratch = Scratch::new();
    let (image, socket) = (scratch.image(), scratch.path("socket"));
    let mut server = Server::start(&socket, &[&image]);
    drop(UnixStream::connect(&socket).unwrap());
    assert_eq!(server.0.wait().unwrap().code(), Some(0));
    assert!(output(&["check", &image]).ends_with("clean\n"));
}

#[test]
fn image_and_socket_have_one_server() {
    let (scratch, other) = (Scratch::new(), Scratch::new());
    let (image, socket) = (scratch.image(), scratch.path("socket"));
    let path = socket.to_str().unwrap();
    let mut server = Server::start(&socket, &[&image]);
    let said = refusal(&["export", "--vhost-user", path, &other.image()]).1;
    assert!(said.contains("another program listens on this socket"), "{said}");
    assert_eq!(server.signal(Signal::KILL), None);

    // The socket of the killed server is replaced, and its volume recovered.
    let mut server = Server::start(&socket, &[&image]);
    assert_eq!(server.signal(Signal::TERM), Some(0));
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "text").unwrap();
    let said = refusal(&["export", "--vhost-user", path, &image]).1;
    assert!(said.contains("no socket"), "{said}");
    assert!(output(&["check", &image]).ends_with("clean\n"));
}

#[test]
fn options_for_this_kernel_are_refused() {
    for (option, reason) in [
        ("nodev", "mount(8) in the guest"),
        ("allow_other", "all users of the guest"),
        ("transport=classic", "transport="),
        ("blk=off", "blk="),
        ("log=/tmp/log", "standard error"),
        ("sparkle", "unknown mount option"),
    ] {
        let (code, said) = refusal(&["export", "--vhost-user", "/nonexistent/socket", "-o", option, "image"]);
        assert!(code == 2 && said.contains(reason), "{option}: {said}");
    }
    let long = "x".repeat(37);
    let (_, said) = refusal(&["export", "--vhost-user", "socket", "--tag", &long, "image"]);
    assert!(said.contains("1 to 36 bytes"), "{said}");
}
