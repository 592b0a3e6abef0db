//! Replay of inode blocks and xattr nodes.
use super::chain::{Link, broken};
use crate::error::Result;
use crate::files::{Inode, sanity};
use crate::recovery::Recovery;
use crate::transaction::Op;
use segno_format::inode::{Inline, PROJID_END, RawInode};
use segno_format::xattr::XATTR_NODE_BYTES;
use segno_format::{Block, Features};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::U32;

/// Flags taken from the logged inode.
const TAKEN: Inline = Inline::PIN_FILE.union(Inline::DATA_EXIST);

impl Recovery<'_> {
    pub(super) fn replay_inode_block(
        &self,
        op: &Op<'_>,
        inode: &Arc<Inode>,
        link: &Link,
        block: &Block,
    ) -> Result<()> {
        let logged: &RawInode = block.view();
        sanity(logged, self.base.features)?;
        let (mode, mut layout) = (inode.get(|i| i.i_mode.get()), inode.layout(self.base.features)?);
        if (logged.i_mode.get() ^ mode) & 0o170_000 != 0 {
            return Err(
                broken(link.addr, "file type changed", logged.i_mode.get().into(), mode.into()).into()
            );
        }
        let new = logged.layout(self.base.features)?;
        if (new.extra_words, new.xattr_words) != (layout.extra_words, layout.xattr_words) {
            let (found, expected) = (new.slots.into(), layout.slots.into());
            return Err(broken(link.addr, "division of the inode changed", found, expected).into());
        }
        layout = new;
        self.files
            .nodes
            .cache
            .modify_inode(op, &inode.frame, |i| take_attributes(i, logged, self.base.features));
        if logged.inline().contains(Inline::XATTR) {
            self.files.nodes.cache.modify(op, &inode.frame, |b| copy(b, block, layout.xattr_range()));
        }
        if logged.i_xattr_nid.get() == 0 {
            self.names.xattrs.free_node(op, inode)?;
        }
        let was_inline = inode.get(|i| i.inline().contains(Inline::DATA));
        if logged.inline().contains(Inline::DATA) {
            if !was_inline {
                while !self.files.truncate_blocks(op, inode, 0, usize::MAX)? {}
            }
            self.files.nodes.cache.modify(op, &inode.frame, |b| {
                copy(b, block, layout.inline_range());
                b.view_mut::<RawInode>().set_inline(Inline::DATA, true);
            });
            return Ok(());
        }
        for index in 0..5 {
            // Another root, or none, means that a truncation has freed the nodes since.
            if logged.nid(index) != inode.get(|i| i.nid(index)) {
                self.files.nodes.free_subtree(op, &inode.frame, index)?;
            }
        }
        if was_inline {
            let slots = layout.base()..layout.xattr_range().start;
            self.files.nodes.cache.modify(op, &inode.frame, |b| {
                b.0.get_mut(slots).unwrap_or_default().fill(0);
                b.view_mut::<RawInode>().set_inline(Inline::DATA, false);
            });
        }
        self.replay_slots(op, inode, &inode.frame, link, &self.logged_slots(link, block)?)
    }

    /// The number of the logged node may be reused by now, so its content goes to a new node.
    pub(super) fn replay_xattr_node(&self, op: &Op<'_>, inode: &Arc<Inode>, logged: &Block) -> Result<()> {
        let node = match self.names.xattrs.node(inode)? {
            Some(node) => node,
            None => self.names.xattrs.make_node(op, inode)?,
        };
        self.files.nodes.cache.modify(op, &node, |b| copy(b, logged, 0..XATTR_NODE_BYTES));
        Ok(())
    }
}

fn take_attributes(i: &mut RawInode, logged: &RawInode, features: Features) {
    i.i_mode = logged.i_mode;
    (i.i_uid, i.i_gid) = (logged.i_uid, logged.i_gid);
    i.i_size = logged.i_size;
    (i.i_atime, i.i_atime_nsec) = (logged.i_atime, logged.i_atime_nsec);
    (i.i_ctime, i.i_ctime_nsec) = (logged.i_ctime, logged.i_ctime_nsec);
    (i.i_mtime, i.i_mtime_nsec) = (logged.i_mtime, logged.i_mtime_nsec);
    i.i_advise = logged.i_advise;
    i.i_flags = logged.i_flags;
    // In a regular file this field is i_gc_failures.
    i.i_current_depth = logged.i_current_depth;
    i.i_ext.len = U32::new(0);
    i.i_inline = ((i.inline() - TAKEN) | (logged.inline() & TAKEN)).bits();
    if features.contains(Features::PRJQUOTA) && i.has_extra(PROJID_END) && logged.has_extra(PROJID_END) {
        i.edit_extra(|e| e.i_projid = logged.extra().i_projid);
    }
}

/// Copies a range of bytes.
fn copy(to: &mut Block, from: &Block, range: Range<usize>) {
    if let (Some(to), Some(from)) = (to.0.get_mut(range.clone()), from.0.get(range)) {
        to.copy_from_slice(from);
    }
}
