//! SIT, NAT and summaries of an unmounted volume, read from its blocks without the engine.
use anyhow::{Context, Result};
use segno_device::BlockDevice;
use segno_format::bits::msb;
use segno_format::sit::LogType;
use segno_format::summary::RawSummary;
use segno_format::superblock::Superblock;
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Nid, SegNo};
use segno_layout::{Nat, Pack, Sit, Ssa, Summaries, superblock_in_force};
use std::collections::HashMap;
use std::sync::Arc;

/// The tables.
pub struct Tables<'a> {
    dev: &'a dyn BlockDevice,
    pub sb: Superblock,
    sit: Sit,
    nat: Nat,
    ssa: Ssa<&'a dyn BlockDevice>,
    nodes: HashMap<Nid, Arc<Block>>,
}

impl<'a> Tables<'a> {
    pub fn load(dev: &'a dyn BlockDevice) -> Result<Self> {
        let sb = superblock_in_force(dev)??;
        let pack = Pack::in_force(dev, &sb.geo)??;
        let summaries = Summaries::load(&pack);
        summaries.check(&pack)?;
        let sit = Sit::load(dev, &sb.geo, &pack, &summaries)?;
        let nat = Nat::load(dev, &sb.geo, &pack, &summaries)?;
        let ssa = Ssa::new(dev, sb.geo, Some((&pack, &summaries)));
        Ok(Self { dev, sb, sit, nat, ssa, nodes: HashMap::new() })
    }

    /// The owner of a data block.
    pub fn owner(&self, addr: BlockAddr) -> Result<RawSummary> {
        Ok(self.ssa.owner(addr)?.context("a valid block without a summary")?.entry)
    }

    /// Type of a segment, and its valid blocks.
    pub fn segment(&self, seg: SegNo) -> Result<(LogType, Vec<u32>)> {
        let entry = self.sit.get(seg).context("no such segment")?;
        let valid = (0..BLOCKS_PER_SEG).filter(|&off| msb::test(&entry.valid_map, off as usize)).collect();
        Ok((entry.parse(seg)?, valid))
    }

    /// The block of a node.
    pub fn node(&mut self, nid: Nid) -> Result<Arc<Block>> {
        if let Some(found) = self.nodes.get(&nid) {
            return Ok(found.clone());
        }
        let addr = self.nat.entry(nid).addr();
        let in_main = Some(addr).filter(|&addr| self.sb.geo.in_main(addr));
        let node = self.dev.block(in_main.with_context(|| format!("node {} has no block", nid.0))?)?;
        let node = Arc::new(node);
        self.nodes.insert(nid, node.clone());
        Ok(node)
    }
}
