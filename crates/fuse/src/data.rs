//! Requests on file contents.
use crate::attr::{errno, ino_of};
use crate::reply::Reply;
use crate::request::Request;
use crate::server::{Done, Server, node};
use crate::wire::{self, Opcode, WRITE_CACHE};
use rustix::fs::OFlags;
use rustix::io::Errno;
use segno_engine::FallocMode;
use segno_format::Ino;

impl Server {
    pub(crate) fn read(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a: wire::ReadIn = r.arg()?;
        reply.fill(a.size as usize, |into| self.volume.read(node(r), a.offset, into)).map_err(errno)
    }

    pub(crate) fn write(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a: wire::WriteIn = r.arg()?;
        let (ino, data) = (node(r), r.data(a.size)?);
        let from_cache = a.write_flags & WRITE_CACHE != 0;
        let written = self.before_write(&r.head, ino, a.write_flags).and_then(|()| match from_cache {
            true => self.write_all(ino, a.offset, data),
            false => self.volume.write(ino, a.offset, data).map_err(errno),
        });
        if from_cache && let Err(why) = written {
            self.cached_write_failed(ino, &a, why)?;
        }
        let n = written?;
        // Older kernels leave O_SYNC to the server; newer ones send an FSYNC, which then finds nothing to write.
        if OFlags::from_bits_retain(a.flags).contains(OFlags::DSYNC) {
            self.volume.fsync(node(r)).map_err(errno)?;
        }
        reply.put(&wire::WriteOut { size: n as u32, padding: 0 })
    }

    /// The pages were written to the kernel's cache with success; the kernel drops them.
    fn cached_write_failed(&self, ino: Ino, a: &wire::WriteIn, why: Errno) -> Done {
        if why == Errno::PERM {
            // Otherwise readers see the refused bytes until the pages are evicted.
            self.notifier.content_refused(ino, a.offset, a.size.into());
        }
        if self.volume.has_cached_writes() {
            self.write_errors.note(&self.volume.getattr(ino).map_err(errno)?, why);
            self.notifier.attributes_changed(ino)?;
        }
        Ok(())
    }

    /// Writes all of the data or fails: of cached pages the kernel does not check the count.
    fn write_all(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            match self.volume.write(ino, offset.saturating_add(done as u64), rest).map_err(errno)? {
                0 => return Err(Errno::NOSPC),
                n => done += n,
            }
        }
        Ok(done)
    }

    pub(crate) fn fsync(&self, r: &Request<'_>) -> Done {
        // fdatasync needs no less.
        r.arg::<wire::FsyncIn>()?;
        self.volume.fsync(node(r)).map_err(errno)
    }

    pub(crate) fn fallocate(&self, r: &Request<'_>) -> Done {
        let a: wire::FallocateIn = r.arg()?;
        let mode = match a.mode {
            0 => FallocMode::Allocate,
            1 => FallocMode::AllocateKeepSize,
            3 => FallocMode::PunchHole,
            0x10 => FallocMode::ZeroRange,
            0x11 => FallocMode::ZeroRangeKeepSize,
            8 => FallocMode::CollapseRange,
            0x20 => FallocMode::InsertRange,
            _ => return Err(Errno::OPNOTSUPP),
        };
        self.before_change(&r.head, node(r))?;
        self.volume.fallocate(node(r), mode, a.offset, a.length).map_err(errno)
    }

    pub(crate) fn lseek(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        if self.volume.has_cached_writes() {
            // The kernel does not write dirty pages first, so a hole here may have data in its cache.
            return Err(Errno::NOSYS);
        }
        let a: wire::LseekIn = r.arg()?;
        if i64::try_from(a.offset).is_err() {
            return Err(Errno::NXIO);
        }
        let found = match a.whence {
            3 => self.volume.seek_data(node(r), a.offset),
            4 => self.volume.seek_hole(node(r), a.offset),
            _ => return Err(Errno::INVAL),
        };
        reply.put(&wire::LseekOut { offset: found.map_err(errno)? })
    }

    /// The older form of the request returns a 32-bit count.
    pub(crate) fn copy_file_range(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a: wire::CopyFileRangeIn = r.arg()?;
        let wide = r.opcode == Opcode::CopyFileRange64;
        let len = if wide { a.len } else { a.len.min(u64::from(u32::MAX) & !0xfff) };
        let to = ino_of(a.nodeid_out);
        self.before_change(&r.head, to)?;
        let n = self.volume.copy_range(node(r), a.off_in, to, a.off_out, len).map_err(errno)?;
        if wide {
            reply.put(&wire::CopyFileRangeOut { bytes_copied: n })
        } else {
            reply.put(&wire::WriteOut { size: n as u32, padding: 0 })
        }
    }
}
