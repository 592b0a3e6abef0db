//! Requests, one method each.
use crate::attr::{errno, file_attr, file_type, ino_of, node_of, rdev_of, time_of, time_or_now};
use crate::{control, ioctl};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use segno_engine::{
    Attr, DirEntry, Error, FallocMode, Owner, RenameMode, Result, SetAttr, Volume, XattrMode,
};
use segno_format::Ino;
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Nobody but this mount changes the volume, so what the kernel caches stays true until the kernel itself changes it.
const FOREVER: Duration = Duration::from_secs(1 << 31);
const MAX_WRITE: u32 = 1 << 20;
const MAX_BACKGROUND: u16 = 64;

thread_local! {
    /// Reads go through one buffer a thread.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The volume, as fuser wants to see it.
pub struct SegnoFs {
    pub volume: Arc<Volume>,
    pub acl: bool,
}

impl std::fmt::Debug for SegnoFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SegnoFs")
    }
}

fn owner(req: &Request, umask: u32) -> Owner {
    Owner { uid: req.uid(), gid: req.gid(), umask: umask as u16 & 0o777 }
}

fn generation(a: &Attr) -> Generation {
    Generation(a.generation.into())
}

/// Attributes for a reply; the kernel asks for inodes by the number in them, except for the root.
fn node_attr(a: &Attr) -> fuser::FileAttr {
    fuser::FileAttr { ino: node_of(a.ino), ..file_attr(a) }
}

fn entry(reply: ReplyEntry, r: Result<Attr>) {
    match r {
        Ok(a) => reply.entry(&FOREVER, &node_attr(&a), generation(&a)),
        Err(e) => reply.error(errno(&e)),
    }
}

fn attr(reply: ReplyAttr, r: Result<Attr>) {
    match r {
        Ok(a) => reply.attr(&FOREVER, &file_attr(&a)),
        Err(e) => reply.error(errno(&e)),
    }
}

fn empty(reply: ReplyEmpty, r: Result<()>) {
    match r {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(errno(&e)),
    }
}

fn xattr(reply: ReplyXattr, size: u32, r: Result<Vec<u8>>) {
    match r {
        Ok(v) if size == 0 => reply.size(v.len() as u32),
        Ok(v) if v.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(v) => reply.data(&v),
        Err(e) => reply.error(errno(&e)),
    }
}

/// NUL-terminated names, less those of the `trusted` name space.
fn without_trusted(names: &[u8]) -> Vec<u8> {
    names.split_inclusive(|&b| b == 0).filter(|n| !n.starts_with(b"trusted.")).flatten().copied().collect()
}

fn written(reply: ReplyWrite, r: Result<usize>) {
    match r {
        Ok(n) => reply.written(n as u32),
        Err(e) => reply.error(errno(&e)),
    }
}

/// An attribute of an inode that does not exist, which FUSE takes as "no such name" worth remembering.
fn nobody() -> fuser::FileAttr {
    fuser::FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind: fuser::FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl SegnoFs {
    fn fallocate_mode(mode: i32) -> Option<FallocMode> {
        Some(match mode {
            0 => FallocMode::Allocate,
            1 => FallocMode::AllocateKeepSize,
            3 => FallocMode::PunchHole,
            0x10 => FallocMode::ZeroRange,
            0x11 => FallocMode::ZeroRangeKeepSize,
            8 => FallocMode::CollapseRange,
            0x20 => FallocMode::InsertRange,
            _ => return None,
        })
    }

    fn drop_suid(&self, ino: Ino) -> Result<()> {
        let a = self.volume.getattr(ino)?;
        if a.mode & 0o6000 == 0 {
            return Ok(());
        }
        self.volume.setattr(ino, &SetAttr { kill_suidgid: true, ..SetAttr::default() }).map(|_| ())
    }
}

impl Filesystem for SegnoFs {
    fn init(&mut self, _req: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = InitFlags::FUSE_ASYNC_READ
            | InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_BIG_WRITES
            | InitFlags::FUSE_MAX_PAGES
            | InitFlags::FUSE_EXPLICIT_INVAL_DATA
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_READDIRPLUS_AUTO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_HANDLE_KILLPRIV_V2
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_HAS_IOCTL_DIR
            | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP
            | if self.acl {
                InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK
            } else {
                InitFlags::empty()
            };
        // Asking for what the kernel does not have would refuse all of it.
        let offered = wanted & config.capabilities();
        config.add_capabilities(offered).map_err(|f| io::Error::other(format!("kernel refused {f:?}")))?;
        let refused = |_| io::Error::other("kernel refused the request sizes");
        config.set_max_write(MAX_WRITE).map_err(refused)?;
        config.set_max_background(MAX_BACKGROUND).map_err(|_| io::Error::other("max_background"))?;
        Ok(())
    }

    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.volume.lookup(ino_of(parent), name.as_bytes()) {
            Err(Error::NotFound) => reply.entry(&FOREVER, &nobody(), Generation(0)),
            other => entry(reply, other),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        attr(reply, self.volume.getattr(ino_of(ino)));
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // With HANDLE_KILLPRIV_V2 a change of owner always drops suid and sgid, a truncation unless root makes it.
        let kill_suidgid = uid.is_some() || gid.is_some() || (size.is_some() && req.uid() != 0);
        let set = SetAttr {
            mode: mode.map(|m| m as u16 & 0o7777),
            uid,
            gid,
            size,
            atime: atime.map(time_or_now),
            mtime: mtime.map(time_or_now),
            ctime: ctime.map(time_of),
            kill_suidgid,
        };
        attr(reply, self.volume.setattr(ino_of(ino), &set));
    }

    fn readlink(&self, _req: &Request, ino: INodeNo, reply: ReplyData) {
        match self.volume.readlink(ino_of(ino)) {
            Ok(t) => reply.data(&t),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn mknod(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let who = owner(req, umask);
        entry(reply, self.volume.mknod(ino_of(parent), name.as_bytes(), mode as u16, rdev_of(rdev), who));
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        entry(reply, self.volume.mkdir(ino_of(parent), name.as_bytes(), mode as u16, owner(req, umask)));
    }

    fn unlink(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.volume.unlink(ino_of(parent), name.as_bytes()));
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.volume.rmdir(ino_of(parent), name.as_bytes()));
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let target = target.as_os_str().as_bytes();
        entry(reply, self.volume.symlink(ino_of(parent), name.as_bytes(), target, owner(req, 0)));
    }

    fn rename(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            f if f.is_empty() => RenameMode::Replace,
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            RenameFlags::RENAME_WHITEOUT => RenameMode::Whiteout,
            _ => return reply.error(Errno::EINVAL),
        };
        let (from, to) = (ino_of(parent), ino_of(newparent));
        let r = self.volume.rename(from, name.as_bytes(), to, newname.as_bytes(), mode, owner(req, 0));
        empty(reply, r);
    }

    fn link(&self, _req: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        entry(reply, self.volume.link(ino_of(ino), ino_of(newparent), newname.as_bytes()));
    }

    fn open(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.volume.open(ino_of(ino)) {
            Ok(()) => reply.opened(
                FileHandle(0),
                FopenFlags::FOPEN_KEEP_CACHE
                    | FopenFlags::FOPEN_NOFLUSH
                    | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
            ),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFER.with_borrow_mut(|buf| {
            buf.resize(size as usize, 0);
            match self.volume.read(ino_of(ino), offset, buf) {
                Ok(n) => reply.data(buf.get(..n).unwrap_or_default()),
                Err(e) => reply.error(errno(&e)),
            }
        });
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let ino = ino_of(ino);
        if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID)
            && let Err(e) = self.drop_suid(ino)
        {
            return reply.error(errno(&e));
        }
        written(reply, self.volume.write(ino, offset, data));
    }

    fn flush(&self, _req: &Request, _ino: INodeNo, _fh: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        // Closing a file does nothing; this answer keeps the kernel from asking again.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.volume.release(ino_of(ino)));
    }

    fn fsync(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        empty(reply, self.volume.fsync(ino_of(ino), datasync));
    }

    fn opendir(&self, _req: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        match self.volume.open(ino_of(ino)) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn readdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut each = |e: DirEntry<'_>| {
            !reply.add(INodeNo(e.ino.0.into()), e.next, file_type(e.kind), OsStr::from_bytes(e.name))
        };
        match self.volume.readdir(ino_of(ino), offset, &mut each) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn readdirplus(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let mut failed = None;
        let mut each = |e: DirEntry<'_>| {
            // The kernel asks this way for the start of every directory. Where inodes would have to be read for it, it
            // gets a short answer and goes on with names alone, unless somebody looks at the entries.
            if offset == 0 && e.name != b"." && !self.volume.is_cached(e.ino) {
                return false;
            }
            let a = match self.volume.getattr(e.ino) {
                Ok(a) => a,
                // Removed since the directory was read.
                Err(Error::NotFound) => return true,
                Err(e) => {
                    failed = Some(e);
                    return false;
                }
            };
            !reply.add(
                node_of(e.ino),
                e.next,
                OsStr::from_bytes(e.name),
                &FOREVER,
                &file_attr(&a),
                generation(&a),
            )
        };
        let done = self.volume.readdir(ino_of(ino), offset, &mut each);
        match failed.map_or(done, Err) {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn releasedir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        empty(reply, self.volume.release(ino_of(ino)));
    }

    fn fsyncdir(&self, _req: &Request, ino: INodeNo, _fh: FileHandle, datasync: bool, reply: ReplyEmpty) {
        empty(reply, self.volume.fsync(ino_of(ino), datasync));
    }

    fn statfs(&self, _req: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        let s = self.volume.statfs();
        reply.statfs(s.blocks, s.bfree, s.bavail, s.files, s.ffree, 4096, 255, 4096);
    }

    fn setxattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let mode = match flags {
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => XattrMode::Set,
        };
        empty(reply, self.volume.setxattr(ino_of(ino), name.as_bytes(), value, mode));
    }

    fn getxattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let (ino, name) = (ino_of(ino), name.as_bytes());
        let value = control::get(&self.volume, ino, name).unwrap_or_else(|| self.volume.getxattr(ino, name));
        xattr(reply, size, value);
    }

    fn listxattr(&self, req: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.volume.listxattr(ino_of(ino));
        // Only the privileged see `trusted` attributes; the kernel filters reading them, but not their names.
        let names = if req.uid() == 0 { names } else { names.map(|n| without_trusted(&n)) };
        xattr(reply, size, names);
    }

    fn removexattr(&self, _req: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(reply, self.volume.removexattr(ino_of(ino), name.as_bytes()));
    }

    fn create(
        &self,
        req: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let mode = mode as u16 & 0o7777;
        match self.volume.create(ino_of(parent), name.as_bytes(), mode, owner(req, umask)) {
            Ok(a) => reply.created(
                &FOREVER,
                &node_attr(&a),
                generation(&a),
                FileHandle(0),
                FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH,
            ),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn ioctl(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _flags: IoctlFlags,
        cmd: u32,
        in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        match ioctl::run(&self.volume, ino_of(ino), cmd, in_data) {
            Some(Ok(out)) => reply.ioctl(0, &out),
            Some(Err(e)) => reply.error(errno(&e)),
            None => reply.error(Errno::ENOTTY),
        }
    }

    fn fallocate(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match Self::fallocate_mode(mode) {
            Some(mode) => empty(reply, self.volume.fallocate(ino_of(ino), mode, offset, length)),
            None => reply.error(Errno::EOPNOTSUPP),
        }
    }

    fn lseek(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let Ok(from) = u64::try_from(offset) else { return reply.error(Errno::ENXIO) };
        let found = match whence {
            3 => self.volume.seek_data(ino_of(ino), from),
            4 => self.volume.seek_hole(ino_of(ino), from),
            _ => return reply.error(Errno::EINVAL),
        };
        match found {
            Ok(at) => reply.offset(at.cast_signed()),
            Err(e) => reply.error(errno(&e)),
        }
    }

    fn copy_file_range(
        &self,
        _req: &Request,
        ino_in: INodeNo,
        _fh_in: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _fh_out: FileHandle,
        offset_out: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let len = len.min(u64::from(u32::MAX) & !0xfff);
        let done = self.volume.copy_range(ino_of(ino_in), offset_in, ino_of(ino_out), offset_out, len);
        written(reply, done.map(|n| n as usize));
    }
}
