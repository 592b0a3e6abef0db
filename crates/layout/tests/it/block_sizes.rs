//! A volume with blocks of 16 KiB, as f2fs-tools made it and as its dump.f2fs shows it.
use super::large_blocks;
use flate2::read::ZlibDecoder;
use segno_format::sit::LogType;
use segno_format::summary::{SummaryLayout, SummaryType};
use segno_format::{Block, BlockAddr, Nid, SegNo};
use segno_layout::{
    Contents, Nat, NatState, Pack, Packs, Sit, Ssa, Summaries, Superblocks, certain, nat_bits, nat_block,
    sit_block,
};
use std::collections::BTreeMap;
use std::io::Read;
use zerocopy::IntoBytes;

/// Output of dump.f2fs for both volumes: `nat NID INO ADDRESS`, `sit SEGMENT TYPE BLOCKS`,
/// `ssa SEGMENT OFFSET KIND NID`.
fn dumped(kind: &str) -> Vec<Vec<String>> {
    let mut text = String::new();
    ZlibDecoder::new(&include_bytes!("../volumes/16k.txt.z")[..]).read_to_string(&mut text).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    rows.map(|row| row.split(' ').map(str::to_owned).collect()).collect()
}

fn number(text: &str) -> u32 {
    text.parse().unwrap()
}

#[test]
fn structures_have_their_places_at_each_size_of_a_block() {
    // Block, summary; journal at, its bytes, type at; entries of the compacted form in its first and in each
    // other block.
    let facts = [
        (4096, 4096, 3584, 507, 4091, (439, 584)),
        (8192, 8192, 7168, 1019, 8187, (878, 1169)),
        (16384, 16384, 14336, 2043, 16379, (1756, 2339)),
        (32768, 32768, 28672, 4091, 32763, (3511, 4680)),
        (65536, 65536, 57344, 8187, 65531, (7022, 9361)),
        (8192, 4096, 3584, 507, 4091, (1024, 1169)),
        (16384, 4096, 3584, 507, 4091, (2195, 2339)),
        (65536, 4096, 3584, 507, 4091, (9216, 9361)),
    ];
    for (block, summary, journal_at, journal_bytes, type_at, compact) in facts {
        let layout = SummaryLayout { block, summary };
        let found = (layout.journal_at(), layout.journal_bytes(), layout.type_at(), layout.compact_entries());
        assert_eq!(found, (journal_at, journal_bytes, type_at, compact), "{block} {summary}");
        let (first, next) = compact;
        assert_eq!(layout.compact_at(0), 2 * journal_bytes, "{block} {summary}");
        assert_eq!(layout.compact_at(first), block, "{block} {summary}");
        assert_eq!(layout.compact_at(first + next - 1), block + (next - 1) * 7, "{block} {summary}");
    }
    for (name, _, sb) in large_blocks() {
        let geo = sb.geo;
        assert_eq!((geo.units(), geo.nat_per_block(), geo.sit_per_block()), (4, 1820, 221), "{name}");
    }
}

#[test]
fn tables_are_as_dump_f2fs_shows_them() {
    for (name, blocks, sb) in large_blocks() {
        let geo = sb.geo;
        let pack = certain(Pack::in_force(&blocks, &geo)).unwrap();
        let summaries = Summaries::load(&pack);
        summaries.check(&pack).unwrap();
        let nat = certain(Nat::load(&blocks, &geo, &pack, &summaries));
        let rows = dumped("nat");
        assert!(rows.len() > 1820, "{name}: more than one block");
        for row in &rows {
            let (nid, ino, addr) = (Nid(number(&row[0])), number(&row[1]), BlockAddr(number(&row[2])));
            let NatState::Used(entry) = nat.get(nid) else { panic!("{name}: {nid} is not in use") };
            assert_eq!((entry.ino.get(), entry.addr()), (ino, addr), "{name}: {nid}");
        }
        assert_eq!(nat.in_use().count(), rows.len(), "{name}");
        let sit = certain(Sit::load(&blocks, &geo, &pack, &summaries));
        let rows = dumped("sit");
        assert!(rows.len() > 221 && rows.len() == geo.segment_count_main as usize, "{name}");
        for row in &rows {
            let seg = SegNo(number(&row[0]));
            let found = sit.log(seg).map(|log| (log as u32, u32::from(sit.count(seg))));
            assert_eq!(found, Some((number(&row[1]), number(&row[2]))), "{name}: {seg}");
        }
        let owners: BTreeMap<_, _> = dumped("ssa")
            .into_iter()
            .map(|row| {
                let at = geo.seg_start(SegNo(number(&row[0]))).offset(number(&row[1]));
                let kind = if row[2] == "node" { SummaryType::Node } else { SummaryType::Data };
                (at, (kind, number(&row[3])))
            })
            .collect();
        let ssa = Ssa::new(&blocks, geo, Some((&pack, &summaries)));
        let mut found = BTreeMap::new();
        for seg in geo.segments() {
            for at in (0..512).map(|off| geo.seg_start(seg).offset(off)) {
                if let Some(owner) = certain(ssa.owner(at)) {
                    found.insert(at, (owner.kind, owner.entry.nid.get()));
                }
            }
        }
        assert_eq!(found.len(), owners.len(), "{name}");
        assert!(found == owners, "{name}");
        println!("{name}: {} nids, {} segments, {} owners", nat.in_use().count(), rows.len(), owners.len());
    }
}

#[test]
fn tables_are_encoded_as_f2fs_tools_do() {
    for (name, blocks, sb) in large_blocks() {
        let geo = sb.geo;
        let pack = certain(Pack::in_force(&blocks, &geo)).unwrap();
        let summaries = Summaries::load(&pack);
        let stored = |at: BlockAddr| -> Vec<u8> {
            let units = (0..geo.units()).map(|i| &blocks.0[&geo.unit(at).offset(i).0]);
            units.flat_map(|unit| unit.0).collect()
        };
        let nat = certain(Nat::load(&blocks, &geo, &pack, &summaries));
        for b in 0..geo.nat_blocks() {
            let block = nat_block(vec![0; 16384], b, |nid| nat.entry(nid));
            assert!(block == stored(geo.nat_addr(b, pack.nat_copy(b))), "{name}: NAT block {b}");
        }
        let sit = certain(Sit::load(&blocks, &geo, &pack, &summaries));
        for b in 0..geo.sit_blocks() {
            let block = sit_block(vec![0; 16384], &geo, b, |seg| sit.get(seg).unwrap());
            assert!(block == stored(geo.sit_addr(b, pack.sit_copy(b))), "{name}: SIT block {b}");
        }
        let used = |b: u32| {
            let nids = b * geo.nat_per_block()..(b + 1) * geo.nat_per_block();
            nids.filter(|&nid| nid == 0 || nat.entry(Nid(nid)).block_addr.get() != 0).count() as u32
        };
        let bits = nat_bits(&geo, pack.version(), pack.crc, used);
        let at = geo.unit(pack.start.offset(512)).0 - bits.len() as u32;
        assert!((at..).zip(&bits).all(|(unit, bits)| blocks.0[&unit].0 == bits.0), "{name}: nat_bits");
    }
}

#[test]
fn a_pack_is_encoded_as_f2fs_tools_do() {
    for (name, blocks, sb) in large_blocks() {
        let geo = sb.geo;
        let pack = certain(Pack::in_force(&blocks, &geo)).unwrap();
        let summaries = Summaries::load(&pack);
        let [d0, d1, d2, n0, n1, n2] = LogType::ALL.map(|log| summaries.of(log).unwrap());
        let contents = Contents {
            header: pack.header(),
            sit_bitmap: pack.sit_bitmap(&geo).unwrap(),
            nat_bitmap: pack.nat_bitmap(&geo).unwrap(),
            orphans: &[],
            data: [d0, d1, d2],
            compact: pack.flags().contains(segno_format::checkpoint::CpFlags::COMPACT_SUM),
            nodes: Some([n0, n1, n2]),
            nat: summaries.nat_journal(),
            sit: summaries.sit_journal(),
            kbytes_written: summaries.kbytes_written(),
        };
        let encoded = contents.encode(&geo, segno_format::checkpoint::RawCheckpoint::seal).unwrap();
        assert_eq!(encoded.crc, pack.crc, "{name}");
        let mut stored = pack.blocks[..encoded.blocks.len()].to_vec();
        // The bytes after the entries in use are undefined.
        let journal = geo.summary_layout().journal_at()..geo.summary_layout().type_at();
        for (i, used) in [(1, summaries.nat.count * 13), (3, summaries.sit.count * 78)] {
            let at = i * geo.block_size as usize + journal.start + 2 + usize::from(used);
            let end = i * geo.block_size as usize + journal.end;
            stored.as_mut_bytes()[at..end].fill(0);
        }
        for (i, (ours, theirs)) in encoded.blocks.iter().zip(&stored).enumerate() {
            let differs = ours.0.iter().zip(theirs.0).position(|(a, b)| *a != b);
            assert_eq!(differs, None, "{name}: unit {i} of the pack");
        }
    }
}

#[test]
fn the_second_superblock_is_found_without_the_first() {
    for (name, mut blocks, sb) in large_blocks() {
        blocks.0.insert(0, Block::zeroed());
        let copies = certain(Superblocks::load_any_block_size(&blocks));
        let [first, second] = &copies.parsed;
        assert!(first.is_err(), "{name}");
        assert_eq!(second.as_ref().unwrap().geo, sb.geo, "{name}");
        assert!(certain(Superblocks::load(&blocks)).in_force().is_none(), "{name}: not of 4096 bytes");
        assert_eq!(certain(Packs::load(&blocks, &sb.geo)).newer(), Some(0), "{name}");
        assert_eq!(copies.raw()[1].unwrap().as_bytes(), sb.raw.as_bytes(), "{name}");
    }
}
