//! The fields of an inode kept in the journal. Every change goes through `NodeCache::modify`, which compares the
//! block before and after, so no operation can miss one.
use crate::times::time;
use segno_format::inode::{Inline, RawInode};
use segno_format::{Block, Nid};
use segno_journal::record::{Attr, InodeNew, Time};

/// Flags of `i_inline` that do not describe the location of the content.
pub const KEPT_INLINE: Inline = Inline::PIN_FILE.union(Inline::COMPRESS_RELEASED);

/// Journaled fields of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    mode: u16,
    uid: u32,
    gid: u32,
    projid: u32,
    links: u32,
    /// 0 for a directory, whose size follows from its names.
    size: u64,
    atime: Time,
    mtime: Time,
    ctime: Time,
    flags: u32,
    advise: u8,
    inline: u8,
    gc_failures: u16,
}

impl Fields {
    /// The fields of an inode's block, once it is filled in.
    pub fn of(block: &Block) -> Option<Self> {
        let i: &RawInode = block.view();
        if i.footer.nid != i.footer.ino || i.i_mode.get() == 0 {
            return None;
        }
        Some(Self {
            mode: i.i_mode.get(),
            uid: i.i_uid.get(),
            gid: i.i_gid.get(),
            projid: i.projid(),
            links: i.i_links.get(),
            size: if i.is_dir() { 0 } else { i.i_size.get() },
            atime: time(i.i_atime, i.i_atime_nsec),
            mtime: time(i.i_mtime, i.i_mtime_nsec),
            ctime: time(i.i_ctime, i.i_ctime_nsec),
            flags: i.i_flags.get(),
            advise: i.i_advise,
            inline: (i.inline() & KEPT_INLINE).bits(),
            gc_failures: if i.is_reg() { i.i_current_depth.get() as u16 } else { 0 },
        })
    }

    /// The changed fields, and the change of the link count.
    pub fn since(&self, old: &Self) -> (Attr, i32) {
        fn new<T: PartialEq>(now: T, before: T) -> Option<T> {
            (now != before).then_some(now)
        }
        let attr = Attr {
            mode: new(self.mode, old.mode),
            uid: new(self.uid, old.uid),
            gid: new(self.gid, old.gid),
            projid: new(self.projid, old.projid),
            size: new(self.size, old.size),
            atime: new(self.atime, old.atime),
            mtime: new(self.mtime, old.mtime),
            ctime: new(self.ctime, old.ctime),
            flags: new(self.flags, old.flags),
            advise: new(self.advise, old.advise),
            inline: new(self.inline, old.inline),
            pino: None,
            gc_failures: new(self.gc_failures, old.gc_failures),
        };
        (attr, self.links.wrapping_sub(old.links).cast_signed())
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
        pino: Nid(i.i_pino.get()),
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
