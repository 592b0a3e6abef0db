//! The byte string that holds an inode's attributes.
use super::Xattrs;
use crate::error::{Error, Result};
use crate::files::Inode;
use crate::nodes::NodeFrame;
use crate::transaction::Op;
use segno_format::inode::Inline;
use segno_format::node::XATTR_NODE_OFFSET;
use segno_format::xattr::{HEADER_BYTES, XATTR_NODE_BYTES};
use segno_format::{Corrupt, Nid, Structure};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::little_endian::{U32, U64};

/// Bytes of an entry apart from name and value.
const ENTRY_BYTES: usize = 4;

/// Longest value that an inode can have, without other attributes.
pub(super) fn value_max(inline: usize) -> usize {
    inline + XATTR_NODE_BYTES - HEADER_BYTES - ENTRY_BYTES
}

impl Xattrs {
    /// The inline part of the area in the inode's block; empty without inline attributes.
    pub(super) fn inline_range(&self, inode: &Inode) -> Result<Range<usize>> {
        let layout = inode.layout(self.base.features)?;
        let range = layout.xattr_range();
        let inline = inode.get(|i| i.inline().contains(Inline::XATTR));
        Ok(if inline { range } else { range.end..range.end })
    }

    /// All attributes. The caller holds the inode's lock, shared or exclusive.
    pub fn load(&self, inode: &Inode) -> Result<Vec<u8>> {
        let range = self.inline_range(inode)?;
        let block = inode.frame.snapshot();
        let mut area = block.0.get(range).unwrap_or_default().to_vec();
        if let Some(node) = self.node(inode)? {
            let block = node.snapshot();
            area.extend_from_slice(block.0.get(..XATTR_NODE_BYTES).unwrap_or_default());
        }
        Ok(area)
    }

    pub fn node(&self, inode: &Inode) -> Result<Option<Arc<NodeFrame>>> {
        let nid = Nid(inode.get(|i| i.i_xattr_nid.get()));
        if nid == Nid::NONE {
            return Ok(None);
        }
        let frame = self.base.health.record_damage(self.nodes.cache.get_of(nid, inode.ino))?;
        let offset = frame.footer().node_offset();
        if offset != XATTR_NODE_OFFSET {
            let (found, expected) = (offset.into(), XATTR_NODE_OFFSET.into());
            return Err(
                Corrupt::nid(Structure::NodeFooter, nid.0, "xattr node offset", found, expected).into()
            );
        }
        Ok(Some(frame))
    }

    /// Replaces all attributes; nothing changes on failure.
    pub fn store(&self, op: &Op<'_>, inode: &Inode, area: &[u8]) -> Result<()> {
        let range = self.inline_range(inode)?;
        if area.len() > range.len() + XATTR_NODE_BYTES {
            return Err(Error::XattrTooBig);
        }
        let old = if op.is_recorded() { Some(self.load(inode)?) } else { None };
        let (inline, rest) = area.split_at(area.len().min(range.len()));
        if rest.is_empty() {
            self.free_node(op, inode)?;
        } else {
            let node = match self.node(inode)? {
                Some(node) => node,
                None => self.make_node(op, inode)?,
            };
            self.nodes.cache.modify(op, &node, |b| fill(b.0.get_mut(..XATTR_NODE_BYTES), rest));
        }
        self.nodes.cache.modify(op, &inode.frame, |b| fill(b.0.get_mut(range), inline));
        if let Some(old) = old {
            op.attrs_changed(inode.ino, &old, area);
        }
        Ok(())
    }

    pub fn make_node(&self, op: &Op<'_>, inode: &Inode) -> Result<Arc<NodeFrame>> {
        let nid = self.nodes.new_nid(Some(inode.ino))?;
        let frame = self.nodes.cache.create(op, nid, inode.ino, XATTR_NODE_OFFSET, !inode.is_dir());
        self.nodes.cache.modify_inode(op, &inode.frame, |i| {
            i.i_xattr_nid = U32::new(nid.0);
            i.i_blocks = U64::new(i.i_blocks.get().saturating_add(1));
        });
        Ok(frame)
    }

    /// Frees the xattr node, if there is one.
    pub fn free_node(&self, op: &Op<'_>, inode: &Inode) -> Result<()> {
        let Some(node) = self.node(inode)? else { return Ok(()) };
        self.nodes.free_node(op, node.nid, inode.ino)?;
        self.nodes.cache.modify_inode(op, &inode.frame, |i| {
            i.i_xattr_nid = U32::new(0);
            i.i_blocks = U64::new(i.i_blocks.get().saturating_sub(1).max(1));
        });
        Ok(())
    }
}

/// Stores bytes at the start of a field and zeroes the rest.
fn fill(place: Option<&mut [u8]>, bytes: &[u8]) {
    let (head, tail) = place.unwrap_or_default().split_at_mut(bytes.len());
    head.copy_from_slice(bytes);
    tail.fill(0);
}
