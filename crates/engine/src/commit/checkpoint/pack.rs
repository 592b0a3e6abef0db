//! Selects and reads the checkpoint pack at mount.
use crate::error::Result;
use crate::meta::Device;
use crate::space::Log;
use segno_format::checkpoint::{CpFlags, LogPosition, RawCheckpoint, bitmap_place};
use segno_format::nat::RawNatJournal;
use segno_format::node::RawNode;
use segno_format::orphan::RawOrphanBlock;
use segno_format::pack::{PackHead, in_force};
use segno_format::sit::{LogType, RawSitJournal};
use segno_format::summary::{JOURNAL_BYTES, RawSummaryBlock, SummaryType, compact_entry, compact_position};
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Corrupt, Geometry, Ino, SegNo, Structure};
use zerocopy::{FromBytes, IntoBytes};

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

/// Reads both ends of both packs, picks the newer valid pack and reads the rest of it.
pub fn read_pack(dev: &Device, geo: &Geometry, ro_image: bool) -> Result<Pack> {
    let read_head = |index| PackHead::read(geo.pack_addr(index), |at| dev.read(at));
    // An unreadable pack may be the newer one; blocks that the older one refers to may have been reused since.
    let heads = [read_head(0)?, read_head(1)?];
    let index = in_force(&heads).unwrap_or(0);
    let [first, second] = heads;
    let PackHead { block: header, crc, .. } = if index == 0 { first } else { second }?;
    let start = geo.pack_addr(index);
    let raw: &RawCheckpoint = header.view();
    check(raw, geo, start, ro_image)?;
    let (sit_bitmap, nat_bitmap) = read_bitmaps(dev, geo, start, &header)?;
    let sums = read_summaries(dev, start, raw)?;
    let orphans = read_orphans(dev, start, geo.cp_payload, raw)?;
    let (nat_journal, sit_journal, kbytes_written) = (sums.nat, sums.sit, sums.kbytes);
    let logs = open_logs(dev, geo, raw, sums)?;
    Ok(Pack {
        index,
        crc,
        sit_bitmap,
        nat_bitmap,
        nat_journal,
        sit_journal,
        logs,
        orphans,
        kbytes_written,
        header,
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

fn read_bitmaps(
    dev: &Device,
    geo: &Geometry,
    start: BlockAddr,
    header: &Block,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = header.0.to_vec();
    for i in 0..geo.cp_payload {
        bytes.extend_from_slice(&dev.read(start.offset(1 + i))?.0);
    }
    let place = bitmap_place(geo, header.view::<RawCheckpoint>().flags());
    let take = |from: usize, len: usize| {
        bytes.get(from..from + len).map(<[u8]>::to_vec).ok_or_else(|| {
            let why = "version bitmap does not fit in the pack";
            Corrupt::block(Structure::Checkpoint, start.0.into(), why, len as u64, bytes.len() as u64)
        })
    };
    Ok((take(place.sit, geo.sit_bitmap_bytes())?, take(place.nat, geo.nat_bitmap_bytes())?))
}

struct Summaries {
    nat: RawNatJournal,
    sit: RawSitJournal,
    data: [RawSummaryBlock; 3],
    /// Present only in a pack written by an unmount.
    node: Option<[RawSummaryBlock; 3]>,
    kbytes: u64,
}

fn read_summaries(dev: &Device, start: BlockAddr, cp: &RawCheckpoint) -> Result<Summaries> {
    let at = start.offset(cp.cp_pack_start_sum.get());
    let flags = cp.flags();
    let mut data = [RawSummaryBlock::empty(SummaryType::Data); 3];
    let (nat, sit);
    if flags.contains(CpFlags::COMPACT_SUM) {
        let first = dev.read(at)?;
        nat = journal(&first.0, 0);
        sit = journal(&first.0, JOURNAL_BYTES);
        read_compact(dev, at, first, cp, &mut data)?;
    } else {
        for (i, sum) in (0..).zip(&mut data) {
            *sum = *dev.read(at.offset(i))?.view();
        }
        let [hot, _, cold] = &data;
        nat = journal(&hot.journal, 0);
        sit = journal(&cold.journal, 0);
    }
    let mut kbytes = 0;
    let node = if flags.intersects(CpFlags::UMOUNT | CpFlags::FASTBOOT) {
        let at = start.offset(cp.cp_pack_total_block_count.get().saturating_sub(4));
        let mut node = [RawSummaryBlock::empty(SummaryType::Node); 3];
        for (i, sum) in (0..).zip(&mut node) {
            *sum = *dev.read(at.offset(i))?.view();
        }
        let [hot, _, _] = &node;
        kbytes = segno_format::summary::RawExtraInfo::read_from_bytes(&hot.journal)
            .map_or(0, |i| i.kbytes_written.get());
        Some(node)
    } else {
        None
    };
    Ok(Summaries { nat, sit, data, node, kbytes })
}

fn journal<T: FromBytes + zerocopy::KnownLayout + zerocopy::Immutable>(bytes: &[u8], from: usize) -> T {
    bytes.get(from..).and_then(|b| T::read_from_prefix(b).ok()).map_or_else(T::new_zeroed, |(j, _)| j)
}

fn read_compact(
    dev: &Device,
    at: BlockAddr,
    first: Block,
    cp: &RawCheckpoint,
    data: &mut [RawSummaryBlock; 3],
) -> Result<()> {
    let mut blocks = vec![first];
    let mut n = 0;
    for (p, sum) in positions(cp).zip(data) {
        for entry in sum.entries.iter_mut().take(p.used_blocks() as usize) {
            while blocks.len() <= compact_position(n).0 {
                blocks.push(dev.read(at.offset(blocks.len() as u32))?);
            }
            *entry = compact_entry(&blocks, n).unwrap_or_default();
            n += 1;
        }
    }
    Ok(())
}

fn open_logs(dev: &Device, geo: &Geometry, cp: &RawCheckpoint, sums: Summaries) -> Result<[Log; 6]> {
    let [d0, d1, d2] = sums.data;
    let mut logs = Vec::with_capacity(6);
    let mut data = [d0, d1, d2].into_iter();
    for p in positions(cp) {
        let kind = p.log;
        let mut summary = match (kind.is_node(), &sums.node) {
            (false, _) => data.next().unwrap_or(RawSummaryBlock::empty(SummaryType::Data)),
            (true, Some(node)) => {
                node.get(kind.idx() - 3).copied().unwrap_or(RawSummaryBlock::empty(SummaryType::Node))
            }
            // A log that only appends has nothing in use past its position.
            (true, None) => rebuild_node_summary(dev, geo, p.seg, p.used_blocks())?,
        };
        summary.entry_type = Log::summary_type(kind) as u8;
        summary.journal.as_mut_bytes().fill(0);
        logs.push(Log {
            kind,
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

fn read_orphans(dev: &Device, start: BlockAddr, payload: u32, cp: &RawCheckpoint) -> Result<Vec<Ino>> {
    if !cp.flags().contains(CpFlags::ORPHAN_PRESENT) {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    for i in payload + 1..cp.cp_pack_start_sum.get() {
        let at = start.offset(i);
        out.extend(dev.read(at)?.view::<RawOrphanBlock>().inos(at.0.into())?);
    }
    Ok(out)
}
