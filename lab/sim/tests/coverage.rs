//! Fuzz targets. An ordinary test run tries a few inputs of each; `cargo bolero test -p segno-sim --test
//! coverage TARGET` (or `cargo test` with libFuzzer, see bolero's book) continues, guided by coverage.
#![allow(clippy::unwrap_used, clippy::panic)]
use bolero::check;
use segno_codec::{Algorithm, casefold, decompress};
use segno_format::checkpoint::RawCheckpoint;
use segno_format::dentry::{DentryShape, FileType};
use segno_format::inode::{RawInode, seal_checksum, verify_checksum};
use segno_format::node::{RawNode, first_block, kind_of_offset, path};
use segno_format::orphan::orphans;
use segno_format::quota::QuotaTable;
use segno_format::sit::RawSitBlock;
use segno_format::summary::RawSummaryBlock;
use segno_format::superblock::RawSuperblock;
use segno_format::{BLOCK_SIZE, Block, Features, Ino, Nid, SegNo, name_hash, xattr};

/// The input as a block, repeated; an empty input gives zeros.
fn block(input: &[u8]) -> Block {
    let mut block = Block::zeroed();
    block.0.iter_mut().zip(input.iter().cycle()).for_each(|(b, i)| *b = *i);
    block
}

fn all_entries(shape: &DentryShape, area: &[u8]) {
    let mut pos = 0;
    while let Ok(Some(e)) = shape.next(area, pos, 0) {
        assert!(e.slot >= pos && e.next() > e.slot && !e.name.is_empty());
        let _found = shape.next_with_hash(area, e.hash, 0, 0);
        let _kind = FileType::from_disk(e.file_type);
        pos = e.next();
    }
    let _room = shape.find_room(area, 3);
}

#[test]
fn parsers() {
    check!().for_each(|input: &[u8]| {
        let block = block(input);
        let _sb = RawSuperblock::from_block(&block.0).parse(0);
        let sealed = {
            let mut sb = RawSuperblock::from_block(&block.0);
            sb.seal();
            sb
        };
        let (_stops, _damage) = (sealed.stops(), sealed.damage());
        let _cp = RawCheckpoint::verify(&block, 0);
        let _total = block.view::<RawCheckpoint>().total_blocks(0);
        let _orphans = orphans(&block.0, 0).map(Iterator::count);
        let _type = block.view::<RawSummaryBlock>().parse_type(0);
        block.view::<RawSitBlock>().entries.iter().for_each(|e| drop(e.parse(SegNo(0))));
        let footer = block.view::<RawNode>().footer;
        let _footer = footer.check(Nid(5), Ino(5));
        if let Some(first) = first_block(footer.node_offset(), 923, 1018) {
            assert_eq!(path(923, 1018, first).map(|p| p.offset[p.depth]), Some(footer.node_offset()));
        }
        let _kind = kind_of_offset(footer.node_offset());
        all_entries(&DentryShape::BLOCK, &block.0);
        for features in [Features::empty(), Features::all(), Features::EXTRA_ATTR] {
            let inode: &RawInode = block.view();
            if let Ok(layout) = inode.layout(features) {
                let area = block.0.get(layout.inline_range()).unwrap();
                all_entries(&DentryShape::inline(&layout), area);
                let _used = (0..layout.slots + 2).filter(|&i| inode.slot(&layout, i).is_real()).count();
                let _attrs = xattr::iter(block.0.get(layout.xattr_range()).unwrap(), 5).count();
            }
            let mut sealed = block.clone();
            seal_checksum(&mut sealed, features, 7);
            assert!(verify_checksum(&sealed, features, 7).is_ok());
        }
        let _attrs = xattr::iter(input, 5).count();
        (0..3).for_each(|kind| drop(QuotaTable::parse(input, kind, 5)));
    });
}

#[test]
fn codecs() {
    check!().for_each(|input: &[u8]| {
        let mut out = vec![0; 4 * BLOCK_SIZE];
        for id in 0..5 {
            let Some(algorithm) = Algorithm::from_disk(id) else { continue };
            let _any = decompress(algorithm, input, &mut out);
        }
        let _hash = name_hash(input);
        let _folded = casefold(input, &mut Vec::new());
    });
}

/// Edits and session are one input, so that damage and the operations that reveal it are found together.
#[test]
fn images() {
    check!().with_iterations(200).for_each(|input: &[u8]| {
        let Some(image) = segno_sim::hostile::image_of_bytes(input).unwrap() else { return };
        if let Err(e) = segno_sim::hostile::run_image(&image) {
            panic!("{e}\n{image}");
        }
    });
}
