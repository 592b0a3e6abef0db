//! Volumes of kinds that are not supported: the check reports that, and does not judge their contents.
use crate::edit::Edit;
use crate::image::filled;
use segno_check::{CheckError, CheckOptions, check, check_quick};
use segno_format::superblock::RawSuperblock;
use segno_format::{Block, BlockAddr, Features, Unsupported};

type Change = fn(&mut RawSuperblock);

fn features(bits: u32) -> Unsupported {
    Unsupported::Features(Features::from_bits_retain(bits))
}

#[test]
fn a_volume_that_nothing_mounts_is_not_clean() {
    let cases: [(&str, Change, Unsupported); 6] = [
        ("device_alias", |sb| sb.feature.set(sb.feature.get() | 0x8000), features(0x8000)),
        ("packed_ssa", |sb| sb.feature.set(sb.feature.get() | 0x1_0000), features(0x1_0000)),
        ("encrypted inline data", |sb| sb.feature.set(sb.feature.get() | 0x2_0000), features(0x2_0000)),
        ("the last bit", |sb| sb.feature.set(sb.feature.get() | 1 << 31), features(1 << 31)),
        ("log_blocksize alone", |sb| sb.log_blocksize.set(14), Unsupported::BlockSize { log_blocksize: 14 }),
        (
            "blocks of 64 KiB",
            |sb| {
                sb.log_blocksize.set(16);
                sb.log_sectors_per_block.set(7);
            },
            Unsupported::BlockSize { log_blocksize: 16 },
        ),
    ];
    for (name, change, expected) in cases {
        for copies in [1..2, 0..1, 0..2] {
            let edit = Edit::new(filled());
            for copy in 0..2 {
                match copies.contains(&copy) {
                    true => edit.superblock(copy, change),
                    false => edit.put(BlockAddr(copy), &Block::zeroed()),
                }
            }
            let options = CheckOptions::default();
            let full = check(&edit.dev, &options, &mut |_| {});
            let quick = check_quick(&edit.dev, &options);
            for found in [full, quick] {
                assert!(
                    matches!(&found, Err(CheckError::Unsupported(why)) if *why == expected),
                    "{name} in {copies:?}: {found:?}"
                );
            }
        }
    }
}
