//! Inode flags (chattr(1)) and project ids.
use crate::error::{Error, Result};
use crate::files::{Inode, Parameters};
use crate::names::Names;
use crate::nodes::Change;
use crate::times::set_ctime;
use crate::transaction::Op;
use segno_format::inode::{Advise, Inline, InodeFlags, RawInode};
use segno_format::{Features, Ino};
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// Flags that users may change.
const SETTABLE: InodeFlags = InodeFlags::COMPR
    .union(InodeFlags::SYNC)
    .union(InodeFlags::IMMUTABLE)
    .union(InodeFlags::APPEND)
    .union(InodeFlags::NODUMP)
    .union(InodeFlags::NOATIME)
    .union(InodeFlags::NOCOMP)
    .union(InodeFlags::DIRSYNC)
    .union(InodeFlags::PROJINHERIT)
    .union(InodeFlags::CASEFOLD);
/// Flags of directories only.
const DIR_ONLY: InodeFlags = InodeFlags::DIRSYNC.union(InodeFlags::PROJINHERIT).union(InodeFlags::CASEFOLD);
/// Flags of every kind of inode.
const ANY: InodeFlags = InodeFlags::NODUMP.union(InodeFlags::NOATIME);
/// Stored flags that FS_IOC_GETFLAGS shows.
const STORED: InodeFlags = SETTABLE.union(InodeFlags::INDEX);
// Shown by the ioctl, but stored elsewhere.
const SHOWN_ENCRYPT: u32 = 0x800;
const SHOWN_VERITY: u32 = 0x10_0000;
const SHOWN_PINNED: u32 = 0x80_0000;
const SHOWN_INLINE_DATA: u32 = 0x1000_0000;
/// All flags that FS_IOC_GETFLAGS may show. Callers pass them back with their changes, so FS_IOC_SETFLAGS accepts
/// them.
const GETTABLE: InodeFlags = STORED
    .union(InodeFlags::from_bits_retain(SHOWN_ENCRYPT | SHOWN_VERITY | SHOWN_PINNED | SHOWN_INLINE_DATA));

impl Names {
    /// Flags for FS_IOC_GETFLAGS.
    pub fn get_flags(&self, ino: Ino) -> Result<InodeFlags> {
        let inode = self.files.inode(ino)?;
        Ok(inode.get(shown))
    }

    /// Sets the flags that users may change (FS_IOC_SETFLAGS). Other flags shown by FS_IOC_GETFLAGS keep their
    /// values; unknown flags are refused.
    pub fn set_flags(&self, ino: Ino, flags: InodeFlags) -> Result<()> {
        let inode = self.files.inode(ino)?;
        let _lock = inode.lock.write();
        let now = self.base.now();
        let old = inode.get(|i| i.flags());
        let new = (old - SETTABLE) | settable(&inode, flags)?;
        self.check_flags(&inode, old, new)?;
        let op = self.base.tx.begin();
        if (new - old).contains(InodeFlags::COMPR) {
            // The flag forbids inline data. Nothing is left of it, as only an empty file gets the flag.
            self.files.convert_inline(&op, &inode)?;
        }
        let toggled = (old ^ new).contains(InodeFlags::COMPR);
        let how = new.contains(InodeFlags::COMPR).then(|| Parameters::of_mount(&self.base.opts.compression));
        if toggled {
            self.note_compression(&op, inode.ino, how);
        }
        self.nodes.cache.modify_inode(&op, &inode.frame, |i| {
            if toggled && let Some(how) = how {
                how.store(i);
            }
            i.i_flags = U32::new(new.bits());
            set_ctime(i, now);
        });
        Ok(())
    }

    fn check_flags(&self, inode: &Arc<Inode>, old: InodeFlags, new: InodeFlags) -> Result<()> {
        let changed = old ^ new;
        if self.base.sb.quota_inos().contains(&Some(inode.ino.0)) {
            return Err(Error::NotPermitted("flags of a quota file are fixed"));
        }
        if changed.contains(InodeFlags::CASEFOLD) {
            if !self.base.features.contains(Features::CASEFOLD) {
                return Err(Error::NotSupported("the volume was made without casefolding"));
            }
            if !self.dirs.is_empty(inode)? {
                return Err(Error::NotEmpty);
            }
        }
        if changed.intersects(InodeFlags::COMPR | InodeFlags::NOCOMP) {
            self.check_compression(inode, new, changed)?;
        }
        Ok(())
    }

    fn check_compression(&self, inode: &Inode, new: InodeFlags, changed: InodeFlags) -> Result<()> {
        if !self.base.features.contains(Features::COMPRESSION) {
            return Err(Error::NotSupported("the volume was made without compression"));
        }
        if new.contains(InodeFlags::COMPR | InodeFlags::NOCOMP) {
            return Err(Error::Invalid("compression cannot be both on and off"));
        }
        if !changed.contains(InodeFlags::COMPR) {
            return Ok(());
        }
        if !inode.get(|i| i.has_extra(36)) {
            return Err(Error::NotSupported("the inode has no room for compression parameters"));
        }
        if inode.is_dir() {
            return Ok(());
        }
        let pinned = inode.get(|i| i.inline().contains(Inline::PIN_FILE));
        if pinned || has_blocks(inode) || (inode.is_inline() && inode.size() > 0) {
            return Err(Error::Invalid("compression can be turned on and off only while a file is empty"));
        }
        Ok(())
    }

    /// Sets the project of an inode.
    pub fn set_projid(&self, ino: Ino, projid: u32) -> Result<()> {
        let inode = self.files.inode(ino)?;
        let _lock = inode.lock.write();
        if !self.base.features.contains(Features::PRJQUOTA) || !inode.get(|i| i.has_extra(8)) {
            return if projid == 0 {
                Ok(())
            } else {
                Err(Error::NotSupported("the volume was made without projects"))
            };
        }
        let now = self.base.now();
        let op = self.base.tx.begin();
        self.nodes.cache.modify_inode(&op, &inode.frame, |i| {
            i.edit_extra(|e| e.i_projid = U32::new(projid));
            set_ctime(i, now);
        });
        Ok(())
    }
}

impl Names {
    /// Changes how a file is compressed. The caller holds its lock exclusively.
    pub fn set_compression(&self, inode: &Inode, how: Parameters) -> Result<()> {
        if inode.pages.lock().dirty() > 0 {
            return Err(Error::Busy("the file has data that is not written yet"));
        }
        if has_blocks(inode) {
            return Err(Error::FileTooBig);
        }
        let op = self.base.tx.begin();
        self.note_compression(&op, inode.ino, Some(how));
        self.nodes.cache.modify_inode(&op, &inode.frame, |i| how.store(i));
        Ok(())
    }

    /// Notes how an inode is compressed from now on. Roll-forward does not change the layout that follows from it.
    pub(super) fn note_compression(&self, op: &Op<'_>, ino: Ino, how: Option<Parameters>) {
        let how = how.map(|p| segno_journal::record::Compression {
            algorithm: p.algorithm,
            log_cluster: p.log_cluster,
            flag: p.flag,
        });
        op.record(ino, |log| log.compression(how));
        self.nodes.since.add(ino, Change::Compression);
    }
}

/// Whether a file has blocks other than that of its inode and attributes.
fn has_blocks(inode: &Inode) -> bool {
    inode.get(|i| i.i_blocks.get() > 1 + u64::from(i.i_xattr_nid.get() != 0))
}

fn shown(i: &RawInode) -> InodeFlags {
    let (advise, inline) = (i.advise(), i.inline());
    let mut bits = (i.flags() & STORED).bits();
    for (on, bit) in [
        (advise.contains(Advise::ENCRYPT), SHOWN_ENCRYPT),
        (advise.contains(Advise::VERITY), SHOWN_VERITY),
        (inline.contains(Inline::PIN_FILE), SHOWN_PINNED),
        (inline.intersects(Inline::DATA | Inline::DENTRY), SHOWN_INLINE_DATA),
    ] {
        if on {
            bits |= bit;
        }
    }
    InodeFlags::from_bits_retain(bits)
}

/// The settable flags among the given ones; an error if F2FS or this kind of inode lacks one.
fn settable(inode: &Inode, flags: InodeFlags) -> Result<InodeFlags> {
    let mine = inode.get(|i| match (i.is_dir(), i.is_reg()) {
        (true, _) => SETTABLE,
        (_, true) => SETTABLE - DIR_ONLY,
        _ => ANY,
    });
    if !GETTABLE.contains(flags) || !mine.contains(flags & SETTABLE) {
        return Err(Error::NotSupported("an inode flag unsupported for this kind of inode"));
    }
    Ok(flags & SETTABLE)
}
