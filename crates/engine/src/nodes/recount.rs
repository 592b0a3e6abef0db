//! Recounting usage if the checkpoint marks the quota files as possibly wrong.
use super::Nodes;
use crate::error::{Error, Result};
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::{Block, BlockAddr, Corrupt, Ino, Nid, Structure};

/// Inode blocks read per request.
const RUN: u32 = 64;

impl Nodes {
    /// Sets the usage in all quota files to the sum over the inodes of the checkpoint; keeps limits. Reads the whole
    /// NAT and all inodes. After an error usage is incomplete.
    pub fn recount_usage(&self) -> Result<()> {
        self.quota.forget_usage();
        let expected = u64::from(self.space.counts.values().valid_inodes);
        let mut found = 0;
        for block in 0..self.base.geo.nat_blocks() {
            if found == expected {
                break;
            }
            let inodes = self.inodes_in(block)?;
            found += inodes.len() as u64;
            self.charge_all(&inodes)?;
        }
        if found == expected {
            return Ok(());
        }
        Err(Corrupt::block(Structure::Checkpoint, 0, "valid_inode_count", expected, found).into())
    }

    /// Addresses and numbers of the inodes in a NAT block, by address.
    fn inodes_in(&self, block: u32) -> Result<Vec<(BlockAddr, Ino)>> {
        let mut inodes = Vec::new();
        let nids = (0..NAT_PER_BLOCK).map(|i| Nid(block * NAT_PER_BLOCK + i));
        for nid in nids.filter(|&nid| self.base.geo.nid_ok(nid)) {
            let entry = self.nat.get(nid)?;
            if entry.ino.nid() == nid && entry.addr.is_real() {
                inodes.push((entry.addr, entry.ino));
            }
        }
        inodes.sort_unstable();
        Ok(inodes)
    }

    fn charge_all(&self, mut inodes: &[(BlockAddr, Ino)]) -> Result<()> {
        while let Some(&(first, _)) = inodes.first() {
            let together =
                (0..RUN).zip(inodes).take_while(|(n, (addr, _))| *addr == first.offset(*n)).count();
            let run = self.base.dev.read_main_run(first, together as u32)?;
            run.iter().zip(inodes).try_for_each(|(block, &(_, ino))| self.charge(ino, block))?;
            inodes = inodes.get(run.len()..).unwrap_or_default();
        }
        Ok(())
    }

    fn charge(&self, ino: Ino, block: &Block) -> Result<()> {
        self.cache.check(ino.nid(), ino, block)?;
        if self.quota.owns(ino) {
            return Ok(());
        }
        let usage = self.quota.inode_usage_of(ino, block);
        let no_blocks = || Error::from(Corrupt::nid(Structure::Inode, ino.0, "i_blocks is 0", 0, 1));
        self.quota.changed(None, Some(usage.ok_or_else(no_blocks)?));
        Ok(())
    }
}
