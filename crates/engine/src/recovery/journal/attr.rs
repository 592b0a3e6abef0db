//! Replay of fields, links and attributes of inodes.
use super::misfit;
use crate::error::Result;
use crate::files::Inode;
use crate::recovery::Recovery;
use crate::transaction::{Op, store_attr};
use segno_format::xattr::updated;
use segno_journal::Record;
use segno_journal::record::Attr;
use zerocopy::little_endian::U32;

impl Recovery<'_> {
    pub(super) fn replay_attr(&self, op: &Op<'_>, inode: &Inode, attr: &Attr) -> Result<()> {
        let kind = 0o170_000;
        if attr.mode.is_some_and(|m| (m ^ inode.get(|i| i.i_mode.get())) & kind != 0) {
            return Err(misfit(inode.ino, "type of an inode changed", attr.mode.unwrap_or(0).into()));
        }
        self.files.nodes.cache.modify_inode(op, &inode.frame, |i| store_attr(i, attr));
        Ok(())
    }

    pub(super) fn replay_links(&self, op: &Op<'_>, inode: &Inode, delta: i32) -> Result<()> {
        let links = inode.get(|i| i.i_links.get());
        let sum = links.checked_add_signed(delta);
        let sum = sum.ok_or_else(|| misfit(inode.ino, "more links are removed than exist", links.into()))?;
        self.files.nodes.cache.modify_inode(op, &inode.frame, |i| i.i_links = U32::new(sum));
        self.note_links(inode);
        Ok(())
    }

    /// Registers an inode without links, which is freed at the end of recovery unless a later record adds one.
    pub(super) fn note_links(&self, inode: &Inode) {
        if inode.get(|i| i.i_links.get()) == 0 {
            self.files.nodes.since.add_orphan(inode.ino);
        } else {
            self.files.nodes.since.remove_orphan(inode.ino);
        }
    }

    /// Stores the net result of all attribute records: intermediate states may not fit.
    pub(super) fn replay_xattrs(&self, op: &Op<'_>, inode: &Inode, records: &[Record]) -> Result<()> {
        let mut area: Option<Vec<u8>> = None;
        for record in records {
            let (index, name, value) = match record {
                Record::XattrSet { index, name, value } => (*index, name, Some(&**value)),
                Record::XattrDel { index, name } => (*index, name, None),
                _ => continue,
            };
            let before = area.take().map_or_else(|| self.names.xattrs.load(inode), Ok)?;
            area = Some(updated(&before, index, name, value, inode.ino.0)?);
        }
        area.map_or(Ok(()), |area| self.names.xattrs.store(op, inode, &area))
    }
}
