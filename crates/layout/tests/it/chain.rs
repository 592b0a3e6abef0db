//! Where the roll-forward chain ends, and why.
use super::{Blocks, geometries};
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use segno_format::node::RawNode;
use segno_format::{Block, BlockAddr, Geometry};
use segno_layout::{Chain, ChainEnd, Stamp, certain};

/// The units of a node whose footer has this `cp_ver` and this next address.
fn node(geo: &Geometry, cp_ver: u64, next: u32) -> Vec<Block> {
    let mut units = vec![Block::zeroed(); geo.units() as usize];
    let footer = &mut units.last_mut().unwrap().view_mut::<RawNode>().footer;
    footer.cp_ver.set(cp_ver);
    footer.next_blkaddr.set(next);
    units
}

fn stamp(flags: CpFlags) -> Stamp {
    let mut block = Block::zeroed();
    let cp: &mut RawCheckpoint = block.view_mut();
    cp.checkpoint_ver.set(9);
    cp.ckpt_flags.set(flags.bits());
    Stamp::after(block.view(), 0xABCD)
}

#[test]
fn a_stamp_has_the_checksum_if_the_checkpoint_says_so() {
    let cases = [
        ("checksum", CpFlags::CRC_RECOVERY, 0xABCD_0000_0009, [false, true, false]),
        ("none", CpFlags::empty(), 9, [true, false, false]),
        ("version alone", CpFlags::NOCRC_RECOVERY, 9, [true, true, true]),
    ];
    for (name, flags, value, follows) in cases {
        let stamp = stamp(flags);
        assert_eq!(stamp.value(), value, "{name}");
        let found = [9, 0xABCD_0000_0009, 0x1111_0000_0009].map(|cp_ver| stamp.is_of(cp_ver));
        assert_eq!(found, follows, "{name}");
        assert!(!stamp.is_of(10), "{name}");
    }
}

#[test]
fn a_chain_ends_where_the_next_node_is_none_of_it() {
    geometries().iter().for_each(|(name, geo)| assert_chains_end(name, geo));
}

fn assert_chains_end(size: &str, geo: &Geometry) {
    let first = geo.main_blkaddr;
    let stamp = stamp(CpFlags::CRC_RECOVERY);
    let (good, old) = (stamp.value(), stamp.value() - 1);
    let outside = geo.main_end();
    let cases: [(&str, &[(u32, u64, u32)], ChainEnd, usize); 6] = [
        ("nothing there", &[], ChainEnd::Missing, 0),
        ("an old node", &[(0, old, first + 1)], ChainEnd::Stamp, 0),
        (
            "two, then an old one",
            &[(0, good, first + 7), (7, good, first + 3), (3, old, 0)],
            ChainEnd::Stamp,
            2,
        ),
        ("out of the main area", &[(0, good, outside)], ChainEnd::Missing, 1),
        ("into the metadata", &[(0, good, 1)], ChainEnd::Missing, 1),
        (
            "a circle",
            &[(0, good, first + 1), (1, good, first + 2), (2, good, first + 1)],
            ChainEnd::Circle(BlockAddr(first + 1)),
            3,
        ),
    ];
    for (name, nodes, expected, passed) in cases {
        let mut reader = Blocks::default();
        for (at, cp_ver, next) in nodes {
            let unit = geo.unit(BlockAddr(first + at)).0;
            reader.0.extend((unit..).zip(node(geo, *cp_ver, *next)));
        }
        let mut chain = Chain::new(geo, stamp, Some(BlockAddr(first)));
        let mut found = 0;
        let end = loop {
            match certain(chain.next(&reader)) {
                Ok(_) => found += 1,
                Err(end) => break end,
            }
        };
        assert_eq!((end, found), (expected, passed), "{size}: {name}");
    }
}
