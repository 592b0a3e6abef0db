//! The fields of an inode kept in the journal. Every change goes through `NodeCache::modify`, which compares the
//! block before and after, so no operation can miss one.
use crate::times::{set_atime, set_ctime, set_mtime, time};
use segno_format::inode::{Inline, RawInode};
use segno_format::{Block, Ino};
use segno_journal::record::{Attr, InodeNew};
use zerocopy::little_endian::{U16, U32, U64};

/// Flags of `i_inline` that do not describe the location of the content.
const KEPT_INLINE: Inline = Inline::PIN_FILE.union(Inline::COMPRESS_RELEASED);

/// Journaled fields of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    attr: Attr,
    links: u32,
}

impl Fields {
    /// The fields of an inode's block, once it is filled in.
    pub fn of(block: &Block) -> Option<Self> {
        let i: &RawInode = block.view();
        if i.footer.nid != i.footer.ino || i.i_mode.get() == 0 {
            return None;
        }
        let attr = Attr {
            mode: Some(i.i_mode.get()),
            uid: Some(i.i_uid.get()),
            gid: Some(i.i_gid.get()),
            projid: Some(i.projid()),
            // A directory's follows from its names.
            size: Some(if i.is_dir() { 0 } else { i.i_size.get() }),
            atime: Some(time(i.i_atime, i.i_atime_nsec)),
            mtime: Some(time(i.i_mtime, i.i_mtime_nsec)),
            ctime: Some(time(i.i_ctime, i.i_ctime_nsec)),
            flags: Some(i.i_flags.get()),
            advise: Some(i.i_advise),
            inline: Some((i.inline() & KEPT_INLINE).bits()),
            pino: None,
            gc_failures: Some(if i.is_reg() { i.i_current_depth.get() as u16 } else { 0 }),
        };
        Some(Self { attr, links: i.i_links.get() })
    }

    /// The changed fields, and the change of the link count.
    pub fn since(&self, old: &Self) -> (Attr, i32) {
        fn new<T: PartialEq>(now: Option<T>, before: Option<T>) -> Option<T> {
            if now == before { None } else { now }
        }
        let (now, old_attr) = (&self.attr, &old.attr);
        let attr = Attr {
            mode: new(now.mode, old_attr.mode),
            uid: new(now.uid, old_attr.uid),
            gid: new(now.gid, old_attr.gid),
            projid: new(now.projid, old_attr.projid),
            size: new(now.size, old_attr.size),
            atime: new(now.atime, old_attr.atime),
            mtime: new(now.mtime, old_attr.mtime),
            ctime: new(now.ctime, old_attr.ctime),
            flags: new(now.flags, old_attr.flags),
            advise: new(now.advise, old_attr.advise),
            inline: new(now.inline, old_attr.inline),
            pino: None,
            gc_failures: new(now.gc_failures, old_attr.gc_failures),
        };
        (attr, self.links.wrapping_sub(old.links).cast_signed())
    }
}

/// Stores changed fields of an inode. Inline flags that the journal does not record are kept.
pub fn store_attr(i: &mut RawInode, attr: &Attr) {
    if let Some(mode) = attr.mode {
        i.i_mode = U16::new(mode);
    }
    if let Some(uid) = attr.uid {
        i.i_uid = U32::new(uid);
    }
    if let Some(gid) = attr.gid {
        i.i_gid = U32::new(gid);
    }
    if let Some(size) = attr.size {
        i.i_size = U64::new(size);
    }
    if let Some(t) = attr.atime {
        set_atime(i, t);
    }
    if let Some(t) = attr.mtime {
        set_mtime(i, t);
    }
    if let Some(t) = attr.ctime {
        set_ctime(i, t);
    }
    if let Some(advise) = attr.advise {
        i.i_advise = advise;
    }
    if let Some(inline) = attr.inline {
        i.i_inline = ((i.inline() - KEPT_INLINE) | (Inline::from_bits_retain(inline) & KEPT_INLINE)).bits();
    }
    if let Some(n) = attr.gc_failures {
        i.i_current_depth = U32::new(n.into());
    }
    if let Some(flags) = attr.flags {
        i.i_flags = U32::new(flags);
    }
    if let Some(projid) = attr.projid {
        i.edit_extra(|e| e.i_projid = U32::new(projid));
    }
}

/// The record of a new inode's block.
pub fn inode_new(i: &RawInode, rdev: u32) -> InodeNew {
    InodeNew {
        mode: i.i_mode.get(),
        inline: i.i_inline,
        advise: i.i_advise,
        uid: i.i_uid.get(),
        gid: i.i_gid.get(),
        projid: i.projid(),
        flags: i.i_flags.get(),
        generation: i.i_generation.get(),
        pino: Ino(i.i_pino.get()),
        rdev,
        inline_xattr_size: if i.has_extra(8) { i.extra().i_inline_xattr_size.get() } else { 0 },
        time: time(i.i_mtime, i.i_mtime_nsec),
        tmpfile: i.i_links.get() == 0,
    }
}

/// A device number in one word, as in [`InodeNew::rdev`].
pub fn pack_rdev((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12
}
pub fn unpack_rdev(word: u32) -> (u32, u32) {
    ((word >> 8) & 0xfff, (word & 0xff) | (word >> 12 & 0xf_ff00))
}
