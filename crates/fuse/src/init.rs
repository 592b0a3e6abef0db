//! The first exchange on a connection: what kernel and server agree on.
use crate::kernel;
use crate::wire::{InHeader, InitFlags, InitIn, InitOut, MAJOR, MINOR, MINOR_MIN, Opcode, OutHeader};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, read};
use std::io;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Most bytes of data in one request.
pub const MAX_WRITE: u32 = 1 << 20;
const PAGE: u32 = 4096;
/// Requests that nobody waits for (read-ahead, direct I/O in pieces) in flight.
const MAX_BACKGROUND: u16 = 64;
/// With ASYNC_DIO, older kernels do not invalidate the page cache when an asynchronous direct write completes. Pages that
/// a buffered read brought in during the write then keep the old content.
const INVALIDATES_AFTER_ASYNC_WRITE: (u32, u32) = (7, 1);

/// What the kernel offers.
#[derive(Clone, Copy, Debug)]
pub struct Offer {
    unique: u64,
    minor: u32,
    max_readahead: u32,
    pub flags: InitFlags,
}

/// Who sees to access control lists.
#[derive(Clone, Copy, Debug)]
pub struct Acl {
    /// The server applies the umask, as a default ACL takes its place.
    pub umask: bool,
    /// The kernel grants and refuses by them; that implies checking permissions.
    pub kernel: bool,
}

/// Reads the offer; the kernel sends it first.
pub fn receive(dev: &OwnedFd) -> io::Result<Offer> {
    let mut message = vec![0; (MAX_WRITE + PAGE) as usize];
    loop {
        match read(dev, &mut message) {
            Ok(n) => return parse(message.get(..n).unwrap_or_default()),
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn parse(message: &[u8]) -> io::Result<Offer> {
    let strange = || io::Error::other("the kernel did not begin with FUSE_INIT");
    let (head, rest) = InHeader::read_from_prefix(message).map_err(|_| strange())?;
    if head.opcode != Opcode::Init as u32 {
        return Err(strange());
    }
    // Older kernels send less of it.
    let mut init = InitIn::new_zeroed();
    init.as_mut_bytes().iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    if init.major != MAJOR || init.minor < MINOR_MIN {
        return Err(io::Error::other(format!(
            "the kernel speaks FUSE {}.{}; {MAJOR}.{MINOR_MIN} (Linux 5.12) or later of {MAJOR} is needed",
            init.major, init.minor
        )));
    }
    let flags = InitFlags::from_bits_truncate(u64::from(init.flags) | u64::from(init.flags2) << 32);
    Ok(Offer { unique: head.unique, minor: init.minor, max_readahead: init.max_readahead, flags })
}

impl Offer {
    /// The reply that accepts it.
    pub fn accept(&self, acl: Acl, uring: bool) -> Vec<u8> {
        let flags = self.chosen(acl, uring).bits();
        let body = InitOut {
            major: MAJOR,
            minor: MINOR.min(self.minor),
            max_readahead: self.max_readahead,
            flags: flags as u32,
            flags2: (flags >> 32) as u32,
            max_background: MAX_BACKGROUND,
            congestion_threshold: MAX_BACKGROUND / 4 * 3,
            max_write: MAX_WRITE,
            time_gran: 1,
            max_pages: (MAX_WRITE / PAGE) as u16,
            ..InitOut::default()
        };
        let len = (size_of::<OutHeader>() + size_of::<InitOut>()) as u32;
        let header = OutHeader { len, error: 0, unique: self.unique };
        [header.as_bytes(), body.as_bytes()].concat()
    }

    fn chosen(&self, acl: Acl, uring: bool) -> InitFlags {
        let mut wanted = InitFlags::ASYNC_READ
            | InitFlags::EXPORT_SUPPORT
            | InitFlags::BIG_WRITES
            | InitFlags::MAX_PAGES
            | InitFlags::EXPLICIT_INVAL_DATA
            | InitFlags::DO_READDIRPLUS
            | InitFlags::READDIRPLUS_AUTO
            | InitFlags::NO_OPEN_SUPPORT
            | InitFlags::NO_OPENDIR_SUPPORT
            | InitFlags::PARALLEL_DIROPS
            | InitFlags::HANDLE_KILLPRIV_V2
            | InitFlags::SETXATTR_EXT
            | InitFlags::CACHE_SYMLINKS
            | InitFlags::HAS_IOCTL_DIR
            | InitFlags::INIT_EXT
            | InitFlags::HAS_SYNCFS
            | InitFlags::DIRECT_IO_ALLOW_MMAP;
        wanted.set(InitFlags::DONT_MASK, acl.umask);
        wanted.set(InitFlags::POSIX_ACL, acl.kernel);
        wanted.set(InitFlags::OVER_IO_URING, uring);
        wanted.set(InitFlags::ASYNC_DIO, kernel::version() >= Some(INVALIDATES_AFTER_ASYNC_WRITE));
        wanted & self.flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags of the reply to an INIT that offers these.
    fn agreed(offered: InitFlags) -> InitFlags {
        let bits = offered.bits();
        let init = InitIn {
            major: MAJOR,
            minor: 46,
            flags: bits as u32,
            flags2: (bits >> 32) as u32,
            ..InitIn::default()
        };
        let head = InHeader { opcode: Opcode::Init as u32, ..InHeader::default() };
        let message = [head.as_bytes(), init.as_bytes()].concat();
        let reply = parse(&message).unwrap().accept(Acl { umask: false, kernel: false }, false);
        let out = InitOut::read_from_bytes(&reply[size_of::<OutHeader>()..]).unwrap();
        InitFlags::from_bits_retain(u64::from(out.flags) | u64::from(out.flags2) << 32)
    }

    #[test]
    fn a_kernel_that_offers_to_report_sync_is_asked_to() {
        let with = InitFlags::INIT_EXT | InitFlags::HAS_SYNCFS;
        assert_eq!(with.bits() >> 32, 1 << 11);
        assert_eq!(agreed(with), with);
        assert_eq!(agreed(InitFlags::INIT_EXT), InitFlags::INIT_EXT);
    }
}
