//! Quota files: read completely at mount, updated by each checkpoint.
use super::Early;
use super::Files;
use crate::block::shared;
use crate::error::{Error, Result};
use crate::health::invariant;
use crate::nodes::QuotaFile;
use crate::transaction::Op;
use segno_format::checkpoint::CpFlags;
use segno_format::quota::QuotaTable;
use segno_format::{BLOCK_SIZE, Block, Corrupt, Ino, Structure};
use zerocopy::little_endian::U64;

impl Files {
    /// Reads the quota files before anything changes, and recounts usage if they may be wrong. A damaged file is left
    /// unchanged for a check to rebuild.
    pub fn load_quota(&self, flags: CpFlags) -> Result<()> {
        let own = self.nodes.quota.own;
        if self.base.opts.read_only || own == [None; 3] {
            return Ok(());
        }
        let mut damaged = false;
        for (kind, ino) in own.into_iter().enumerate() {
            let Some(ino) = ino else { continue };
            match self.read_quota_file(kind, ino) {
                Ok(file) => {
                    let put = self.nodes.quota.put(kind, file);
                    invariant!(self.base.health, put, "a quota file is loaded twice");
                }
                Err(Error::Corrupt(_) | Error::NotFound) => damaged = true,
                Err(e) => return Err(e),
            }
        }
        self.nodes.quota.start();
        let flagged = flags.contains(CpFlags::QUOTA_NEED_FSCK);
        // If counting fails the flag stays set.
        let doubtful =
            damaged || flagged && self.base.health.record_damage(self.nodes.recount_usage()).is_err();
        self.nodes.quota.set_doubtful(doubtful);
        Ok(())
    }

    fn read_quota_file(&self, kind: usize, ino: Ino) -> Result<QuotaFile> {
        let inode = self.inode(ino)?;
        let block =
            |fblk| Ok::<_, Error>(self.read_block(&inode, fblk)?.unwrap_or_else(|| shared(Block::zeroed())));
        let (size, blocks) = inode.get(|i| (i.i_size.get(), i.i_blocks.get()));
        let len = QuotaTable::len_of(&block(0)?.0);
        let most =
            size.min(blocks.min(self.space.counts.values().valid_blocks).saturating_mul(BLOCK_SIZE as u64));
        if len > most {
            return Err(Corrupt::nid(Structure::Quota, ino.0, "bytes in use", len, most).into());
        }
        let mut stored = Vec::with_capacity(len as usize);
        for fblk in 0..len.div_ceil(BLOCK_SIZE as u64) {
            stored.extend_from_slice(&block(fblk)?.0);
        }
        let table = QuotaTable::parse(stored.get(..len as usize).unwrap_or_default(), kind, ino.0)?;
        let stored_ids = table.entries.len();
        Ok(QuotaFile { ino, table, stored, stored_ids, changed: false, unwritten: false })
    }

    /// Updates the quota files and places their changed blocks. The gate is closed.
    pub fn write_quota(&self, op: &Op<'_>, early: &mut Vec<Early>) -> Result<()> {
        for kind in 0..self.nodes.quota.own.len() {
            let Some(mut file) = self.nodes.quota.take(kind) else { continue };
            let done = if file.changed { self.write_quota_file(op, kind, &mut file, early) } else { Ok(()) };
            let put = self.nodes.quota.put(kind, file);
            invariant!(self.base.health, put, "a quota file is written twice by a checkpoint");
            done?;
        }
        Ok(())
    }

    fn write_quota_file(
        &self,
        op: &Op<'_>,
        kind: usize,
        file: &mut QuotaFile,
        early: &mut Vec<Early>,
    ) -> Result<()> {
        let inode = self.inode(file.ino)?;
        let mut new = file.table.to_bytes(kind);
        let len = new.len() as u64;
        // If the file was longer, the rest is zeroed.
        new.resize(new.len().next_multiple_of(BLOCK_SIZE).max(file.stored.len()), 0);
        let (blocks, _) = new.as_chunks::<BLOCK_SIZE>();
        let (old, _) = file.stored.as_chunks::<BLOCK_SIZE>();
        let changed: Vec<(u64, &[u8; BLOCK_SIZE])> =
            (0..).zip(blocks).filter(|&(i, block)| old.get(i as usize) != Some(block)).collect();
        match self.replace_blocks(op, &inode, &changed) {
            Ok(()) => {}
            Err(Error::NoSpace) => {
                file.unwritten = true;
                return Ok(());
            }
            Err(e) => return Err(e),
        }
        if inode.size() < len {
            self.nodes.cache.modify_inode(op, &inode.frame, |i| i.i_size = U64::new(len));
        }
        self.place_closed(op, &inode, early)?;
        (file.stored, file.stored_ids) = (new, file.table.entries.len());
        (file.changed, file.unwritten) = (false, false);
        Ok(())
    }
}
