//! Replay of compressed clusters.
use super::misfit;
use crate::error::Result;
use crate::files::{Inode, Parameters, check_compressed, cluster_blocks};
use crate::recovery::Recovery;
use crate::transaction::Op;
use segno_format::BlockAddr;
use segno_format::inode::InodeFlags;
use segno_journal::record::{Compression, Mapping};
use std::collections::BTreeMap;
use std::sync::Arc;
use zerocopy::little_endian::U32;

impl Recovery<'_> {
    pub(super) fn replay_clusters(&self, op: &Op<'_>, inode: &Arc<Inode>, mapping: &Mapping) -> Result<()> {
        check_compressed(inode)?;
        let len = cluster_blocks(inode);
        let mut clusters: BTreeMap<u64, Vec<BlockAddr>> = BTreeMap::new();
        for run in &mapping.runs {
            for i in 0..run.count {
                let page = run.page.saturating_add(i.into());
                let stored = clusters.entry(page - page % len).or_default();
                stored.push(run.addr.offset(i));
                if stored.len() as u64 != page % len {
                    return Err(misfit(inode.ino, "slot of a block of a compressed cluster", page));
                }
            }
        }
        clusters.iter().try_for_each(|(&first, stored)| self.files.packed.replay(op, inode, first, stored))
    }

    pub(super) fn replay_compression(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        how: Option<Compression>,
    ) -> Result<()> {
        let fits = |how: Compression| (2..=8).contains(&how.log_cluster) && inode.get(|i| i.has_extra(36));
        if let Some(how) = how.filter(|&how| !fits(how)) {
            return Err(misfit(inode.ino, "compression parameters", how.log_cluster.into()));
        }
        self.files.nodes.cache.modify_inode(op, &inode.frame, |raw| {
            if let Some(Compression { algorithm, log_cluster, flag }) = how {
                Parameters { algorithm, log_cluster, flag }.store(raw);
            }
            let mut flags = raw.flags();
            flags.set(InodeFlags::COMPR, how.is_some());
            raw.i_flags = U32::new(flags.bits());
        });
        Ok(())
    }

    pub(super) fn replay_released(&self, op: &Op<'_>, inode: &Arc<Inode>, released: bool) -> Result<()> {
        check_compressed(inode)?;
        if released { self.files.packed.release(op, inode) } else { self.files.packed.reserve(op, inode) }
            .map(drop)
    }
}
