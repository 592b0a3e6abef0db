//! Requests through /dev/fuse: read(2) returns a request, write(2) sends the reply. Each thread has its own descriptor,
//! as a reply must go to the descriptor that its request was read from.
use super::memory::{Buffer, PAGE};
use crate::request::{Malformed, Request};
use crate::server::{Answer, Server};
use crate::wire::OutHeader;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, write};
use rustix::ioctl::{Setter, ioctl, opcode};
use std::io;
use std::time::Duration;
use zerocopy::IntoBytes;

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

/// Builds the reply to a message in `out`. The body starts at the second page, so that data is page-aligned.
pub(crate) fn reply_to<'a>(server: &Server, message: &[u8], out: &'a mut [u8]) -> Option<&'a [u8]> {
    const HEAD: usize = size_of::<OutHeader>();
    let body = out.get_mut(PAGE..)?;
    let (unique, answer) = match Request::from_message(message) {
        Ok(request) => (request.head.unique, server.answer(&request, body)),
        Err(Malformed::Refused { unique, errno }) => (unique, Answer::Refusal(errno)),
        Err(Malformed::Unreadable) => return None,
    };
    let (len, error) = match answer {
        Answer::Nothing => return None,
        Answer::Body(len) => (len, 0),
        Answer::Refusal(errno) => (0, -errno.raw_os_error()),
    };
    let header = OutHeader { len: (HEAD + len) as u32, error, unique };
    let whole = out.get_mut(PAGE - HEAD..PAGE + len)?;
    whole.get_mut(..HEAD)?.copy_from_slice(header.as_bytes());
    Some(whole)
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
