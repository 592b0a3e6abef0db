//! SIT, NAT and summaries of an unmounted volume, read from its blocks without the engine.
use anyhow::{Context, Result, anyhow};
use segno_device::BlockDevice;
use segno_format::bits::msb;
use segno_format::checkpoint::{CpFlags, RawCheckpoint, bitmap_place};
use segno_format::geometry::{NAT_PER_BLOCK, SIT_PER_BLOCK};
use segno_format::nat::{RawNatBlock, RawNatJournal, nat_index};
use segno_format::pack::{PackHead, in_force};
use segno_format::sit::{LogType, RawSitBlock, RawSitEntry, RawSitJournal};
use segno_format::summary::{JOURNAL_BYTES, RawSummary, RawSummaryBlock, compact_position};
use segno_format::superblock::{RawSuperblock, Superblock};
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Nid, SegNo};
use std::collections::HashMap;
use std::sync::Arc;
use zerocopy::FromBytes;

/// The tables.
pub struct Tables<'a> {
    dev: &'a dyn BlockDevice,
    pub sb: Superblock,
    /// The newer checkpoint pack.
    pack: Vec<Block>,
    sit: Vec<RawSitEntry>,
    nat: Vec<u32>,
    nodes: HashMap<Nid, Arc<Block>>,
}

impl<'a> Tables<'a> {
    pub fn load(dev: &'a dyn BlockDevice) -> Result<Self> {
        let sb = RawSuperblock::from_block(&block(dev, BlockAddr(0))?.0).parse(0)?;
        let head = |i| PackHead::read(sb.geo.pack_addr(i), |at| block(dev, at));
        let heads = [head(0)?, head(1)?];
        let newer = in_force(&heads).context("no checkpoint")?;
        let head = heads.into_iter().nth(newer).context("no such pack")??;
        let mut pack = vec![Block::zeroed(); head.total as usize];
        dev.read(sb.geo.pack_addr(newer).0.into(), &mut pack)?;
        let mut tables = Self { dev, sb, pack, sit: Vec::new(), nat: Vec::new(), nodes: HashMap::new() };
        tables.load_sit()?;
        tables.load_nat()?;
        Ok(tables)
    }

    fn load_sit(&mut self) -> Result<()> {
        let (geo, maps) = (self.sb.geo, self.bitmaps());
        let place = bitmap_place(&geo, header(&self.pack).flags()).sit;
        for b in 0..geo.sit_blocks() {
            let second = msb::test(maps.get(place..).unwrap_or_default(), b as usize);
            let entries = block(self.dev, geo.sit_addr(b, second))?.view::<RawSitBlock>().entries;
            let left = geo.segment_count_main.saturating_sub(b * SIT_PER_BLOCK) as usize;
            self.sit.extend(entries.iter().take(left));
        }
        let journal: RawSitJournal = self.journal(LogType::ColdData, JOURNAL_BYTES)?;
        for e in journal.entries.iter().take(journal.count.get().into()) {
            *self.sit.get_mut(e.segno.get() as usize).context("a SIT entry of no segment")? = e.entry;
        }
        Ok(())
    }

    fn load_nat(&mut self) -> Result<()> {
        let (geo, maps) = (self.sb.geo, self.bitmaps());
        let place = bitmap_place(&geo, header(&self.pack).flags()).nat;
        for b in 0..geo.nat_blocks() {
            let second = msb::test(maps.get(place..).unwrap_or_default(), b as usize);
            let entries = block(self.dev, geo.nat_addr(b, second))?.view::<RawNatBlock>().entries;
            self.nat.extend(entries.iter().map(|e| e.addr().0));
        }
        let journal: RawNatJournal = self.journal(LogType::HotData, 0)?;
        for e in journal.entries.iter().take(journal.count.get().into()) {
            let (b, i) = nat_index(Nid(e.nid.get()));
            let at = (b * NAT_PER_BLOCK) as usize + i;
            *self.nat.get_mut(at).context("a NAT entry of no nid")? = e.entry.addr().0;
        }
        Ok(())
    }

    fn bitmaps(&self) -> Vec<u8> {
        self.pack.iter().take(1 + self.sb.geo.cp_payload as usize).flat_map(|b| b.0).collect()
    }

    fn is_compact(&self) -> bool {
        header(&self.pack).flags().contains(CpFlags::COMPACT_SUM)
    }

    /// Block `i` of the summaries in the pack.
    fn in_pack(&self, i: usize) -> Result<&Block> {
        let start = header(&self.pack).cp_pack_start_sum.get() as usize;
        self.pack.get(start + i).context("the pack ends within its summaries")
    }

    /// The journal in the summary of a log; in the compact form it is `at` bytes into the first block.
    fn journal<T: FromBytes>(&self, log: LogType, at: usize) -> Result<T> {
        let bytes = if self.is_compact() {
            self.in_pack(0)?.0.get(at..)
        } else {
            Some(self.in_pack(log.idx())?.view::<RawSummaryBlock>().journal.as_slice())
        };
        let read = T::read_from_prefix(bytes.unwrap_or_default());
        read.map(|(journal, _)| journal).map_err(|_| anyhow!("a journal beyond its block"))
    }

    /// The owners of a data segment's blocks.
    pub fn summary(&self, seg: SegNo) -> Result<Vec<RawSummary>> {
        let cp = header(&self.pack);
        let open = cp.cur_data_segno.iter().take(3).position(|s| s.get() == seg.0);
        let Some(log) = open else {
            let stored = block(self.dev, self.sb.geo.ssa_addr(seg))?;
            return Ok(stored.view::<RawSummaryBlock>().entries.to_vec());
        };
        if !self.is_compact() {
            return Ok(self.in_pack(log)?.view::<RawSummaryBlock>().entries.to_vec());
        }
        let used = |log: usize| cp.cur_data_blkoff.get(log).map_or(0, |n| usize::from(n.get()));
        let first: usize = (0..log).map(used).sum();
        (first..first + used(log)).map(|i| self.compact_entry(i)).collect()
    }

    fn compact_entry(&self, i: usize) -> Result<RawSummary> {
        let (b, at) = compact_position(i);
        let bytes = self.in_pack(b)?.0.get(at..).unwrap_or_default();
        RawSummary::read_from_prefix(bytes)
            .map(|(entry, _)| entry)
            .map_err(|_| anyhow!("a summary beyond its block"))
    }

    /// Type of a segment, and its valid blocks.
    pub fn segment(&self, seg: SegNo) -> Result<(LogType, Vec<u32>)> {
        let entry = self.sit.get(seg.idx()).context("no such segment")?;
        let valid = (0..BLOCKS_PER_SEG).filter(|&off| msb::test(&entry.valid_map, off as usize)).collect();
        Ok((entry.parse(seg)?, valid))
    }

    /// The block of a node.
    pub fn node(&mut self, nid: Nid) -> Result<Arc<Block>> {
        if let Some(found) = self.nodes.get(&nid) {
            return Ok(found.clone());
        }
        let (b, i) = nat_index(nid);
        let at = (b * NAT_PER_BLOCK) as usize + i;
        let addr = self.nat.get(at).copied().filter(|&a| self.sb.geo.in_main(BlockAddr(a)));
        let node = Arc::new(block(
            self.dev,
            BlockAddr(addr.with_context(|| format!("node {} has no block", nid.0))?),
        )?);
        self.nodes.insert(nid, node.clone());
        Ok(node)
    }
}

fn block(dev: &dyn BlockDevice, addr: BlockAddr) -> Result<Block> {
    let mut one = [Block::zeroed()];
    dev.read(addr.0.into(), &mut one)?;
    let [block] = one;
    Ok(block)
}

fn header(pack: &[Block]) -> &RawCheckpoint {
    static NONE: Block = Block([0; segno_format::BLOCK_SIZE]);
    pack.first().unwrap_or(&NONE).view()
}
