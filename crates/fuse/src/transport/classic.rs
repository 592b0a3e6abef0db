//! Requests through /dev/fuse: read(2) returns a request, write(2) sends the reply. Each thread has its own descriptor,
//! as a reply must go to the descriptor that its request was read from.
use super::memory::{Buffer, PAGE};
use super::message::reply_to;
use super::scheduling::Scheduling;
use crate::file_system::FileSystem;
use crate::wire::InHeader;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use rustix::ioctl::{Setter, ioctl, opcode};
use std::io;
use std::time::Duration;
use zerocopy::FromBytes;

const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

/// Opens another descriptor of the same connection.
pub(crate) fn clone_device(dev: impl AsFd) -> io::Result<OwnedFd> {
    let other = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let of = dev.as_fd().as_raw_fd().cast_unsigned();
    // SAFETY: FUSE_DEV_IOC_CLONE reads one `u32`, the number of a descriptor that is open, through its pointer.
    unsafe { ioctl(&other, Setter::<CLONE, u32>::new(of))? };
    Ok(other)
}

/// Serves requests without a waiting caller, such as FORGET, until the mount ends. `payload` is the maximum size of the data in one
/// message. The thread sleeps for `pause` after each message, to serve them in batches.
pub(crate) fn serve_batches(
    dev: &OwnedFd,
    fs: &dyn FileSystem,
    payload: usize,
    pause: Duration,
) -> io::Result<()> {
    let (mut incoming, mut outgoing) = (Buffer::new(payload + PAGE)?, Buffer::new(payload + PAGE)?);
    while let Some(message) = receive(dev, &mut incoming)? {
        if let Some(reply) = reply_to(fs, message, outgoing.bytes()) {
            send(dev, reply)?;
        }
        std::thread::sleep(pause);
    }
    Ok(())
}

/// Serves requests until the mount ends, as one of several threads.
pub(crate) fn serve(
    dev: &OwnedFd,
    fs: &dyn FileSystem,
    payload: usize,
    scheduling: &Scheduling,
) -> io::Result<()> {
    let (mut incoming, mut outgoing) = (Buffer::new(payload + PAGE)?, Buffer::new(payload + PAGE)?);
    let thread = scheduling.of_device();
    while let Some(message) = receive(dev, &mut incoming)? {
        // A message without a header has no caller.
        let head = InHeader::read_from_prefix(message).map_or_else(|_| InHeader::default(), |(head, _)| head);
        let Some(reply) = thread.serve(&head, || reply_to(fs, message, outgoing.bytes())) else { continue };
        thread.deliver(message.len() + reply.len(), || send(dev, reply))?;
    }
    Ok(())
}

/// The next message; `None` at the end of the mount.
fn receive<'a>(dev: &OwnedFd, into: &'a mut Buffer) -> io::Result<Option<&'a [u8]>> {
    let len = loop {
        match read(dev, into.bytes()) {
            Ok(n) => break n,
            // ENOENT: the request was withdrawn while it was being read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
            Err(Errno::NODEV) => return Ok(None),
            Err(e) => return Err(e.into()),
        }
    };
    Ok(Some(into.bytes().get(..len).unwrap_or_default()))
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
