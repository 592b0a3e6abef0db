//! The file system that a session serves. Segno's is [`Server`](crate::server::Server); the laboratory has another one, to measure what the
//! session alone costs.
use crate::mount_id::MountId;
use crate::page_cache::PageCache;
use crate::reply::Reply;
use crate::request::Request;
use crate::traffic::Traffic;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io::{self, Write, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// A file system that a session serves.
pub trait FileSystem: Send + Sync {
    /// The mount is connected. Called once, before the first request.
    ///
    /// # Errors
    /// The file system cannot serve this connection; the mount fails.
    fn connect(&self, connection: &Connection) -> io::Result<()>;

    /// Its size, by which the kernel's dirty pages are limited.
    fn bytes(&self) -> u64;

    /// Serves a request. The body of the reply goes into `reply`.
    ///
    /// # Errors
    /// The reply, which then has no body.
    fn serve(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Errno>;

    /// A request panicked: nothing may be changed from now on.
    fn stop(&self);

    /// Counts its requests.
    fn traffic(&self) -> &Traffic;
}

/// The connection of a mount with the kernel.
#[derive(Debug)]
pub struct Connection {
    pub(crate) dev: Arc<OwnedFd>,
    pub(crate) mount: MountId,
    /// Mode of the kernel's page cache.
    pub page_cache: PageCache,
}

/// The reply to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No reply: the request has none.
    Nothing,
    /// The first bytes of the buffer.
    Body(usize),
    Refusal(Errno),
}

/// Counts and serves a request; the body of the reply is built in `out`.
pub(crate) fn answer(fs: &dyn FileSystem, request: &Request<'_>, out: &mut [u8]) -> Answer {
    let traffic = fs.traffic();
    traffic.count(request.opcode);
    let begun = Instant::now();
    let mut reply = Reply::new(out);
    // A panic in one request must not end the mount, nor may the volume be written after it.
    let done = catch_unwind(AssertUnwindSafe(|| fs.serve(request, &mut reply))).unwrap_or_else(|_| {
        fs.stop();
        // stderr may be closed.
        let _unread =
            writeln!(stderr(), "segno: a request handler panicked; the volume accepts no more changes");
        Err(Errno::IO)
    });
    traffic.times.record(request.opcode, request.head.nodeid, begun, reply.len());
    match done {
        _ if !request.opcode.has_reply() => Answer::Nothing,
        Ok(()) => Answer::Body(reply.len()),
        Err(e) => Answer::Refusal(e),
    }
}
