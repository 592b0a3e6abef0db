//! Serves the kernel of a guest, over a transport in another crate that delivers whole messages. Unlike this machine's
//! kernel a guest is not trusted: it may send any bytes at any time, and disappears without an unmount. It receives no
//! notifications.
use crate::file_system::{Answer, answer};
use crate::init::{self, Permissions, Wanted};
use crate::ownership::Ownership;
use crate::page_cache::PageCache;
use crate::request::{Malformed, Request};
use crate::server::Server;
use crate::session::shared_threads;
use crate::transport::memory::{Buffer, PAGE};
use crate::transport::message::{HEAD, body, finish};
use crate::wire::{self, InHeader, Opcode};
use crate::{attr, attr::ino_of};
use rustix::io::Errno;
use segno_engine::Volume;
use segno_format::Ino;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::FromBytes;

/// Longest message in either direction.
const MESSAGE_MAX: usize = init::MAX_WRITE as usize + PAGE;

/// Options of a guest's mount.
#[derive(Clone, Copy, Debug, Default)]
pub struct GuestOptions {
    /// Let the guest's kernel check POSIX ACLs.
    pub acl: bool,
    /// Written data stays in the guest's page cache until fsync, close or writeback.
    pub writeback_cache: bool,
    /// Owner and permissions to show.
    pub ownership: Ownership,
    /// Number of server threads; 0 is automatic.
    pub threads: usize,
}

/// A message that no kernel sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MalformedRequest(&'static str);

/// Memory for one request and its reply, allocated on first use.
#[derive(Debug)]
pub struct Buffers {
    request: Buffer,
    reply: Buffer,
}

impl Buffers {
    /// Buffers for messages of the maximum size.
    pub fn new() -> io::Result<Self> {
        // The body of a reply starts at the second page.
        Ok(Self { request: Buffer::new(MESSAGE_MAX)?, reply: Buffer::new(MESSAGE_MAX + PAGE)? })
    }

    /// Where the request goes; a longer one is malformed.
    pub fn request(&mut self) -> &mut [u8] {
        self.request.bytes()
    }
}

/// The server of one guest.
pub struct GuestServer {
    server: Server,
    options: GuestOptions,
    /// The guest has mounted the volume.
    is_mounted: AtomicBool,
}

impl GuestServer {
    /// Serves a volume that no one else changes.
    pub fn new(volume: Arc<Volume>, options: GuestOptions) -> Self {
        let server = Server::new(volume).for_guest().show(options.ownership);
        let options = GuestOptions { threads: shared_threads(options.threads), ..options };
        Self { server, options, is_mounted: AtomicBool::new(false) }
    }

    /// Number of threads to serve requests with.
    pub fn threads(&self) -> usize {
        self.options.threads
    }

    /// Serves the request in the first `len` bytes of its buffer. Returns the reply, of up to `room` bytes, or `None`
    /// if the request has none.
    pub fn answer<'a>(
        &self,
        buffers: &'a mut Buffers,
        len: usize,
        room: usize,
    ) -> Result<Option<&'a [u8]>, MalformedRequest> {
        let message = buffers.request.bytes().get(..len);
        let message = message.ok_or(MalformedRequest("the request is longer than the maximum"))?;
        let (head, _) = InHeader::read_from_prefix(message)
            .map_err(|_| MalformedRequest("the request is shorter than its header"))?;
        if head.len as usize != len {
            return Err(MalformedRequest("the length in the header is not that of the request"));
        }
        let opcode = Opcode::from_wire(head.opcode);
        if room < HEAD && opcode.is_none_or(Opcode::has_reply) {
            return Err(MalformedRequest("there is no room for the reply"));
        }
        // Without room there is no reply, but the request may use the buffer.
        let end = PAGE + room.saturating_sub(HEAD).min(MESSAGE_MAX);
        let out = buffers.reply.bytes().get_mut(..end).unwrap_or_default();
        if opcode == Some(Opcode::Init) {
            return self.init(message, out);
        }
        let answer = match Request::from_message(message) {
            Ok(request) => self.serve(&request, body(out).unwrap_or_default()),
            Err(Malformed::Refused { errno, .. }) => Answer::Refusal(errno),
            Err(Malformed::Unreadable) => return Err(MalformedRequest("the request has no header")),
        };
        Ok(finish(head.unique, answer, out))
    }

    /// Drops all references of the guest: it has unmounted, was reset, or is gone.
    pub fn forget_all(&self) {
        self.is_mounted.store(false, Ordering::Release);
        self.server.volume.drop_all_references();
    }

    /// Starts a mount: the previous mount of the guest may have ended without DESTROY.
    fn init<'a>(&self, message: &[u8], out: &'a mut [u8]) -> Result<Option<&'a [u8]>, MalformedRequest> {
        self.forget_all();
        let offer = match init::parse(message) {
            Ok(offer) => offer,
            Err(e) => {
                eprintln!("segno: the guest cannot mount the volume: {e}");
                let unique = InHeader::read_from_prefix(message).map_or(0, |(head, _)| head.unique);
                return Ok(finish(unique, Answer::Refusal(Errno::PROTO), out));
            }
        };
        let page_cache = PageCache::agreed(self.options.writeback_cache, offer.flags);
        let writeback_cache = page_cache == PageCache::Writeback;
        if writeback_cache {
            self.server.volume.set_cached_writes();
        }
        let reply = offer.accept(Wanted {
            // virtiofs always mounts with default_permissions. Only the guest's kernel knows its users.
            permissions: Permissions { acl: self.options.acl, idmap: false },
            uring: false,
            writeback_cache,
            threads: self.options.threads,
            // The version of the guest's kernel is not known.
            async_dio: false,
        });
        let place = out.get_mut(PAGE - HEAD..).and_then(|out| out.get_mut(..reply.len()));
        let place = place.ok_or(MalformedRequest("there is no room for the reply to INIT"))?;
        place.copy_from_slice(&reply);
        self.is_mounted.store(true, Ordering::Release);
        Ok(Some(place))
    }

    fn serve(&self, request: &Request<'_>, body: &mut [u8]) -> Answer {
        let refusal = if self.is_mounted.load(Ordering::Acquire) {
            self.check_nodes(request).err()
        } else {
            Some(Errno::IO)
        };
        match refusal {
            Some(errno) if request.opcode.has_reply() => return Answer::Refusal(errno),
            Some(_) => return Answer::Nothing,
            None => {}
        }
        if is_longer(request, body.len()) {
            return Answer::Refusal(Errno::INVAL);
        }
        let answer = answer(&self.server, request, body);
        if request.opcode == Opcode::Destroy {
            self.forget_all();
            // Kernels before 5.14 do not send SYNCFS first.
            if let Err(e) = self.server.volume.sync() {
                return Answer::Refusal(attr::errno(e));
            }
        }
        answer
    }

    /// Refuses inodes that the guest has not looked up: the engine takes a number that it is given for an inode, and
    /// anything else there for damage.
    fn check_nodes(&self, r: &Request<'_>) -> Result<(), Errno> {
        let is_known = |node: u64| {
            let ino = ino_of(node);
            ino == Ino::ROOT || self.server.volume.is_referenced(ino)
        };
        let other = match r.opcode {
            // These name no inode, or count down.
            Opcode::Destroy | Opcode::StatFs | Opcode::SyncFs | Opcode::Interrupt => return Ok(()),
            Opcode::Forget | Opcode::BatchForget => return Ok(()),
            // Resolves a file handle, which may have any number.
            Opcode::Lookup if r.name() == Ok(b".") => return Ok(()),
            Opcode::Link => r.arg::<wire::LinkIn>()?.oldnodeid,
            Opcode::Rename => r.arg::<wire::RenameIn>()?.newdir,
            Opcode::Rename2 => r.arg::<wire::Rename2In>()?.newdir,
            Opcode::CopyFileRange | Opcode::CopyFileRange64 => r.arg::<wire::CopyFileRangeIn>()?.nodeid_out,
            _ => r.head.nodeid,
        };
        if is_known(r.head.nodeid) && is_known(other) { Ok(()) } else { Err(Errno::STALE) }
    }
}

/// Whether a READ requests more than fits: the guest would take a shorter reply for the end of the file.
/// Kernels with larger pages send such requests for readahead, and then read page by page.
fn is_longer(r: &Request<'_>, room: usize) -> bool {
    r.opcode == Opcode::Read && r.arg::<wire::ReadIn>().is_ok_and(|read| read.size as usize > room)
}
