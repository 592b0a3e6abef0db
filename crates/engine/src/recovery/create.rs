//! Creates an inode that the checkpoint lacks, from the block that fsync logged.
use super::chain::broken;
use crate::error::Result;
use crate::files::sanity;
use crate::recovery::Recovery;
use segno_format::inode::{Inline, RawExtent, RawExtraAttr, RawInode};
use segno_format::{Block, BlockAddr, Features, Ino};
use zerocopy::FromZeros;
use zerocopy::little_endian::{U32, U64};

impl Recovery<'_> {
    /// Creates the inode without data or attributes; replay of its blocks adds them.
    pub(super) fn create_logged(&self, ino: Ino, at: BlockAddr) -> Result<()> {
        let logged = self.base.dev.read(at)?;
        let raw: &RawInode = logged.view();
        sanity(raw, self.base.features)?;
        if !raw.is_reg() {
            return Err(broken(at, "a new inode that is no regular file", raw.i_mode.get().into(), 0).into());
        }
        let used = self.files.nodes.nat.get(ino.nid())?.addr;
        if used != BlockAddr::NULL {
            return Err(broken(at, "a new inode whose number is in use", used.0.into(), 0).into());
        }
        let op = self.base.tx.begin();
        self.files.space.counts.reserve_node(true)?;
        self.files.nodes.nat.mark_used(ino);
        let frame = self.files.nodes.cache.create(&op, ino.nid(), ino, 0, true);
        self.files.nodes.cache.modify(&op, &frame, |block| fill(block, raw, self.base.features));
        self.files.inodes.insert(frame);
        Ok(())
    }
}

fn fill(block: &mut Block, logged: &RawInode, features: Features) {
    let i: &mut RawInode = block.view_mut();
    let (footer, extra) = (i.footer, logged.extra());
    *i = *logged;
    i.footer = footer;
    i.i_inline = (logged.inline() & (Inline::XATTR | Inline::EXTRA_ATTR)).bits();
    i.i_size = U64::new(0);
    i.i_blocks = U64::new(1);
    i.i_links = U32::new(1);
    i.i_xattr_nid = U32::new(0);
    i.i_ext = RawExtent::new_zeroed();
    i.i_nid = Default::default();
    i.body.fill(0);
    if i.inline().contains(Inline::EXTRA_ATTR) {
        i.set_extra(&kept(&extra, features));
    }
}

/// The extra attributes of an empty file.
fn kept(extra: &RawExtraAttr, features: Features) -> RawExtraAttr {
    let mut kept = RawExtraAttr::new_zeroed();
    kept.i_extra_isize = extra.i_extra_isize;
    if features.contains(Features::FLEXIBLE_INLINE_XATTR) {
        kept.i_inline_xattr_size = extra.i_inline_xattr_size;
    }
    if features.contains(Features::PRJQUOTA) {
        kept.i_projid = extra.i_projid;
    }
    if features.contains(Features::INODE_CRTIME) {
        (kept.i_crtime, kept.i_crtime_nsec) = (extra.i_crtime, extra.i_crtime_nsec);
    }
    kept
}
