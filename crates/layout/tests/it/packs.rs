//! Packs are read as they were encoded.
use super::{Blocks, volume, volumes};
use segno_device::{BlockDevice, MemDevice};
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use segno_format::nat::{RawNatEntry, RawNatJournalEntry};
use segno_format::sit::{LogType, RawSitEntry, RawSitJournalEntry};
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::superblock::Superblock;
use segno_format::{Block, BlockAddr, Geometry, Ino, Nid, SegNo};
use segno_layout::{
    Contents, Encoded, Pack, Packs, Reader, Summaries, Unencodable, certain, check_follows, readable_pack,
};
use zerocopy::IntoBytes;

/// Contents of a pack of the tests.
struct PackSpec {
    orphans: Vec<Ino>,
    /// Blocks written in the segment of each data log.
    used: [u16; 3],
    nodes: bool,
    /// Bytes of the SIT bitmap; those of the geometry if it is 0.
    bitmap_bytes: usize,
}

/// The pack in force on a new volume, whose logs are in six segments.
fn header<R: Reader<Error: std::fmt::Debug> + ?Sized>(reader: &R, geo: &Geometry, spec: &PackSpec) -> Block {
    let pack = Pack::in_force(reader, geo).unwrap().unwrap();
    let mut block = pack.header().clone();
    let cp: &mut RawCheckpoint = block.view_mut();
    cp.checkpoint_ver.set(pack.version() + 1);
    let mut flags = cp.flags() - CpFlags::NAT_BITS;
    flags.set(CpFlags::UMOUNT, spec.nodes);
    cp.ckpt_flags.set(flags.bits());
    for (log, used) in [LogType::HotData, LogType::WarmData, LogType::ColdData].into_iter().zip(spec.used) {
        let position = cp.position(log);
        cp.set_position(&segno_format::checkpoint::LogPosition { blkoff: used, ..position });
    }
    block
}

fn summary(kind: SummaryType, first: u32) -> RawSummaryBlock {
    let mut block = RawSummaryBlock::empty(kind);
    for (i, entry) in (first..).zip(block.entries.iter_mut()) {
        *entry =
            if kind == SummaryType::Node { RawSummary::node(Nid(i)) } else { RawSummary::data(Nid(i), 3, 4) };
    }
    block
}

/// The units of a pack.
fn encode<R: Reader<Error: std::fmt::Debug> + ?Sized>(
    reader: &R,
    geo: &Geometry,
    spec: &PackSpec,
) -> Result<Vec<Block>, Unencodable> {
    let header = header(reader, geo, spec);
    let sums = [10u32, 1000, 2000, 3000, 4000, 5000].into_iter().zip(LogType::ALL);
    let sums: Vec<_> = sums.map(|(first, log)| summary(log.summary_type(), first)).collect();
    let bytes = if spec.bitmap_bytes == 0 { geo.sit_bitmap_bytes() } else { spec.bitmap_bytes };
    let mut sit_bitmap = vec![0; bytes];
    let mut nat_bitmap = vec![0; geo.nat_bitmap_bytes()];
    sit_bitmap[0] = 0x80;
    *nat_bitmap.last_mut().unwrap() = 1;
    let contents = Contents {
        header: &header,
        sit_bitmap: &sit_bitmap,
        nat_bitmap: &nat_bitmap,
        orphans: &spec.orphans,
        data: [&sums[0], &sums[1], &sums[2]],
        compact: true,
        nodes: spec.nodes.then(|| [&sums[3], &sums[4], &sums[5]]),
        nat: &[RawNatJournalEntry::new(Nid(77), RawNatEntry::new(1, Ino(77), BlockAddr(9999)))],
        sit: &[RawSitJournalEntry::new(SegNo(2), RawSitEntry::new(LogType::ColdData, 0, &[0; 64], 55))],
        kbytes_written: 123_456,
    };
    let Encoded { mut blocks, .. } = contents.encode(geo, RawCheckpoint::seal)?;
    let first = blocks[..geo.units() as usize].to_vec();
    blocks.extend(first);
    Ok(blocks)
}

/// Encodes a pack into the place of the older one.
fn write(device: &MemDevice, sb: &Superblock, spec: &PackSpec) -> Result<(), Unencodable> {
    let blocks = encode(device as &dyn BlockDevice, &sb.geo, spec)?;
    device.write(sb.geo.pack_addr(1).0.into(), &blocks.iter().collect::<Vec<_>>()).unwrap();
    Ok(())
}

/// Encodes a pack into the place of the older one, and reads it again.
fn assert_reads_as_encoded(name: &str, mut volume: Blocks, geo: &Geometry, spec: &PackSpec, blocks: usize) {
    let name = format!("{name}: {} orphans, {:?}, {}", spec.orphans.len(), spec.used, spec.nodes);
    let old = certain(Packs::load(&volume, geo)).newer().unwrap();
    let units = encode(&volume, geo, spec).unwrap();
    let at = geo.unit(geo.pack_addr(1 - old)).0;
    volume.0.extend((at..).zip(units));
    assert_eq!(certain(Packs::load(&volume, geo)).newer(), Some(1 - old), "{name}");
    let pack = certain(Pack::in_force(&volume, geo)).unwrap();
    let expected = (blocks + geo.cp_payload as usize) * geo.units() as usize;
    assert_eq!(pack.blocks.len(), expected, "{name}");
    assert!(pack.is_readable(geo), "{name}");
    assert!(pack.sit_copy(0) && !pack.sit_copy(1), "{name}");
    assert_eq!(pack.nat_bitmap(geo).unwrap().last(), Some(&1), "{name}");
    assert_eq!(pack.orphans().flat_map(Result::unwrap).collect::<Vec<_>>(), spec.orphans, "{name}");
    let summaries = Summaries::load(&pack);
    summaries.check(&pack).unwrap();
    assert_eq!(summaries.nat_journal()[0].nid.get(), 77, "{name}");
    assert_eq!(summaries.sit_journal()[0].entry.mtime.get(), 55, "{name}");
    assert_eq!(summaries.kbytes_written(), if spec.nodes { 123_456 } else { 0 }, "{name}");
    for ((log, first), used) in LogType::ALL.into_iter().zip([10, 1000, 2000]).zip(spec.used) {
        let stored = summaries.of(log).unwrap();
        let expected = summary(SummaryType::Data, first);
        let used = usize::from(used);
        assert_eq!(stored.entries[..used].as_bytes(), expected.entries[..used].as_bytes(), "{name}");
    }
    assert_eq!(summaries.of(LogType::HotNode).is_some(), spec.nodes, "{name}");
}

/// Orphans, blocks used in the segments of the data logs, whether node summaries are stored, and the blocks
/// of the pack without payload.
type Case = (u32, [u16; 3], bool, usize);

#[test]
fn a_pack_is_read_as_it_was_encoded() {
    let two_blocks = [239, 400, 3];
    let not_compact = [511, 511, 511];
    let small: [Case; 5] = [
        (0, [5, 6, 7], false, 3),
        (1, two_blocks, true, 1 + 1 + 2 + 3 + 1),
        (2040, not_compact, true, 1 + 2 + 3 + 3 + 1),
        (1021, two_blocks, false, 1 + 2 + 2 + 1),
        (0, [0, 0, 0], true, 1 + 1 + 3 + 1),
    ];
    // All entries fit into one block.
    let large: [Case; 3] = [
        (0, not_compact, false, 3),
        (4092, not_compact, true, 1 + 1 + 1 + 3 + 1),
        (4093, two_blocks, false, 5),
    ];
    let mut runs = 0;
    for (name, blocks, sb) in volumes() {
        for &(orphans, used, nodes, count) in if sb.geo.units() == 1 { &small[..] } else { &large } {
            let orphans = (0..orphans).map(|i| Ino(i + 500)).collect();
            let spec = PackSpec { orphans, used, nodes, bitmap_bytes: 0 };
            assert_reads_as_encoded(name, blocks.clone(), &sb.geo, &spec, count);
            runs += 1;
        }
    }
    assert_eq!(runs, 5 + 2 * 3);
}

#[test]
fn a_pack_with_bitmaps_in_its_payload_is_read_as_it_was_encoded() {
    let (device, sb) = volume(true);
    for (orphans, nodes) in [(1021, false), (0, true)] {
        let orphans = (0..orphans).map(|i| Ino(i + 500)).collect();
        let spec = PackSpec { orphans, used: [239, 400, 3], nodes, bitmap_bytes: 0 };
        write(&device, &sb, &spec).unwrap();
        let pack = Pack::in_force(&*device as &dyn BlockDevice, &sb.geo).unwrap().unwrap();
        assert!(pack.index == 1 && pack.is_readable(&sb.geo) && pack.sit_copy(0) && !pack.sit_copy(1));
        assert_eq!(pack.nat_bitmap(&sb.geo).unwrap().last(), Some(&1));
        assert_eq!(pack.orphans().flat_map(Result::unwrap).collect::<Vec<_>>(), spec.orphans);
    }
}

/// A device on which one block cannot be read.
struct Failing<'a>(&'a MemDevice, BlockAddr);

impl Reader for Failing<'_> {
    type Error = BlockAddr;

    fn end(&self) -> u32 {
        self.0.block_count() as u32
    }

    fn read_block(&self, at: BlockAddr) -> Result<Option<Block>, BlockAddr> {
        if at == self.1 { Err(at) } else { Ok((self.0 as &dyn BlockDevice).block(at).ok()) }
    }
}

#[test]
fn a_mount_does_not_depend_on_what_is_inside_the_older_pack() {
    let (device, sb) = volume(false);
    write(&device, &sb, &PackSpec { orphans: vec![], used: [1, 2, 3], nodes: true, bitmap_bytes: 0 })
        .unwrap();
    let [older, newer] = [0, 1].map(|pack| sb.geo.pack_addr(pack));
    let in_force =
        |failing| Pack::in_force(&Failing(&device, failing), &sb.geo).map(|pack| pack.unwrap().index);
    assert_eq!(in_force(older.offset(1)), Ok(1));
    assert_eq!(in_force(newer.offset(1)), Err(newer.offset(1)));
    // It may be the newer one.
    assert_eq!(in_force(older), Err(older));
}

#[test]
fn more_orphans_than_a_pack_holds_are_refused() {
    let (device, sb) = volume(false);
    let spec = |orphans: u32| PackSpec {
        orphans: (0..orphans).map(|i| Ino(i + 3)).collect(),
        used: [0; 3],
        nodes: true,
        bitmap_bytes: 0,
    };
    let most = (512 - 1 - 1 - 3 - 1) * 1020;
    assert!(matches!(write(&device, &sb, &spec(most + 1)), Err(Unencodable::TooLong)));
}

#[test]
fn a_pack_that_no_mount_would_use_is_not_encoded() {
    let (device, sb) = volume(false);
    let result =
        write(&device, &sb, &PackSpec { orphans: vec![], used: [512, 0, 0], nodes: false, bitmap_bytes: 0 });
    assert!(matches!(result, Err(Unencodable::Impossible(e)) if e.why == "offset of a log"));
}

#[test]
fn version_bitmaps_that_do_not_fit_are_neither_encoded_nor_read() {
    let (device, sb) = volume(false);
    let pack = Pack::in_force(&*device as &dyn BlockDevice, &sb.geo).unwrap().unwrap();
    let large = Geometry { segment_count_sit: 2 * 64, ..sb.geo };
    assert!(pack.sit_bitmap(&sb.geo).is_ok());
    assert_eq!(pack.sit_bitmap(&large).unwrap_err().why, "version bitmap does not fit in the pack");
    let mut spec = PackSpec { orphans: vec![], used: [1, 2, 3], nodes: false, bitmap_bytes: 0 };
    write(&device, &sb, &spec).unwrap();
    spec.bitmap_bytes = large.sit_bitmap_bytes();
    assert!(matches!(write(&device, &sb, &spec), Err(Unencodable::Misfit)));
}

#[test]
fn version_bitmaps_of_another_size_are_not_encoded() {
    let (device, sb) = volume(false);
    let spec = PackSpec { orphans: vec![], used: [1, 2, 3], nodes: false, bitmap_bytes: 0 };
    let header = header(&*device as &dyn BlockDevice, &sb.geo, &spec);
    let data = summary(SummaryType::Data, 0);
    let refused = |sit_more: usize, nat_more: usize| {
        let contents = Contents {
            header: &header,
            sit_bitmap: &vec![0; sb.geo.sit_bitmap_bytes() + sit_more],
            nat_bitmap: &vec![0; sb.geo.nat_bitmap_bytes() + nat_more],
            orphans: &[],
            data: [&data; 3],
            compact: true,
            nodes: None,
            nat: &[],
            sit: &[],
            kbytes_written: 0,
        };
        match contents.encode(&sb.geo, RawCheckpoint::seal) {
            Ok(_) => None,
            Err(Unencodable::Impossible(e)) => Some(e.why),
            Err(e) => panic!("{e}"),
        }
    };
    assert_eq!(refused(0, 0), None);
    assert_eq!(refused(1, 0), Some("sit_ver_bitmap_bytesize"));
    assert_eq!(refused(0, 1), Some("nat_ver_bitmap_bytesize"));
}

#[test]
fn a_checkpoint_follows_another_one_of_the_volume() {
    let (device, sb) = volume(false);
    let pack = Pack::in_force(&*device as &dyn BlockDevice, &sb.geo).unwrap().unwrap();
    let spec = PackSpec { orphans: vec![], used: [1, 2, 3], nodes: false, bitmap_bytes: 0 };
    let next = header(&*device as &dyn BlockDevice, &sb.geo, &spec);
    let follows = |block: &Block| check_follows(block.view(), pack.cp(), pack.start);
    follows(&next).unwrap();
    let cases: [(&str, fn(&mut RawCheckpoint)); 6] = [
        ("checkpoint_ver", |cp| cp.checkpoint_ver += 1),
        ("user_block_count", |cp| cp.user_block_count += 1),
        ("rsvd_segment_count", |cp| cp.rsvd_segment_count += 1),
        ("overprov_segment_count", |cp| cp.overprov_segment_count += 1),
        ("checksum_offset", |cp| cp.checksum_offset.set(192)),
        ("large_nat_bitmap", |cp| cp.ckpt_flags.set(cp.ckpt_flags.get() | CpFlags::LARGE_NAT_BITMAP.bits())),
    ];
    for (why, change) in cases {
        let mut block = next.clone();
        change(block.view_mut());
        assert_eq!(follows(&block).unwrap_err().why, why);
    }
}

#[test]
fn the_older_pack_is_next_where_the_newer_one_says_nothing() {
    let (device, sb) = volume(false);
    let dyn_device = &*device as &dyn BlockDevice;
    write(&device, &sb, &PackSpec { orphans: vec![], used: [1, 2, 3], nodes: false, bitmap_bytes: 0 })
        .unwrap();
    assert_eq!(readable_pack(dyn_device).unwrap().unwrap().1.index, 1);
    // The summaries begin beyond the end of the pack; the checksum is right.
    for at in [0, 2] {
        let addr = sb.geo.pack_addr(1).offset(at);
        let mut block = dyn_device.block(addr).unwrap();
        block.view_mut::<RawCheckpoint>().cp_pack_start_sum.set(100);
        RawCheckpoint::seal(&mut block);
        device.write(addr.0.into(), &[&block]).unwrap();
    }
    assert_eq!(Packs::load(dyn_device, &sb.geo).unwrap().newer(), Some(1));
    assert_eq!(readable_pack(dyn_device).unwrap().unwrap().1.index, 0);
    device.write(sb.geo.pack_addr(0).0.into(), &[&Block::zeroed()]).unwrap();
    assert!(readable_pack(dyn_device).unwrap().is_none());
}
