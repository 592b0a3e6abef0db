//! Quota files: read as a whole at mount, brought up to date by each checkpoint.
use super::QuotaFile;
use crate::data::Batch;
use crate::error::{Error, Result};
use crate::gate::Op;
use crate::sync::atomic::Ordering;
use crate::volume::Volume;
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use segno_format::inode::RawInode;
use segno_format::quota::QuotaTable;
use segno_format::{BLOCK_SIZE, Block, Corrupt, Ino, Structure};
use std::sync::Arc;
use zerocopy::little_endian::U64;

impl Volume {
    /// Reads the quota files, before anything changes, and counts usage again if they may be wrong. A damaged one is left as
    /// it is, for a check to rebuild.
    pub(crate) fn load_quota(&self) -> Result<()> {
        let own = self.quota.own;
        if self.opts.read_only || own == [None; 3] {
            return Ok(());
        }
        let flags = self.cp.lock().header.view::<RawCheckpoint>().flags();
        let mut damaged = false;
        for (kind, ino) in own.into_iter().enumerate() {
            let Some(ino) = ino else { continue };
            match self.read_quota_file(kind, ino) {
                Ok(file) => {
                    if let Some(slot) = self.quota.ledger.lock().files.get_mut(kind) {
                        *slot = Some(file);
                    }
                }
                Err(Error::Corrupt(_) | Error::NotFound) => damaged = true,
                Err(e) => return Err(e),
            }
        }
        self.quota.on.store(true, Ordering::Release);
        let flagged = flags.contains(CpFlags::QUOTA_NEED_FSCK);
        // Where counting fails the flag stays.
        let doubtful = damaged || flagged && self.noted(self.recount_usage()).is_err();
        self.quota.ledger.lock().doubtful = doubtful;
        Ok(())
    }

    fn read_quota_file(&self, kind: usize, ino: Ino) -> Result<QuotaFile> {
        let inode = self.inode(ino)?;
        let block = |fblk| {
            Ok::<_, Error>(self.read_block(&inode, fblk)?.unwrap_or_else(|| Arc::new(Block::zeroed())))
        };
        let (size, blocks) = inode.get(|i| (i.i_size.get(), i.i_blocks.get()));
        let len = QuotaTable::len_of(&block(0)?.0);
        let most = size.min(blocks.min(self.counts.values().valid_blocks).saturating_mul(BLOCK_SIZE as u64));
        if len > most {
            return Err(Corrupt::nid(Structure::Quota, ino.0, "bytes in use", len, most).into());
        }
        let mut stored = Vec::with_capacity(len as usize);
        for fblk in 0..len.div_ceil(BLOCK_SIZE as u64) {
            stored.extend_from_slice(&block(fblk)?.0);
        }
        let table = QuotaTable::parse(stored.get(..len as usize).unwrap_or_default(), kind, ino.0)?;
        let stored_ids = table.entries.len();
        Ok(QuotaFile { ino, table, stored, stored_ids, changed: false, behind: false })
    }

    /// Brings the quota files up to date and gives what changed in them places. The gate is closed.
    pub(crate) fn write_quota(&self, op: &Op<'_>, placed: &mut Vec<Batch>) -> Result<()> {
        for kind in 0..self.quota.own.len() {
            let due = self.quota.ledger.lock().files.get_mut(kind).and_then(Option::take);
            let Some(mut file) = due else { continue };
            let done = if file.changed { self.write_quota_file(op, kind, &mut file, placed) } else { Ok(()) };
            if let Some(slot) = self.quota.ledger.lock().files.get_mut(kind) {
                *slot = Some(file);
            }
            done?;
        }
        Ok(())
    }

    fn write_quota_file(
        &self,
        op: &Op<'_>,
        kind: usize,
        file: &mut QuotaFile,
        placed: &mut Vec<Batch>,
    ) -> Result<()> {
        let inode = self.inode(file.ino)?;
        let mut new = file.table.to_bytes(kind);
        let len = new.len() as u64;
        // What a file used to be longer holds zeros.
        new.resize(new.len().next_multiple_of(BLOCK_SIZE).max(file.stored.len()), 0);
        let (blocks, _) = new.as_chunks::<BLOCK_SIZE>();
        let (old, _) = file.stored.as_chunks::<BLOCK_SIZE>();
        let changed: Vec<(u64, &[u8; BLOCK_SIZE])> =
            (0..).zip(blocks).filter(|&(i, block)| old.get(i as usize) != Some(block)).collect();
        match self.replace_blocks(op, &inode, &changed) {
            Ok(()) => {}
            Err(Error::NoSpace) => {
                file.behind = true;
                return Ok(());
            }
            Err(e) => return Err(e),
        }
        if inode.size() < len {
            self.nodes.modify(op, &inode.frame, |b| b.view_mut::<RawInode>().i_size = U64::new(len));
        }
        self.place_closed(op, &inode, placed)?;
        (file.stored, file.stored_ids) = (new, file.table.entries.len());
        (file.changed, file.behind) = (false, false);
        Ok(())
    }
}
