//! Requests through /dev/fuse: read(2) returns a request, write(2) sends the reply. Each thread has its own descriptor,
//! as a reply must go to the descriptor that its request was read from.
use super::memory::{Buffer, PAGE};
use super::message::reply_to;
use crate::server::Server;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use rustix::ioctl::{Setter, ioctl, opcode};
use std::io;
use std::time::Duration;

const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

/// Opens another descriptor of the same connection.
pub(crate) fn clone_device(dev: impl AsFd) -> io::Result<OwnedFd> {
    let other = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let of = dev.as_fd().as_raw_fd().cast_unsigned();
    // SAFETY: FUSE_DEV_IOC_CLONE reads one `u32`, the number of a descriptor that is open, through its pointer.
    unsafe { ioctl(&other, Setter::<CLONE, u32>::new(of))? };
    Ok(other)
}

/// Serves until the mount ends. `payload` is the maximum size of the data in one message. The thread sleeps for `pause`
/// after each message, to serve requests in batches that no caller waits for.
pub(crate) fn serve(dev: &OwnedFd, server: &Server, payload: usize, pause: Duration) -> io::Result<()> {
    let mut incoming = Buffer::new(payload + PAGE)?;
    let mut outgoing = Buffer::new(payload + PAGE)?;
    loop {
        let message = match read(dev, incoming.bytes()) {
            Ok(n) => incoming.bytes().get(..n).unwrap_or_default(),
            // ENOENT: the request was withdrawn while it was being read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            Err(Errno::NODEV) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        if let Some(reply) = reply_to(server, message, outgoing.bytes()) {
            send(dev, reply)?;
        }
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
}

/// Sends a reply. If its request was aborted, or the kernel rejects it, only that caller is affected.
fn send(dev: &OwnedFd, reply: &[u8]) -> io::Result<()> {
    loop {
        match write(dev, reply) {
            Err(Errno::INTR) => {}
            Err(e @ (Errno::BADF | Errno::PERM)) => return Err(e.into()),
            _ => return Ok(()),
        }
    }
}
