//! The index of a file: slots in the inode, direct and indirect nodes, clusters.
use super::Walk;
use super::file::File;
use crate::CheckError;
use crate::report::Kind;
use segno_format::inode::RawInode;
use segno_format::node::{RawNode, SUBTREES, child_offset, first_block};
use segno_format::summary::RawSummary;
use segno_format::{ADDRS_PER_BLOCK, BlockAddr, Corrupt, Nid, Structure};

/// A node with slots.
#[derive(Clone, Copy)]
struct Dnode {
    nid: Nid,
    version: u8,
    /// File block of its first slot.
    first: u64,
}

impl Walk<'_, '_> {
    /// Walks all slots of a file.
    pub(super) fn index(&mut self, file: &mut File, raw: &RawInode) -> Result<(), CheckError> {
        let addrs: Vec<_> = (0..file.layout.slots).map(|i| raw.slot(&file.layout, i)).collect();
        self.slots(file, Nid(file.ino), 0, &addrs)?;
        self.want_nodes(SUBTREES.iter().zip(0..).map(|(_, i)| raw.nid(i)));
        for (i, (depth, offset)) in (0u32..).zip(SUBTREES) {
            let nid = raw.nid(i);
            if nid != Nid::NONE {
                self.subtree(file, nid, depth, offset)?;
            }
        }
        Ok(())
    }

    /// `depth` is 1 for a direct node and at most 3, so the recursion is bounded.
    fn subtree(&mut self, file: &mut File, nid: Nid, depth: u32, offset: u32) -> Result<(), CheckError> {
        let Some(block) = self.node(nid, file.ino, offset)? else { return Ok(()) };
        file.blocks = file.blocks.saturating_add(1);
        self.check_cold_bit(nid, file.ino, &block, file.is_dir);
        let node: &RawNode = block.view();
        if depth == 1 {
            let addrs: Vec<_> = (0..file.layout.per_node).map(|i| node.addr(i)).collect();
            return self.slots(file, nid, offset, &addrs);
        }
        self.want_nodes((0..ADDRS_PER_BLOCK).map(|i| node.nid(i)));
        for i in 0..ADDRS_PER_BLOCK {
            let child = node.nid(i);
            if child != Nid::NONE {
                self.subtree(file, child, depth - 1, child_offset(depth, offset, i))?;
            }
        }
        Ok(())
    }

    fn slots(
        &mut self,
        file: &mut File,
        nid: Nid,
        offset: u32,
        addrs: &[BlockAddr],
    ) -> Result<(), CheckError> {
        let version = self.volume.nat.get(nid).map_or(0, |e| e.version);
        let first = first_block(offset, file.layout.slots, file.layout.per_node).unwrap_or_default();
        let node = Dnode { nid, version, first };
        if file.cluster == 0 {
            return (0u16..).zip(addrs).try_for_each(|(i, &addr)| self.slot(file, node, i, addr));
        }
        // Slots of a node are a multiple of the cluster, and fewer than 2^16.
        for (c, cluster) in addrs.chunks(file.cluster as usize).enumerate() {
            let at = (c * file.cluster as usize) as u16;
            if cluster.first() == Some(&BlockAddr::COMPRESS) {
                self.compressed(file, node, at, cluster)?;
            } else {
                (at..).zip(cluster).try_for_each(|(i, &addr)| self.slot(file, node, i, addr))?;
            }
        }
        Ok(())
    }

    fn slot(&mut self, file: &mut File, node: Dnode, i: u16, addr: BlockAddr) -> Result<(), CheckError> {
        let b = node.first.saturating_add(i.into());
        match addr {
            BlockAddr::NULL => return Ok(()),
            BlockAddr::NEW if !file.is_dir => self.reserve(file),
            BlockAddr::NEW | BlockAddr::COMPRESS => {
                let why = "marker that is not allowed in this slot";
                let e = Corrupt::nid(Structure::DirectNode, node.nid.0, why, addr.0.into(), i.into());
                self.report(file.ino, Kind::BlockAddress, e);
                self.reserve(file);
            }
            _ => {
                file.blocks = file.blocks.saturating_add(1);
                let owner = RawSummary::data(node.nid, node.version, i);
                if self.visit_data_block(addr, file.ino, Some(owner))? {
                    file.note(b, addr);
                }
            }
        }
        file.end = file.end.max(b.saturating_add(1));
        Ok(())
    }

    fn reserve(&mut self, file: &mut File) {
        file.blocks = file.blocks.saturating_add(1);
        self.found.counts.reserved_blocks = self.found.counts.reserved_blocks.saturating_add(1);
    }

    /// Checks a cluster that its first slot, `at`, marks as compressed.
    fn compressed(
        &mut self,
        file: &mut File,
        node: Dnode,
        at: u16,
        cluster: &[BlockAddr],
    ) -> Result<(), CheckError> {
        let stored = cluster.iter().skip(1).take_while(|a| a.is_real()).count();
        let rest = if file.released { BlockAddr::NULL } else { BlockAddr::NEW };
        if stored == 0 || cluster.iter().skip(1 + stored).any(|&a| a != rest) {
            let why = "slots of a compressed cluster: its blocks in use";
            let e = Corrupt::nid(Structure::Cluster, node.nid.0, why, stored as u64, at.into());
            self.report(file.ino, Kind::Cluster, e);
        }
        if !file.released {
            self.reserve(file);
        }
        for (i, &addr) in (at..).zip(cluster).skip(1) {
            // Its shape has been judged, so another marker here is not reported again.
            if addr != BlockAddr::COMPRESS {
                self.slot(file, node, i, addr)?;
            }
        }
        let blocks = cluster.get(1..1 + stored).unwrap_or_default();
        self.cluster_content(file, node.first.saturating_add(at.into()), cluster.len(), blocks)?;
        let saved = cluster.len().saturating_sub(stored) as u64;
        file.saved = file.saved.saturating_add(saved);
        Ok(())
    }
}
