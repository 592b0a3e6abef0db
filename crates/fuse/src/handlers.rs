//! Request handlers: each request of either transport is served by one of these methods on the volume.
use crate::attr::{FOREVER, attr_out, entry_out, errno, ino_of, link_out, no_entry, rdev_of, statx_out};
use crate::authority::Who;
use crate::control;
use crate::ioctl::{Changes, Ioctl};
use crate::name_cache::Side;
use crate::reply::Reply;
use crate::request::Request;
use crate::server::{Done, Server, node};
use crate::wire::{self, FattrValid, GETATTR_FH, Opcode, OpenOut, OpenedFlags, SETXATTR_ACL_KILL_SGID};
use rustix::io::Errno;
use segno_engine::{Attr, Error, Owner, RenameMode, SetAttr, Time, XattrMode};
use segno_format::Ino;
use std::time::SystemTime;

/// Hints of F2FS where a file belongs. The kernel checks no caller of setxattr(2) for the name space `system`.
const ADVISE: &[u8] = b"system.advise";

impl Server {
    pub(crate) fn dispatch(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        if self.is_shut_down() && !r.opcode.works_shut_down() {
            return Err(Errno::IO);
        }
        match r.opcode {
            Opcode::Lookup => self.lookup(r, reply),
            Opcode::GetAttr => self.getattr(r, reply),
            // Sent only for the birth time; the kernel uses GETATTR after ENOSYS.
            Opcode::Statx if !self.has_birth_time => Err(Errno::NOSYS),
            Opcode::Statx => {
                reply.put(&statx_out(&self.seen(self.volume.getattr(node(r)))?, self.attr_caching))
            }
            Opcode::SetAttr => self.setattr(r, reply),
            Opcode::ReadLink => reply.put(self.volume.readlink(node(r)).map_err(errno)?.as_slice()),
            Opcode::Symlink => self.symlink(r, reply),
            Opcode::Mknod => self.mknod(r, reply),
            Opcode::Mkdir => self.mkdir(r, reply),
            Opcode::Create => self.create(r, reply),
            Opcode::TmpFile => self.tmpfile(r, reply),
            Opcode::Link => self.link(r, reply),
            Opcode::Unlink => self.volume.unlink(node(r), r.name()?).map_err(errno),
            Opcode::Rmdir => self.volume.rmdir(node(r), r.name()?).map_err(errno),
            Opcode::Rename => self.rename(r, r.arg::<wire::RenameIn>()?.newdir, 0),
            Opcode::Rename2 => r.arg().and_then(|a: wire::Rename2In| self.rename(r, a.newdir, a.flags)),
            Opcode::Open => self.open(r, reply),
            // The kernel holds a reference to an open inode, so opens are not counted.
            Opcode::Release | Opcode::ReleaseDir => Ok(()),
            Opcode::Forget | Opcode::BatchForget => self.forget_all(r),
            Opcode::Read => self.read(r, reply),
            Opcode::Write => self.write(r, reply),
            Opcode::Fsync | Opcode::FsyncDir => self.fsync(r),
            Opcode::SyncFs => self.volume.sync().map_err(errno),
            Opcode::Fallocate => self.fallocate(r),
            Opcode::Lseek => self.lseek(r, reply),
            Opcode::CopyFileRange | Opcode::CopyFileRange64 => self.copy_file_range(r, reply),
            Opcode::ReadDir => self.readdir(r, reply),
            Opcode::ReadDirPlus => self.readdirplus(r, reply),
            Opcode::StatFs => self.statfs(reply),
            Opcode::SetXattr => self.setxattr(r),
            Opcode::GetXattr => self.getxattr(r, reply),
            Opcode::ListXattr => self.listxattr(r, reply),
            Opcode::RemoveXattr => self.removexattr(r),
            Opcode::Ioctl => self.ioctl(r, reply),
            Opcode::Interrupt => Ok(()),
            Opcode::Destroy => {
                self.on_destroy.iter().for_each(|close| close());
                Ok(())
            }
            // There is nothing to do for these; after ENOSYS the kernel does not send them again.
            Opcode::Flush | Opcode::Access | Opcode::OpenDir => Err(Errno::NOSYS),
            // INIT is served before the server starts.
            Opcode::Init => Err(Errno::INVAL),
        }
    }

    /// The reply with an inode that was found or made, whose name may be used for `valid` seconds.
    fn entry(&self, reply: &mut Reply<'_>, valid: u64, made: Result<Attr, Error>) -> Done {
        let attr = self.seen(made)?;
        reply.put(&entry_out(&attr, valid, self.attr_caching))?;
        self.volume.add_reference(attr.ino);
        Ok(())
    }

    /// How long the kernel may use the name in a request, in seconds.
    fn name_valid(&self, r: &Request<'_>) -> Result<u64, Errno> {
        Ok(self.name_cache.valid(&self.volume, node(r), r.name()?))
    }

    fn forget(&self, ino: Ino, count: u64) -> Done {
        self.volume.drop_references(ino, count).map_err(errno)
    }

    fn forget_all(&self, r: &Request<'_>) -> Done {
        for (node, count) in r.forgotten()? {
            // An inode that cannot be freed stays an orphan; the others are still forgotten.
            let _kept = self.forget(ino_of(node), count);
        }
        Ok(())
    }

    /// The kernel sends GETATTR with a descriptor before it takes written data into its cache; for stat(2) and fstat(2)
    /// without one.
    fn getattr(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let attr = self.volume.getattr(node(r)).map_err(errno)?;
        if r.arg::<wire::GetAttrIn>()?.getattr_flags & GETATTR_FH != 0 {
            if let Some(why) = self.write_errors.take(&attr) {
                return Err(why);
            }
        } else if self.write_errors.has(&attr) {
            // The reply must not make the attributes valid, or no GETATTR would precede the next write.
            self.notifier.attributes_changed(attr.ino)?;
        }
        self.attr(reply, Ok(attr))
    }

    fn attr(&self, reply: &mut Reply<'_>, attr: Result<Attr, Error>) -> Done {
        reply.put(&attr_out(&self.seen(attr)?, self.attr_caching))
    }

    /// Attributes as this mount shows them.
    fn seen(&self, attr: Result<Attr, Error>) -> Result<Attr, Errno> {
        attr.map(|a| self.ownership.shown(a)).map_err(errno)
    }

    fn lookup(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let name = r.name()?;
        if let Some(entry) = self.no_open_probe.entry(r.head.nodeid, name) {
            return reply.put(&entry);
        }
        if matches!(name, b"." | b"..") {
            return self.lookup_handle(node(r), name, reply);
        }
        // Before the lookup: a name that is found after its move began expires at once.
        let valid = self.name_valid(r)?;
        match self.volume.lookup(node(r), name) {
            Err(Error::NotFound) if self.name_cache.keeps_missing() => reply.put(&no_entry()),
            found => self.entry(reply, valid, found),
        }
    }

    /// Resolves a file handle: "." is the inode itself, which need not be cached, ".." the parent of a directory. Takes the
    /// reference first, so that the inode is not freed before the reply.
    fn lookup_handle(&self, ino: Ino, name: &[u8], reply: &mut Reply<'_>) -> Done {
        let found =
            if name == b"." { Ok(ino) } else { self.volume.lookup(ino, name).map(|parent| parent.ino) };
        let ino = found.map_err(errno)?;
        self.volume.add_reference(ino);
        let attr = match self.volume.find(ino) {
            Ok(attr) => attr,
            Err(e) => {
                self.forget(ino, 1)?;
                return Err(errno(e));
            }
        };
        // The kernel keeps no name for a handle.
        reply.put(&entry_out(&self.ownership.shown(attr), FOREVER, self.attr_caching))
    }

    fn setattr(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a: wire::SetAttrIn = r.arg()?;
        let valid = FattrValid::from_bits_retain(a.valid);
        let has = |f| valid.contains(f);
        let time = |given: FattrValid, at_once: FattrValid, secs: u64, nsec: u32| {
            let is_set = has(given) || has(at_once);
            is_set.then(|| {
                if has(at_once) { SystemTime::now().into() } else { Time { secs: secs.cast_signed(), nsec } }
            })
        };
        // With a writeback cache the kernel sends its own time instead of MTIME_NOW; then it is the ctime, too.
        let is_now = (a.mtime, a.mtimensec) == (a.ctime, a.ctimensec);
        let mtime_now = has(FattrValid::MTIME_NOW) || (has(FattrValid::CTIME) && is_now);
        let kill_suidgid = has(FattrValid::KILL_SUIDGID);
        let set = SetAttr {
            mode: has(FattrValid::MODE).then_some(a.mode as u16 & 0o7777),
            uid: has(FattrValid::UID).then_some(a.uid),
            gid: has(FattrValid::GID).then_some(a.gid),
            size: has(FattrValid::SIZE).then_some(a.size),
            atime: time(FattrValid::ATIME, FattrValid::ATIME_NOW, a.atime, a.atimensec),
            mtime: time(FattrValid::MTIME, FattrValid::MTIME_NOW, a.mtime, a.mtimensec),
            ctime: has(FattrValid::CTIME).then_some(Time { secs: a.ctime.cast_signed(), nsec: a.ctimensec }),
            kill_suidgid,
            kill_sgid: kill_suidgid
                && self.loses_set_group_id(&r.head, &self.seen(self.volume.getattr(node(r)))?),
            touch: has(FattrValid::ATIME_NOW) && mtime_now,
        };
        let attr = self.volume.setattr(node(r), &self.ownership.visible(set)).map_err(errno)?;
        if set.size.is_some() {
            // The new size makes earlier lost data irrelevant, so its error is not reported.
            self.write_errors.take(&attr);
        }
        self.attr(reply, Ok(attr))
    }

    /// Owner and umask of a new file.
    fn owner(&self, r: &Request<'_>, umask: u32) -> Owner {
        self.ownership.of_new(Owner { uid: r.head.uid, gid: r.head.gid, umask: umask as u16 & 0o777 })
    }

    fn symlink(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let (name, target) = r.names()?;
        self.entry(reply, self.name_valid(r)?, self.volume.symlink(node(r), name, target, self.owner(r, 0)))
    }

    fn mknod(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a: wire::MknodIn = r.arg()?;
        let (owner, rdev) = (self.owner(r, a.umask), rdev_of(a.rdev));
        self.entry(
            reply,
            self.name_valid(r)?,
            self.volume.mknod(node(r), r.name()?, a.mode as u16, rdev, owner),
        )
    }

    fn mkdir(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a: wire::MkdirIn = r.arg()?;
        self.entry(
            reply,
            self.name_valid(r)?,
            self.volume.mkdir(node(r), r.name()?, a.mode as u16, self.owner(r, a.umask)),
        )
    }

    fn create(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a: wire::CreateIn = r.arg()?;
        let mode = a.mode as u16 & 0o7777;
        self.entry(
            reply,
            self.name_valid(r)?,
            self.volume.mknod(node(r), r.name()?, mode, (0, 0), self.owner(r, a.umask)),
        )?;
        reply.put(&opened(OpenedFlags::KEEP_CACHE | OpenedFlags::NOFLUSH))
    }

    fn tmpfile(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a: wire::CreateIn = r.arg()?;
        let mode = a.mode as u16 & 0o7777;
        let made = self.volume.tmpfile(node(r), mode, self.owner(r, a.umask)).map_err(errno)?;
        self.entry(reply, FOREVER, Ok(made))?;
        // The reply holds a reference, so the open is not counted.
        self.volume.release(made.ino).map_err(errno)?;
        reply.put(&opened(OpenedFlags::KEEP_CACHE | OpenedFlags::NOFLUSH))
    }

    fn link(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let old = ino_of(r.arg::<wire::LinkIn>()?.oldnodeid);
        let attr = self.seen(self.volume.link(old, node(r), r.name()?))?;
        reply.put(&link_out(&attr, self.name_valid(r)?))?;
        self.volume.add_reference(attr.ino);
        Ok(())
    }

    fn rename(&self, r: &Request<'_>, newdir: u64, flags: u32) -> Done {
        let mode = match flags {
            0 => RenameMode::Replace,
            1 => RenameMode::NoReplace,
            2 => RenameMode::Exchange,
            4 => RenameMode::Whiteout,
            _ => return Err(Errno::INVAL),
        };
        let (old, new) = r.names()?;
        let (old, new) = (Side { dir: node(r), name: old }, Side { dir: ino_of(newdir), name: new });
        let moving = self.name_cache.before_rename(&self.volume, old, new, mode)?;
        let done = self.volume.rename(old.dir, old.name, new.dir, new.name, mode, self.owner(r, 0));
        if let Some(side) = moving {
            self.name_cache.end_move(side);
        }
        done.map_err(errno)
    }

    fn open(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        if self.no_open {
            return Err(Errno::NOSYS);
        }
        self.volume.open(node(r)).and_then(|()| self.volume.release(node(r))).map_err(errno)?;
        let flags = OpenedFlags::KEEP_CACHE | OpenedFlags::NOFLUSH | OpenedFlags::PARALLEL_DIRECT_WRITES;
        reply.put(&opened(flags))
    }

    fn statfs(&self, reply: &mut Reply<'_>) -> Done {
        let s = self.volume.statfs();
        reply.put(&wire::StatFsOut {
            blocks: s.blocks,
            bfree: s.bfree,
            bavail: s.bavail,
            files: s.files,
            ffree: s.ffree,
            bsize: 4096,
            namelen: 255,
            frsize: 4096,
            ..Default::default()
        })
    }

    fn setxattr(&self, r: &Request<'_>) -> Done {
        let a: wire::SetXattrIn = r.arg()?;
        let (name, value) = r.name_and_data(a.size)?;
        if let Some(set) = control::set(self, &r.head, name, value) {
            return set.map_err(errno);
        }
        if name == ADVISE {
            self.authorize(&r.head, node(r), Who::Owner).map_err(errno)?;
        }
        let mode = match a.flags {
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => XattrMode::Set,
        };
        self.volume.setxattr(node(r), name, value, mode).map_err(errno)?;
        if a.setxattr_flags & SETXATTR_ACL_KILL_SGID != 0 {
            self.drop_sgid(node(r))?;
        }
        // The kernel expects a new ctime, but neither the mode set by an ACL nor the block that attributes may need.
        self.notifier.attributes_changed(node(r))
    }

    fn removexattr(&self, r: &Request<'_>) -> Done {
        self.volume.removexattr(node(r), r.name()?).map_err(errno)?;
        self.notifier.attributes_changed(node(r))
    }

    /// Clears set-group-ID: the caller is not a member of the file's group.
    fn drop_sgid(&self, ino: Ino) -> Done {
        let mode = self.volume.getattr(ino).map_err(errno)?.mode;
        if mode & 0o2000 == 0 {
            return Ok(());
        }
        let set = SetAttr { mode: Some(mode & !0o2000), ..SetAttr::default() };
        self.volume.setattr(ino, &set).map(|_| ()).map_err(errno)
    }

    fn getxattr(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let (ino, name) = (node(r), r.name()?);
        let value = control::get(self, ino, name).unwrap_or_else(|| self.volume.getxattr(ino, name));
        xattr(reply, r, &value.map_err(errno)?)
    }

    fn listxattr(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let mut names = self.volume.listxattr(node(r)).map_err(errno)?;
        let public = without_trusted(&names);
        // Only privileged users see `trusted` attributes; the kernel checks reading them but not listing their names.
        if public.len() < names.len() && !self.sees_trusted(&r.head) {
            names = public;
        }
        xattr(reply, r, &names)
    }

    fn ioctl(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a: wire::IoctlIn = r.arg()?;
        let input = r.data(a.in_size)?;
        let ioctl = Ioctl::find(a.cmd).ok_or(Errno::NOTTY)?;
        let out = ioctl.execute(self, &r.head, node(r), input);
        if ioctl.changes == Changes::Inode {
            self.notifier.attributes_changed(node(r))?;
        }
        reply.put(&wire::IoctlOut::default())?;
        reply.put(out.map_err(errno)?.as_slice())
    }
}

/// The reply to an open. Handles have no state.
pub fn opened(flags: OpenedFlags) -> OpenOut {
    OpenOut { fh: 0, open_flags: flags.bits(), padding: 0 }
}

/// The reply to GETXATTR or LISTXATTR: a value, or its length if the caller passes a size of zero.
///
/// # Errors
/// The caller has no room for the value.
pub fn xattr(reply: &mut Reply<'_>, r: &Request<'_>, value: &[u8]) -> Result<(), Errno> {
    match r.arg::<wire::GetXattrIn>()?.size {
        0 => reply.put(&wire::GetXattrOut { size: value.len() as u32, padding: 0 }),
        size if value.len() > size as usize => Err(Errno::RANGE),
        _ => reply.put(value),
    }
}

/// NUL-terminated names, without names in the `trusted` name space.
fn without_trusted(names: &[u8]) -> Vec<u8> {
    names.split_inclusive(|&b| b == 0).filter(|n| !n.starts_with(b"trusted.")).flatten().copied().collect()
}
