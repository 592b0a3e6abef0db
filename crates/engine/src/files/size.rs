//! Changing the size of a file.
use super::access::{check_changeable, check_not_append_only, check_not_released};
use super::compress::cluster_blocks;
use super::write::set_changed;
use super::{Files, Inode, SIZE};
use crate::error::{Error, Result};
use crate::transaction::Op;
use segno_format::inode::{Advise, Inline, max_file_size};
use std::sync::Arc;

impl Files {
    /// Truncates or extends a regular file. The caller holds the inode's lock exclusively and excludes flushes
    /// ([`Inode::exclude_flush`]). Everything happens within `op`, so a checkpoint has all of it or nothing.
    pub fn set_size(&self, op: &Op<'_>, inode: &Arc<Inode>, size: u64) -> Result<()> {
        check_changeable(inode)?;
        check_not_append_only(inode)?;
        let layout = inode.layout(self.base.features)?;
        if size > max_file_size(layout.per_node) {
            return Err(Error::FileTooBig);
        }
        if size > 0 {
            check_not_released(inode)?;
        }
        let old = inode.size();
        if inode.is_inline() && size <= layout.inline_capacity() as u64 {
            self.cut_inline(op, inode, size.min(old) as usize)?;
        } else {
            self.convert_inline(op, inode)?;
            if size > old {
                self.zero_tail(op, inode, old)?;
            } else {
                self.shrink(op, inode, size)?;
            }
        }
        self.resize(op, inode, size);
        let now = self.base.content_time();
        self.nodes.cache.modify_inode(op, &inode.frame, |i| set_changed(i, now));
        Ok(())
    }

    /// Frees everything from `size` on, including blocks past the end that fallocate reserved.
    fn shrink(&self, op: &Op<'_>, inode: &Arc<Inode>, size: u64) -> Result<()> {
        let mut from = size.div_ceil(SIZE);
        if self.zero_packed(inode, self.cluster_tail(inode, size))? {
            from = from.next_multiple_of(cluster_blocks(inode));
        } else {
            self.zero_block_tail(op, inode, size)?;
        }
        self.truncate_blocks(op, inode, from, usize::MAX)?;
        op.record(inode.ino, |log| log.truncated(from));
        self.nodes.cache.modify_inode(op, &inode.frame, |raw| {
            raw.i_advise &= !Advise::KEEP_SIZE.bits();
            if size == 0 {
                raw.i_inline &= !Inline::COMPRESS_RELEASED.bits();
            }
        });
        Ok(())
    }

    /// Zeroes the bytes from `size` to the end of its block or packed cluster: they are about to become part of the file, or must
    /// not reappear when it grows again. The caller excludes flushes.
    pub(super) fn zero_tail(&self, op: &Op<'_>, inode: &Arc<Inode>, size: u64) -> Result<()> {
        if self.zero_packed(inode, self.cluster_tail(inode, size))? {
            return Ok(());
        }
        self.zero_block_tail(op, inode, size)
    }

    fn zero_block_tail(&self, op: &Op<'_>, inode: &Arc<Inode>, size: u64) -> Result<()> {
        let (block, at) = (size / SIZE, (size % SIZE) as usize);
        if at == 0 {
            return Ok(());
        }
        let Some(content) = self.read_block(inode, block)? else { return Ok(()) };
        let tail = content.0.get(at..).unwrap_or_default();
        if tail.iter().all(|&b| b == 0) {
            return Ok(());
        }
        self.modify_block(op, inode, block, |b| b.0.get_mut(at..).unwrap_or_default().fill(0))
    }
}
