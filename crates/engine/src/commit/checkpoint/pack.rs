//! Reads the checkpoint pack in force at mount.
use crate::error::Result;
use crate::meta::Device;
use crate::space::Log;
use segno_format::checkpoint::{CpFlags, LogPosition, RawCheckpoint};
use segno_format::nat::RawNatJournal;
use segno_format::node::RawNode;
use segno_format::sit::{LogType, RawSitJournal};
use segno_format::summary::{RawSummaryBlock, SummaryType};
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Corrupt, Geometry, Ino, SegNo, Structure};
use segno_layout::{Packs, Summaries};

/// A fully read pack that passed every check.
pub struct Pack {
    /// 0 or 1.
    pub index: usize,
    pub header: Block,
    pub crc: u32,
    pub sit_bitmap: Vec<u8>,
    pub nat_bitmap: Vec<u8>,
    pub nat_journal: RawNatJournal,
    pub sit_journal: RawSitJournal,
    pub logs: [Log; 6],
    pub orphans: Vec<Ino>,
    pub kbytes_written: u64,
}

impl Pack {
    pub fn raw(&self) -> &RawCheckpoint {
        self.header.view()
    }
}

/// Reads both packs and takes the one in force.
pub fn read_pack(dev: &Device, geo: &Geometry, ro_image: bool) -> Result<Pack> {
    // An unreadable pack may be the newer one; blocks that the older one refers to may have been reused since.
    let pack = Packs::load(dev, geo)?.in_force()?;
    check(pack.cp(), geo, pack.start, ro_image)?;
    let summaries = Summaries::load(&pack);
    summaries.check(&pack)?;
    let orphans: Result<Vec<Vec<Ino>>, Corrupt> = pack.orphans().collect();
    Ok(Pack {
        index: pack.index,
        header: pack.header().clone(),
        crc: pack.crc,
        sit_bitmap: pack.sit_bitmap(geo)?.to_vec(),
        nat_bitmap: pack.nat_bitmap(geo)?.to_vec(),
        nat_journal: *summaries.nat,
        sit_journal: *summaries.sit,
        logs: open_logs(dev, geo, pack.cp(), &summaries)?,
        orphans: orphans?.concat(),
        kbytes_written: summaries.kbytes_written(),
    })
}

fn check(cp: &RawCheckpoint, geo: &Geometry, start: BlockAddr, ro_image: bool) -> Result<(), Corrupt> {
    let fail = |why, found: u64, expected: u64| {
        Err(Corrupt::block(Structure::Checkpoint, start.0.into(), why, found, expected))
    };
    let (rsvd, ovp) = (cp.rsvd_segment_count.get(), cp.overprov_segment_count.get());
    let meta = 2 + geo.segment_count_sit + geo.segment_count_nat + geo.segment_count_ssa;
    if meta.saturating_add(rsvd) >= geo.segment_count {
        return fail("reserved segments", rsvd.into(), geo.segment_count.into());
    }
    if !ro_image && (rsvd == 0 || ovp == 0) {
        return fail("reserved or overprovision segments are 0", rsvd.into(), 1);
    }
    let user = cp.user_block_count.get();
    let room = geo.main_blocks() + if ro_image { u64::from(BLOCKS_PER_SEG) } else { 0 };
    if user == 0 || user >= room {
        return fail("user_block_count", user, room);
    }
    if cp.valid_block_count.get() > user {
        return fail("valid_block_count", cp.valid_block_count.get(), user);
    }
    if cp.valid_node_count.get() > geo.max_nid().saturating_sub(3) {
        return fail("valid_node_count", cp.valid_node_count.get().into(), geo.max_nid().into());
    }
    let mut seen = Vec::new();
    for p in positions(cp) {
        let (segno, off) = (p.seg.0, u32::from(p.blkoff));
        if ro_image && !matches!(p.log, LogType::HotData | LogType::HotNode) {
            continue;
        }
        if segno >= geo.segment_count_main {
            return fail("segment of a log", segno.into(), geo.segment_count_main.into());
        }
        if off >= BLOCKS_PER_SEG {
            return fail("offset of a log", off.into(), BLOCKS_PER_SEG.into());
        }
        if seen.contains(&segno) {
            return fail("two logs in one segment", segno.into(), 0);
        }
        seen.push(segno);
        if p.alloc_type > 1 {
            return fail("alloc_type", p.alloc_type.into(), 1);
        }
    }
    let sizes = [
        ("sit_ver_bitmap_bytesize", cp.sit_ver_bitmap_bytesize.get() as usize, geo.sit_bitmap_bytes()),
        ("nat_ver_bitmap_bytesize", cp.nat_ver_bitmap_bytesize.get() as usize, geo.nat_bitmap_bytes()),
    ];
    for (why, found, expected) in sizes {
        if found != expected {
            return fail(why, found as u64, expected as u64);
        }
    }
    let sum = cp.cp_pack_start_sum.get();
    if sum < geo.cp_payload + 1 || sum > BLOCKS_PER_SEG - 1 - 6 {
        return fail("cp_pack_start_sum", sum.into(), (geo.cp_payload + 1).into());
    }
    if cp.flags().contains(CpFlags::LARGE_NAT_BITMAP) && cp.checksum_offset.get() != 192 {
        return fail("checksum offset of the large_nat_bitmap layout", cp.checksum_offset.get().into(), 192);
    }
    if cp.flags().contains(CpFlags::ERROR) {
        return fail("the volume stopped on an error; run a check first", cp.ckpt_flags.get().into(), 0);
    }
    Ok(())
}

fn positions(cp: &RawCheckpoint) -> impl Iterator<Item = LogPosition> + '_ {
    LogType::ALL.into_iter().map(|log| cp.position(log))
}

fn open_logs(dev: &Device, geo: &Geometry, cp: &RawCheckpoint, summaries: &Summaries) -> Result<[Log; 6]> {
    let mut logs = Vec::with_capacity(6);
    for p in positions(cp) {
        let mut summary = match summaries.of(p.log) {
            Some(stored) => *stored,
            // A log that only appends has nothing in use past its position.
            None => rebuild_node_summary(dev, geo, p.seg, p.used_blocks())?,
        };
        summary.entry_type = Log::summary_type(p.log) as u8;
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
