//! FUSE_INIT: negotiation of protocol version and features.
use crate::kernel;
use crate::wire::{InHeader, InitFlags, InitIn, InitOut, MAJOR, MINOR, MINOR_MIN, Opcode, OutHeader};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, read};
use std::io;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Maximum size of the data in one request.
pub(crate) const MAX_WRITE: u32 = 1 << 20;
const PAGE: u32 = 4096;
/// Maximum number of background requests (readahead, asynchronous direct I/O, writeback) in flight.
const MAX_BACKGROUND: u16 = 64;
/// Threads of a queue that background requests leave to requests with a caller. A WRITE waits in the server
/// while the device cannot keep up, and with a writeback cache these WRITEs have no caller.
const FOREGROUND_THREADS: usize = 2;
/// First kernel that, with ASYNC_DIO, invalidates the page cache when an asynchronous direct write completes. On older
/// ones, pages that a buffered read brings in during the write keep the old content.
const INVALIDATES_AFTER_ASYNC_WRITE: (u32, u32) = (7, 1);

/// Version and features that the kernel offers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelFeatures {
    unique: u64,
    minor: u32,
    max_readahead: u32,
    pub flags: InitFlags,
}

/// How permissions are handled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Permissions {
    /// The kernel checks them by access control lists. The server applies the umask, which a default one overrides.
    pub acl: bool,
    /// It may be mounted again with other numbers of users and groups (Linux 6.12), if it has
    /// `default_permissions`. The kernel then names the user and group of the caller only in requests that
    /// create an inode.
    pub idmap: bool,
}

/// Features that the mount makes use of if the kernel offers them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub permissions: Permissions,
    pub uring: bool,
    /// Written data stays in the kernel's page cache until fsync, close or writeback.
    pub writeback_cache: bool,
    /// Number of threads that serve one queue.
    pub threads: usize,
    /// Asynchronous direct writes leave no stale pages.
    pub async_dio: bool,
}

impl Wanted {
    fn max_background(self) -> u16 {
        if !self.writeback_cache {
            return MAX_BACKGROUND;
        }
        let threads = self.threads.saturating_sub(FOREGROUND_THREADS).max(1);
        u16::try_from(threads).unwrap_or(MAX_BACKGROUND).min(MAX_BACKGROUND)
    }
}

/// Whether this machine's kernel drops cached pages after an asynchronous direct write.
pub(crate) fn kernel_invalidates_after_async_write() -> bool {
    kernel::version() >= Some(INVALIDATES_AFTER_ASYNC_WRITE)
}

/// Reads the offer, the kernel's first request.
pub(crate) fn receive(dev: &OwnedFd) -> io::Result<KernelFeatures> {
    let mut message = vec![0; (MAX_WRITE + PAGE) as usize];
    loop {
        match read(dev, &mut message) {
            Ok(n) => return parse(message.get(..n).unwrap_or_default()),
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Reads the offer in a message.
pub(crate) fn parse(message: &[u8]) -> io::Result<KernelFeatures> {
    let unexpected = || io::Error::other("the kernel did not begin with FUSE_INIT");
    let (head, rest) = InHeader::read_from_prefix(message).map_err(|_| unexpected())?;
    if head.opcode != Opcode::Init as u32 {
        return Err(unexpected());
    }
    // Older kernels send a shorter structure.
    let mut init = InitIn::new_zeroed();
    init.as_mut_bytes().iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    if init.major != MAJOR || init.minor < MINOR_MIN {
        return Err(io::Error::other(format!(
            "the kernel speaks FUSE {}.{}; {MAJOR}.{MINOR_MIN} (Linux 5.12) or later of {MAJOR} is needed",
            init.major, init.minor
        )));
    }
    let flags = InitFlags::from_bits_truncate(u64::from(init.flags) | u64::from(init.flags2) << 32);
    Ok(KernelFeatures { unique: head.unique, minor: init.minor, max_readahead: init.max_readahead, flags })
}

impl KernelFeatures {
    /// The reply that accepts the offer.
    pub(crate) fn accept(&self, wanted: Wanted) -> Vec<u8> {
        let flags = self.agreed(wanted).bits();
        let max_background = wanted.max_background();
        let body = InitOut {
            major: MAJOR,
            minor: MINOR.min(self.minor),
            max_readahead: self.max_readahead,
            flags: flags as u32,
            flags2: (flags >> 32) as u32,
            max_background,
            congestion_threshold: max_background.div_ceil(4) * 3,
            max_write: MAX_WRITE,
            time_gran: 1,
            max_pages: (MAX_WRITE / PAGE) as u16,
            ..InitOut::default()
        };
        let len = (size_of::<OutHeader>() + size_of::<InitOut>()) as u32;
        let header = OutHeader { len, error: 0, unique: self.unique };
        [header.as_bytes(), body.as_bytes()].concat()
    }

    fn agreed(&self, wanted: Wanted) -> InitFlags {
        let mut supported = InitFlags::ASYNC_READ
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
        supported.set(InitFlags::DONT_MASK, wanted.permissions.acl);
        supported.set(InitFlags::POSIX_ACL, wanted.permissions.acl);
        supported.set(InitFlags::ALLOW_IDMAP, wanted.permissions.idmap);
        supported.set(InitFlags::OVER_IO_URING, wanted.uring);
        supported.set(InitFlags::WRITEBACK_CACHE, wanted.writeback_cache);
        supported.set(InitFlags::ASYNC_DIO, wanted.async_dio);
        supported & self.flags
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags of the reply to an INIT that offers these.
    fn negotiate(offered: InitFlags, writeback_cache: bool) -> InitFlags {
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
        let reply = parse(&message).unwrap().accept(Wanted {
            permissions: Permissions::default(),
            uring: false,
            writeback_cache,
            threads: 1,
            async_dio: false,
        });
        let out = InitOut::read_from_bytes(&reply[size_of::<OutHeader>()..]).unwrap();
        InitFlags::from_bits_retain(u64::from(out.flags) | u64::from(out.flags2) << 32)
    }

    #[test]
    fn syncfs_is_enabled_if_the_kernel_offers_it() {
        let with = InitFlags::INIT_EXT | InitFlags::HAS_SYNCFS;
        assert_eq!(with.bits() >> 32, 1 << 11);
        assert_eq!(negotiate(with, false), with);
        assert_eq!(negotiate(InitFlags::INIT_EXT, false), InitFlags::INIT_EXT);
    }

    #[test]
    fn the_writeback_cache_is_enabled_if_it_is_wanted_and_offered() {
        let (with, without) = (InitFlags::WRITEBACK_CACHE | InitFlags::INIT_EXT, InitFlags::INIT_EXT);
        assert_eq!(with.bits() & 0xffff_ffff, 1 << 16 | 1 << 30);
        assert_eq!((negotiate(with, true), negotiate(with, false)), (with, without));
        assert_eq!(negotiate(without, true), without);
    }

    #[test]
    fn writeback_leaves_threads_to_callers() {
        let wanted = |writeback_cache, threads| {
            let permissions = Permissions::default();
            Wanted { permissions, uring: true, writeback_cache, threads, async_dio: false }.max_background()
        };
        assert_eq!([1, 2, 3, 8, 1000].map(|threads| wanted(true, threads)), [1, 1, 1, 6, 64]);
        assert_eq!(wanted(false, 8), 64);
    }
}
