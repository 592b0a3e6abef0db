//! Every checked field before the main area: the refused values, the function that refuses them, and its
//! message. Each rule is broken here, and docs/format.md shows the table.
use super::volume;
use Broken::{Checkpoint, End, NatJournal, Orphans, Pack, SitEntry, SitJournal, Summary, Superblock};
use segno_device::BlockDevice;
use segno_format::checkpoint::{CpFlags, LogPosition, RawCheckpoint};
use segno_format::nat::RawNatJournal;
use segno_format::orphan::{RawOrphanBlock, orphans};
use segno_format::pack::PackHead;
use segno_format::sit::{LogType, RawSitEntry, RawSitJournal};
use segno_format::summary::{Journal, RawSummaryBlock};
use segno_format::superblock::RawSuperblock;
use segno_format::{Block, BlockAddr, Corrupt, Features, Geometry, SegNo};
use segno_layout::{Contents, Summaries, Unencodable, check_checkpoint, nat_entries, sit_entries};
use zerocopy::{FromZeros, IntoBytes};

/// A rule: the field, what is refused, the message, and a change that breaks it.
struct Rule(&'static str, &'static str, &'static str, Broken);

/// A change that breaks a rule. Each variant names the function that refuses it.
enum Broken {
    /// `RawSuperblock::parse`
    Superblock(fn(&mut RawSuperblock)),
    /// `PackHead::read`: the first end of a pack, or its second.
    End(usize, fn(&mut Block)),
    /// `check_checkpoint`
    Checkpoint(fn(&mut RawCheckpoint, &Geometry)),
    /// `Summaries::check`
    Pack(fn(&mut RawCheckpoint)),
    /// `orphans`
    Orphans(fn(&mut RawOrphanBlock)),
    /// `nat_entries`
    NatJournal(fn(&mut RawNatJournal, &Geometry)),
    /// `sit_entries`
    SitJournal(fn(&mut RawSitJournal, &Geometry)),
    /// `RawSitEntry::parse`
    SitEntry(fn(&mut RawSitEntry)),
    /// `RawSummaryBlock::parse_type`
    Summary(fn(&mut RawSummaryBlock)),
}

const RULES: [Rule; 65] = [
    Rule("magic", "not F2FS", "magic number", Superblock(|sb| sb.magic += 1)),
    Rule(
        "checksum_offset",
        "with `sb_checksum`: not 3068",
        "checksum offset",
        Superblock(|sb| {
            checksummed(sb);
            sb.checksum_offset += 1;
        }),
    ),
    Rule(
        "crc",
        "with `sb_checksum`: not that of the bytes before",
        "checksum",
        Superblock(|sb| {
            checksummed(sb);
            sb.crc += 1;
        }),
    ),
    Rule("log_blocksize", "not 12", "log_blocksize", Superblock(|sb| sb.log_blocksize.set(14))),
    Rule("log_blocks_per_seg", "not 9", "log_blocks_per_seg", Superblock(|sb| sb.log_blocks_per_seg.set(10))),
    Rule("log_sectorsize", "outside 9 to 12", "log_sectorsize", Superblock(|sb| sb.log_sectorsize.set(8))),
    Rule(
        "log_sectors_per_block",
        "with log_sectorsize not 12",
        "log_sectors_per_block",
        Superblock(|sb| {
            sb.log_sectors_per_block.set(9);
        }),
    ),
    Rule("segment_count", "outside 9 to 8388608", "segment_count", Superblock(|sb| sb.segment_count.set(8))),
    Rule(
        "section_count",
        "0, or more than segments of the main area",
        "section_count",
        Superblock(|sb| {
            sb.section_count.set(0);
        }),
    ),
    Rule(
        "segs_per_sec",
        "0, or more than segment_count",
        "segs_per_sec",
        Superblock(|sb| sb.segs_per_sec.set(0)),
    ),
    Rule(
        "segment_count_main",
        "not section_count × segs_per_sec",
        "segment_count_main",
        Superblock(|sb| {
            sb.segment_count_main += 1;
        }),
    ),
    Rule(
        "section_count",
        "more than segment_count / segs_per_sec",
        "section_count against segment_count",
        Superblock(|sb| {
            sb.section_count = sb.segment_count + 1;
            sb.segment_count_main = sb.section_count;
        }),
    ),
    Rule(
        "segment_count",
        "more than block_count / 512",
        "segment_count against block_count",
        Superblock(|sb| {
            sb.block_count.set(512 * 9);
        }),
    ),
    Rule(
        "secs_per_zone",
        "0, or more than section_count",
        "secs_per_zone",
        Superblock(|sb| sb.secs_per_zone.set(0)),
    ),
    Rule("extension_count", "more than 64", "extension_count", Superblock(|sb| sb.extension_count.set(65))),
    Rule(
        "extension_count, hot_ext_count",
        "together more than 64",
        "extension counts",
        Superblock(|sb| {
            sb.extension_count.set(60);
            sb.hot_ext_count = 5;
        }),
    ),
    Rule("cp_payload", "more than 503", "cp_payload", Superblock(|sb| sb.cp_payload.set(504))),
    Rule("node_ino", "not 1", "node_ino", Superblock(|sb| sb.node_ino.set(2))),
    Rule("meta_ino", "not 2", "meta_ino", Superblock(|sb| sb.meta_ino.set(1))),
    Rule("root_ino", "not 3", "root_ino", Superblock(|sb| sb.root_ino.set(4))),
    Rule(
        "devs",
        "segments of the devices do not add up to segment_count",
        "sum of the devices' segments",
        Superblock(|sb| {
            sb.devs[0].path[0] = b'a';
            sb.devs[0].total_segments.set(1);
        }),
    ),
    Rule("cp_blkaddr", "not segment0_blkaddr", "cp_blkaddr", Superblock(|sb| sb.cp_blkaddr += 512)),
    Rule("segment_count_ckpt", "not 2", "segment_count_ckpt", Superblock(|sb| sb.segment_count_ckpt.set(4))),
    Rule(
        "sit_blkaddr",
        "not where the checkpoint area ends",
        "sit_blkaddr",
        Superblock(|sb| sb.sit_blkaddr += 512),
    ),
    Rule("nat_blkaddr", "not where the SIT ends", "nat_blkaddr", Superblock(|sb| sb.nat_blkaddr += 512)),
    Rule("ssa_blkaddr", "not where the NAT ends", "ssa_blkaddr", Superblock(|sb| sb.ssa_blkaddr += 512)),
    Rule("main_blkaddr", "not where the SSA ends", "main_blkaddr", Superblock(|sb| sb.main_blkaddr += 512)),
    Rule(
        "segment_count_main",
        "the main area ends behind segment_count",
        "end of the main area",
        Superblock(|sb| {
            sb.segment_count_main = sb.segment_count;
            sb.section_count = sb.segment_count;
        }),
    ),
    Rule("segment_count_sit", "odd", "segment_count_sit is odd", Superblock(|sb| resized(sb, [1, 0, -1]))),
    Rule("segment_count_nat", "odd", "segment_count_nat is odd", Superblock(|sb| resized(sb, [0, 1, -1]))),
    Rule(
        "segment_count_sit, segment_count_nat",
        "0",
        "empty SIT or NAT area",
        Superblock(|sb| {
            let sit = sb.segment_count_sit.get() as i32;
            resized(sb, [-sit, sit, 0]);
        }),
    ),
    Rule(
        "segment_count_sit",
        "less than an entry for each segment",
        "SIT area too small",
        Superblock(|sb| {
            sb.segment_count.set(2_000_000);
            sb.block_count.set(2_000_000 * 512 + 512);
            sb.segment_count_main.set(1_000_000);
            sb.section_count.set(1_000_000);
        }),
    ),
    Rule(
        "segment_count_ssa",
        "less than a block for each segment, unless `ro` or `packed_ssa`",
        "SSA area too small",
        Superblock(|sb| {
            sb.segment_count.set(200_000);
            sb.block_count.set(200_000 * 512 + 512);
            sb.segment_count_main.set(20_000);
            sb.section_count.set(20_000);
        }),
    ),
    Rule(
        "checksum_offset",
        "outside 192 to 4092",
        "checksum offset",
        End(0, |end| {
            end.view_mut::<RawCheckpoint>().checksum_offset.set(188);
        }),
    ),
    Rule("checksum", "not that of the block", "checksum", End(0, |end| end.0[0] ^= 1)),
    Rule(
        "cp_pack_total_block_count",
        "outside 3 to 512",
        "cp_pack_total_block_count",
        End(0, |end| {
            end.view_mut::<RawCheckpoint>().cp_pack_total_block_count.set(2);
            RawCheckpoint::seal(end);
        }),
    ),
    Rule(
        "checkpoint_ver",
        "other at the end of the pack",
        "version at the end of the pack",
        End(1, |end| {
            end.view_mut::<RawCheckpoint>().checkpoint_ver += 1;
            RawCheckpoint::seal(end);
        }),
    ),
    Rule(
        "checksum",
        "other at the end of the pack",
        "checksum at the end of the pack",
        End(1, |end| {
            end.view_mut::<RawCheckpoint>().elapsed_time += 1;
            RawCheckpoint::seal(end);
        }),
    ),
    Rule(
        "rsvd_segment_count",
        "with the metadata as many as segment_count",
        "reserved segments",
        Checkpoint(|cp, geo| {
            cp.rsvd_segment_count.set(geo.segment_count);
        }),
    ),
    Rule(
        "rsvd_segment_count",
        "0, unless `ro`",
        "reserved or overprovision segments are 0",
        Checkpoint(|cp, _| {
            cp.rsvd_segment_count.set(0);
        }),
    ),
    Rule(
        "overprov_segment_count",
        "0, unless `ro`",
        "reserved or overprovision segments are 0",
        Checkpoint(|cp, _| {
            cp.overprov_segment_count.set(0);
        }),
    ),
    Rule("user_block_count", "0", "user_block_count", Checkpoint(|cp, _| cp.user_block_count.set(0))),
    Rule(
        "user_block_count",
        "all blocks of the main area, unless `ro`",
        "user_block_count",
        Checkpoint(|cp, geo| {
            cp.user_block_count.set(geo.main_blocks());
        }),
    ),
    Rule(
        "valid_block_count",
        "more than user_block_count",
        "valid_block_count",
        Checkpoint(|cp, _| {
            cp.valid_block_count.set(cp.user_block_count.get() + 1);
        }),
    ),
    Rule(
        "valid_node_count",
        "more than nids",
        "valid_node_count",
        Checkpoint(|cp, geo| {
            cp.valid_node_count.set(geo.max_nid() - 2);
        }),
    ),
    Rule(
        "cur_node_segno, cur_data_segno",
        "outside the main area",
        "segment of a log",
        Checkpoint(|cp, geo| {
            moved(cp, |p| p.seg = SegNo(geo.segment_count_main));
        }),
    ),
    Rule(
        "cur_node_segno, cur_data_segno",
        "no segment",
        "segment of a log",
        Checkpoint(|cp, _| moved(cp, |p| p.seg = SegNo::NONE)),
    ),
    Rule(
        "cur_node_blkoff, cur_data_blkoff",
        "more than 511",
        "offset of a log",
        Checkpoint(|cp, _| moved(cp, |p| p.blkoff = 512)),
    ),
    Rule(
        "cur_node_segno, cur_data_segno",
        "that of another log",
        "two logs in one segment",
        Checkpoint(|cp, _| {
            let seg = cp.position(LogType::HotData).seg;
            moved(cp, |p| p.seg = seg);
        }),
    ),
    Rule("alloc_type", "more than 1", "alloc_type", Checkpoint(|cp, _| moved(cp, |p| p.alloc_type = 2))),
    Rule(
        "sit_ver_bitmap_bytesize",
        "not a bit for each SIT block",
        "sit_ver_bitmap_bytesize",
        Checkpoint(|cp, _| {
            cp.sit_ver_bitmap_bytesize += 1;
        }),
    ),
    Rule(
        "nat_ver_bitmap_bytesize",
        "not a bit for each NAT block",
        "nat_ver_bitmap_bytesize",
        Checkpoint(|cp, _| {
            cp.nat_ver_bitmap_bytesize.set(0);
        }),
    ),
    Rule(
        "cp_pack_start_sum",
        "within the payload",
        "cp_pack_start_sum",
        Checkpoint(|cp, _| cp.cp_pack_start_sum.set(0)),
    ),
    Rule(
        "cp_pack_start_sum",
        "more than 505",
        "cp_pack_start_sum",
        Checkpoint(|cp, _| cp.cp_pack_start_sum.set(506)),
    ),
    Rule(
        "checksum_offset",
        "with `CP_LARGE_NAT_BITMAP_FLAG`: not 192",
        "checksum offset of the large_nat_bitmap layout",
        Checkpoint(|cp, _| {
            cp.ckpt_flags.set((cp.flags() | CpFlags::LARGE_NAT_BITMAP).bits());
        }),
    ),
    Rule(
        "ckpt_flags",
        "`CP_ERROR_FLAG`",
        "the volume stopped on an error; run a check first",
        Checkpoint(|cp, _| {
            cp.ckpt_flags.set((cp.flags() | CpFlags::ERROR).bits());
        }),
    ),
    Rule(
        "cp_pack_start_sum, cp_pack_total_block_count",
        "no room for the summaries that the flags tell of",
        "summaries beyond the end of the pack",
        Pack(|cp| {
            cp.cp_pack_start_sum.set(400);
        }),
    ),
    Rule(
        "entry_count",
        "more than 1020",
        "entry count",
        Orphans(|orphans| orphans.footer.entry_count.set(1021)),
    ),
    Rule("n_nats", "more than 38", "entry count", NatJournal(|journal, _| journal.count.set(39))),
    Rule(
        "nid",
        "0, or none that the NAT has",
        "nid",
        NatJournal(|journal, geo| {
            journal.count.set(1);
            journal.entries[0].nid.set(geo.max_nid());
        }),
    ),
    Rule("n_sits", "more than 6", "entry count", SitJournal(|journal, _| journal.count.set(7))),
    Rule(
        "segno",
        "outside the main area",
        "segment number",
        SitJournal(|journal, geo| {
            journal.count.set(1);
            journal.entries[0].segno.set(geo.segment_count_main);
        }),
    ),
    Rule(
        "vblocks",
        "count is not that of valid_map",
        "valid block count differs from the bitmap",
        SitEntry(|entry| {
            entry.valid_map[3] = 1;
        }),
    ),
    Rule("vblocks", "type more than 5", "segment type", SitEntry(|entry| entry.vblocks.set(6 << 10))),
    Rule("entry_type", "more than 1", "entry type", Summary(|summary| summary.entry_type = 2)),
];

fn checksummed(sb: &mut RawSuperblock) {
    sb.feature.set(sb.feature.get() | Features::SB_CHKSUM.bits());
    sb.checksum_offset.set(3068);
    sb.crc.set(sb.checksum());
    sb.parse(0).unwrap();
}

/// Moves segments between SIT, NAT and SSA; the areas follow each other as before.
fn resized(sb: &mut RawSuperblock, by: [i32; 3]) {
    let mut start = sb.sit_blkaddr.get();
    let counts = [&mut sb.segment_count_sit, &mut sb.segment_count_nat, &mut sb.segment_count_ssa];
    let mut ends = [0; 3];
    for ((count, by), end) in counts.into_iter().zip(by).zip(&mut ends) {
        count.set(count.get().checked_add_signed(by).unwrap());
        start += count.get() * 512;
        *end = start;
    }
    sb.nat_blkaddr.set(ends[0]);
    sb.ssa_blkaddr.set(ends[1]);
    sb.main_blkaddr.set(ends[2]);
}

fn moved(cp: &mut RawCheckpoint, change: impl FnOnce(&mut LogPosition)) {
    let mut position = cp.position(LogType::WarmNode);
    change(&mut position);
    cp.set_position(&position);
}

impl Broken {
    /// The structure, the function that checks it, and the damage that this reports for the change. Without
    /// the change it must report none.
    fn judged(&self) -> (&'static str, &'static str, Option<Corrupt>) {
        let (device, sb) = volume(false);
        let dyn_device = &*device as &dyn BlockDevice;
        let geo = sb.geo;
        let pack = || segno_layout::Pack::in_force(dyn_device, &geo).unwrap().unwrap();
        match self {
            Superblock(change) => {
                let mut raw = sb.raw;
                raw.parse(0).unwrap();
                change(&mut raw);
                ("superblock", "RawSuperblock::parse", raw.parse(0).err())
            }
            End(which, change) => {
                let start = geo.pack_addr(0);
                let ends = [start, start.offset(pack().blocks.len() as u32 - 1)];
                let mut block = dyn_device.block(ends[*which]).unwrap();
                change(&mut block);
                device.write(ends[*which].0.into(), &[&block]).unwrap();
                let head = PackHead::read(start, |at| dyn_device.block(at)).unwrap();
                ("ends of a pack", "PackHead::read", head.err())
            }
            Checkpoint(change) => {
                let pack = pack();
                let judge = |block: &Block| check_checkpoint(block.view(), &geo, pack.start);
                judge(pack.header()).unwrap();
                let mut block = pack.header().clone();
                change(block.view_mut(), &geo);
                let damage = judge(&block).err();
                assert_not_encoded(&block, &geo, damage.as_ref());
                ("checkpoint block", "check_checkpoint", damage)
            }
            Pack(change) => {
                let mut pack = pack();
                Summaries::load(&pack).check(&pack).unwrap();
                change(pack.blocks[0].view_mut());
                ("pack", "Summaries::check", Summaries::load(&pack).check(&pack).err())
            }
            Orphans(change) => {
                let mut block = Block::zeroed();
                change(block.view_mut());
                ("orphan block", "orphans", orphans(&block.0, 0).err())
            }
            NatJournal(change) => {
                let mut journal = RawNatJournal::new_zeroed();
                change(&mut journal, &geo);
                ("NAT journal", "nat_entries", nat_entries(&Journal::decode(journal.as_bytes()), &geo).err())
            }
            SitJournal(change) => {
                let mut journal = RawSitJournal::new_zeroed();
                change(&mut journal, &geo);
                ("SIT journal", "sit_entries", sit_entries(&Journal::decode(journal.as_bytes()), &geo).err())
            }
            SitEntry(change) => {
                let mut entry = RawSitEntry::new_zeroed();
                change(&mut entry);
                ("SIT entry", "RawSitEntry::parse", entry.parse(SegNo(5)).err())
            }
            Summary(change) => {
                let mut block = Block::zeroed();
                change(block.view_mut());
                let summary: &RawSummaryBlock = block.view();
                (
                    "summary block",
                    "RawSummaryBlock::parse_type",
                    summary.parse_type(BlockAddr(0).0.into()).err(),
                )
            }
        }
    }
}

/// A checkpoint block that a mount refuses is not encoded either, unless the fault is in what encoding sets.
fn assert_not_encoded(header: &Block, geo: &Geometry, damage: Option<&Corrupt>) {
    const SET: [&str; 3] = ["sit_ver_bitmap_bytesize", "nat_ver_bitmap_bytesize", "cp_pack_start_sum"];
    let summaries = LogType::ALL.map(|log| RawSummaryBlock::empty(log.summary_type()));
    let [d0, d1, d2, n0, n1, n2] = &summaries;
    let contents = Contents {
        header,
        sit_bitmap: &vec![0; geo.sit_bitmap_bytes()],
        nat_bitmap: &vec![0; geo.nat_bitmap_bytes()],
        orphans: &[],
        data: [d0, d1, d2],
        compact: false,
        nodes: Some([n0, n1, n2]),
        nat: &[],
        sit: &[],
        kbytes_written: 0,
    };
    let refused = match contents.encode(geo, RawCheckpoint::seal) {
        Ok(_) => None,
        Err(Unencodable::Impossible(e)) => Some(e.why),
        Err(e) => panic!("{e}"),
    };
    assert_eq!(refused, damage.map(|e| e.why).filter(|why| !SET.contains(why)));
}

#[test]
fn each_rule_is_broken_by_its_change_and_stands_in_the_document() {
    let mut table =
        vec!["| structure | field | refused | by | message |".to_owned(), "|---|---|---|---|---|".to_owned()];
    for Rule(field, refused, message, broken) in &RULES {
        let (structure, by, damage) = broken.judged();
        let said = damage.unwrap_or_else(|| panic!("{structure}, {field}: {refused} is not refused")).why;
        assert_eq!(said, *message, "{structure}, {field}: {refused}");
        let fields: Vec<_> = field.split(", ").map(|field| format!("`{field}`")).collect();
        table.push(format!("| {structure} | {} | {refused} | `{by}` | {message} |", fields.join(", ")));
    }
    let document = include_str!("../../../../docs/format.md");
    let shown: Vec<_> = document.lines().skip_while(|line| *line != table[0]).take(table.len()).collect();
    assert!(shown == table, "docs/format.md needs this table:\n{}", table.join("\n"));
}
