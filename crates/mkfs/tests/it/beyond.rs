//! Cases in which mkfs.f2fs 1.15 is wrong and we differ: fsck.f2fs decides.
use crate::compare::{MIB, members, sparse};
use segno_device::BlockDevice;
use segno_format::superblock::{RawSuperblock, Superblock};
use segno_format::{Block, Features};
use segno_mkfs::{MkfsOptions, format};
use segno_testkit::f2fs_tools;
use std::path::PathBuf;

fn formatted(sizes: &[u64], opts: &MkfsOptions) -> Superblock {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> =
        (0..).zip(sizes).map(|(i, &bytes)| sparse(&dir.path().join(format!("dev{i}")), bytes)).collect();
    let members = members(&paths);
    format(&members, opts).unwrap();
    let mut first = [Block::zeroed()];
    members[0].device.read(0, &mut first).unwrap();
    drop(members);
    f2fs_tools::assert_clean(&format!("{opts:?} on {sizes:?}"), &paths[0]);
    RawSuperblock::from_block(&first[0].0).parse(0).unwrap()
}

/// 1.15 counts the segments that fill no zone as free.
#[test]
fn sizes_that_are_no_whole_zones() {
    for (segs_per_sec, secs_per_zone) in [(1, 3), (3, 1), (4, 2), (7, 1), (5, 3)] {
        let opts = MkfsOptions { segs_per_sec, secs_per_zone, ..MkfsOptions::default() };
        formatted(&[1027 * MIB + 4096], &opts);
    }
}

/// 1.15 lets a zone straddle two devices.
#[test]
fn devices_that_are_no_whole_zones() {
    let opts = MkfsOptions { segs_per_sec: 4, ..MkfsOptions::default() };
    let sb = formatted(&[301 * MIB, 205 * MIB, 77 * MIB], &opts);
    let segments: Vec<u32> = sb.devices.iter().map(|d| d.total_segments).collect();
    assert_eq!(segments, [144, 100, 36]);
}

/// 1.15 records no encoding unless it is told one, and Linux then refuses the volume.
#[test]
fn casefold_alone_has_an_encoding() {
    let sb = formatted(&[256 * MIB], &MkfsOptions { features: Features::CASEFOLD, ..MkfsOptions::default() });
    assert_eq!((sb.raw.s_encoding.get(), sb.raw.s_encoding_flags.get()), (1, 0));
}

/// 1.15 sets the quota feature but makes no quota files.
#[test]
fn project_quota_alone_has_quota_files() {
    let features = Features::EXTRA_ATTR | Features::PRJQUOTA;
    let sb = formatted(&[256 * MIB], &MkfsOptions { features, ..MkfsOptions::default() });
    assert_eq!(sb.quota_inos(), [Some(4), Some(5), Some(6)]);
    assert!(sb.features.contains(Features::QUOTA_INO));
}

/// 1.15 files every owner's usage under id 0 in the tree.
#[test]
fn quota_of_another_owner() {
    let features = Features::QUOTA_INO | Features::LOST_FOUND;
    formatted(&[256 * MIB], &MkfsOptions { features, root_owner: (1000, 70000), ..MkfsOptions::default() });
}

#[test]
fn all_features_at_once() {
    let names = "encrypt extra_attr project_quota inode_checksum flexible_inline_xattr quota inode_crtime lost_found \
                 verity sb_checksum casefold compression";
    let features = names.split_whitespace().map(|n| Features::from_mkfs_name(n).unwrap()).collect();
    let sb = formatted(&[256 * MIB], &MkfsOptions { features, ..MkfsOptions::default() });
    assert_eq!(sb.raw.crc.get(), sb.raw.checksum());
}

/// Large sectors, and only the first half of the device. On a file, 1.15 ignores the requested sector size.
#[test]
fn sectors_of_4096_bytes_on_half_a_device() {
    let opts = MkfsOptions { sector_size: 4096, blocks: Some(256 * MIB / 4096), ..MkfsOptions::default() };
    let sb = formatted(&[512 * MIB], &opts);
    assert_eq!((sb.raw.log_sectorsize.get(), sb.raw.log_sectors_per_block.get()), (12, 0));
    assert_eq!((sb.geo.block_count, sb.geo.segment_count), (65536, 127));
}
