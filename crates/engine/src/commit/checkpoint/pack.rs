//! Reads the checkpoint pack in force at mount.
use super::CpState;
use crate::error::Result;
use crate::meta::Device;
use crate::space::Log;
use segno_format::checkpoint::RawCheckpoint;
use segno_format::nat::RawNatJournalEntry;
use segno_format::node::RawNode;
use segno_format::sit::{LogType, RawSitJournalEntry};
use segno_format::summary::Journal;
use segno_format::summary::{RawSummaryBlock, SummaryType};
use segno_format::{BLOCKS_PER_SEG, Block, Corrupt, Geometry, Ino, SegNo, Structure};
use segno_layout::{Summaries, check_checkpoint};

/// A fully read pack that passed every check.
pub struct Pack {
    pub state: CpState,
    pub sit_bitmap: Vec<u8>,
    pub nat_bitmap: Vec<u8>,
    pub nat_journal: Journal<RawNatJournalEntry>,
    pub sit_journal: Journal<RawSitJournalEntry>,
    pub logs: [Log; 6],
    pub orphans: Vec<Ino>,
}

/// Reads both packs and takes the one in force.
pub fn read_pack(dev: &Device, geo: &Geometry) -> Result<Pack> {
    // An unreadable pack may be the newer one; blocks that the older one refers to may have been reused since.
    let pack = segno_layout::Pack::in_force(dev, geo)??;
    check_checkpoint(pack.cp(), geo, pack.start)?;
    let summaries = Summaries::load(&pack);
    summaries.check(&pack)?;
    let orphans: Result<Vec<Vec<Ino>>, Corrupt> = pack.orphans().collect();
    let state = CpState {
        index: pack.index,
        header: pack.header().clone(),
        kbytes_written: summaries.kbytes_written(),
        crc: pack.crc,
        is_first: pack.is_first,
        guarded: false,
    };
    Ok(Pack {
        state,
        sit_bitmap: pack.sit_bitmap(geo)?.to_vec(),
        nat_bitmap: pack.nat_bitmap(geo)?.to_vec(),
        logs: open_logs(dev, geo, pack.cp(), &summaries)?,
        orphans: orphans?.concat(),
        nat_journal: summaries.nat,
        sit_journal: summaries.sit,
    })
}

fn open_logs(dev: &Device, geo: &Geometry, cp: &RawCheckpoint, summaries: &Summaries) -> Result<[Log; 6]> {
    let mut logs = Vec::with_capacity(6);
    for p in LogType::ALL.map(|log| cp.position(log)) {
        let mut summary = match summaries.of(p.log) {
            Some(stored) => *stored,
            // A log that only appends has nothing in use past its position.
            None => rebuild_node_summary(dev, geo, p.seg, p.used_blocks())?,
        };
        summary.entry_type = p.log.summary_type() as u8;
        summary.journal.fill(0);
        logs.push(Log {
            kind: p.log,
            segno: p.seg,
            next: p.blkoff.into(),
            ssr: p.fills_holes(),
            summary: Box::new(summary),
            fsyncs: 0,
        });
    }
    logs.try_into().map_err(|_| Corrupt::block(Structure::Checkpoint, 0, "number of logs", 0, 6).into())
}

/// Without node summaries in the pack, the footers of the segment's blocks give the same information.
fn rebuild_node_summary(dev: &Device, geo: &Geometry, seg: SegNo, count: u32) -> Result<RawSummaryBlock> {
    let mut sum = RawSummaryBlock::empty(SummaryType::Node);
    let mut blocks = vec![Block::zeroed(); count.min(BLOCKS_PER_SEG) as usize];
    dev.read_into(geo.seg_start(seg), &mut blocks)?;
    for (entry, block) in sum.entries.iter_mut().zip(&blocks) {
        entry.nid = block.view::<RawNode>().footer.nid;
    }
    Ok(sum)
}
