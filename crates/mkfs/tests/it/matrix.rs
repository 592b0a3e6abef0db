//! Options against sizes.
use crate::compare::{MIB, same_as_mkfs_f2fs, same_on_sectors, sparse};
use segno_format::{BLOCK_SIZE, Features};
use segno_mkfs::{CasefoldFlags, MkfsOptions, plan};
use segno_testkit::f2fs_tools;

fn features(list: &str) -> Features {
    list.split(',').map(|n| Features::from_mkfs_name(n).unwrap()).fold(Features::empty(), Features::union)
}

#[test]
fn default_sizes() {
    for mib in [60, 80, 256, 512, 1024, 10 * 1024, 200 * 1024] {
        same_as_mkfs_f2fs(&[], &[mib * MIB], &MkfsOptions::default());
    }
    same_as_mkfs_f2fs(&[], &[100 * MIB + 12288], &MkfsOptions::default());
}

/// The volume in front of the gap equals the volume that mkfs.f2fs makes on `left` bytes.
#[test]
fn a_gap_behind_the_volume() {
    for (bytes, gap, left) in [
        (256 * MIB, 16 * MIB, 240 * MIB),
        (1024 * MIB + 12288, 33 * MIB, 990 * MIB),
        (512 * MIB, 4096, 510 * MIB),
    ] {
        let opts = MkfsOptions { gap_blocks: gap / BLOCK_SIZE as u64, ..MkfsOptions::default() };
        same_on_sectors(&[], &[bytes], Some(left / 512), &opts);
    }
    let gap = |gap_blocks| MkfsOptions { gap_blocks, ..MkfsOptions::default() };
    let blocks = 256 * MIB / BLOCK_SIZE as u64;
    assert_eq!(plan(&[blocks], &gap(4096)).unwrap().geo.block_count, blocks - 4096);
    for impossible in [blocks, blocks - 1, blocks - 8192, u64::MAX] {
        assert!(plan(&[blocks], &gap(impossible)).is_err());
    }
    // Of several devices the first is shortened.
    let [with, without] = [(blocks, 4096), (blocks - 4096, 0)]
        .map(|(first, gap_blocks)| plan(&[first, blocks], &gap(gap_blocks)).unwrap());
    assert_eq!((with.geo, with.device_segments), (without.geo, without.device_segments));
    let zoned = MkfsOptions { zoned: true, ..gap(4096) };
    let said = plan(&[blocks], &zoned).unwrap_err().to_string();
    assert_eq!(said, "a journal behind the volume: zones that are written in order are no place for one");
}

#[test]
fn four_tebibytes() {
    same_as_mkfs_f2fs(&[], &[4 << 40], &MkfsOptions::default());
}

#[test]
fn sections_and_zones() {
    // Only whole zones follow the first one: mkfs.f2fs 1.15 miscounts the reserve for other sizes.
    for (segs, secs, zones) in
        [(1, 3, 101), (2, 1, 64), (3, 1, 100), (4, 2, 80), (3, 5, 60), (7, 1, 700), (64, 1, 300)]
    {
        let opts = MkfsOptions { segs_per_sec: segs, secs_per_zone: secs, ..MkfsOptions::default() };
        let bytes = u64::from(segs * secs) * zones * 2 * MIB;
        same_as_mkfs_f2fs(&["-s", &segs.to_string(), "-z", &secs.to_string()], &[bytes], &opts);
    }
}

#[test]
fn large_nat_bitmap() {
    let opts = MkfsOptions { large_nat_bitmap: true, ..MkfsOptions::default() };
    for mib in [300, 64 * 1024, 400 * 1024] {
        same_as_mkfs_f2fs(&["-i"], &[mib * MIB], &opts);
    }
}

#[test]
fn overprovision() {
    for percent in ["0.5", "1", "5", "20", "42.5"] {
        let opts =
            MkfsOptions { overprovision_percent: Some(percent.parse().unwrap()), ..MkfsOptions::default() };
        same_as_mkfs_f2fs(&["-o", percent], &[2048 * MIB], &opts);
    }
}

#[test]
fn feature_lists() {
    for list in [
        "encrypt",
        "verity",
        "sb_checksum",
        "lost_found",
        "quota",
        "ro",
        "extra_attr",
        "quota,lost_found",
        "extra_attr,project_quota,quota",
        "extra_attr,project_quota,quota,lost_found",
        "extra_attr,inode_checksum",
        "extra_attr,inode_checksum,quota,lost_found,sb_checksum",
        "extra_attr,flexible_inline_xattr",
        "extra_attr,inode_crtime",
        "extra_attr,compression",
        "extra_attr,ro,compression,quota,lost_found",
        // mkfs.f2fs gives quota files no creation time, so not both at once.
        "encrypt,verity,extra_attr,project_quota,inode_checksum,flexible_inline_xattr,quota,lost_found,sb_checksum,\
         compression",
        "extra_attr,inode_checksum,inode_crtime,lost_found",
    ] {
        let opts = MkfsOptions { features: features(list), ..MkfsOptions::default() };
        same_as_mkfs_f2fs(&["-O", list], &[256 * MIB], &opts);
    }
}

#[test]
fn casefold() {
    let features = Features::CASEFOLD;
    for (arg, strict) in [("utf8", false), ("utf8:strict", true)] {
        let casefold = CasefoldFlags { strict, ..CasefoldFlags::default() };
        same_as_mkfs_f2fs(
            &["-C", arg],
            &[256 * MIB],
            &MkfsOptions { features, casefold, ..MkfsOptions::default() },
        );
    }
}

#[test]
fn names_and_owners() {
    let opts = MkfsOptions {
        label: "Ségno 𝄋".into(),
        root_owner: (1000, 1234),
        features: Features::LOST_FOUND,
        ..MkfsOptions::default()
    };
    same_as_mkfs_f2fs(&["-l", "Ségno 𝄋", "-R", "1000:1234", "-O", "lost_found"], &[256 * MIB], &opts);
    same_as_mkfs_f2fs(
        &["-t", "0"],
        &[256 * MIB],
        &MkfsOptions { discard: Some(false), ..MkfsOptions::default() },
    );
}

#[test]
fn extensions() {
    let mut opts = MkfsOptions::default();
    opts.cold_extensions.push("foo".into());
    opts.hot_extensions.extend(["bar".into(), "bazbazb".into()]);
    same_as_mkfs_f2fs(&["-e", "foo", "-E", "bar,bazbazb"], &[256 * MIB], &opts);
}

#[test]
fn several_devices() {
    same_as_mkfs_f2fs(&[], &[128 * MIB, 256 * MIB, 65 * MIB], &MkfsOptions::default());
    let opts = MkfsOptions { segs_per_sec: 4, ..MkfsOptions::default() };
    same_as_mkfs_f2fs(&["-s", "4"], &[256 * MIB, 512 * MIB], &opts);
}

/// The smallest size for one formatter must be the smallest for the other.
#[test]
fn the_same_sizes_are_too_small() {
    let dir = tempfile::tempdir().unwrap();
    let default = MkfsOptions::default;
    let cases: [(&[&str], u64, MkfsOptions); 6] = [
        (&[], 1, default()),
        (&["-s", "2"], 2, MkfsOptions { segs_per_sec: 2, ..default() }),
        (&["-z", "2"], 2, MkfsOptions { secs_per_zone: 2, ..default() }),
        (&["-s", "3", "-z", "2"], 6, MkfsOptions { segs_per_sec: 3, secs_per_zone: 2, ..default() }),
        (&["-o", "50"], 1, MkfsOptions { overprovision_percent: Some(50.0), ..default() }),
        (&["-O", "ro"], 1, MkfsOptions { features: Features::RO, ..default() }),
    ];
    for (args, zone, opts) in cases {
        // A read-only volume does not align its first segment.
        let lead = if opts.features.contains(Features::RO) { 8192 } else { 0 };
        let bytes = |zones: u64| zones * zone * 2 * MIB + lead;
        let fits = |zones: u64| plan(&[bytes(zones) / BLOCK_SIZE as u64], &opts).is_ok();
        let limit = (1..200).find(|&zones| fits(zones)).unwrap();
        for zones in limit - 3..limit + 3 {
            let device = sparse(&dir.path().join("device"), bytes(zones));
            let theirs = f2fs_tools::run("mkfs.f2fs", &[&["-f"], args].concat(), &[device]);
            let theirs = theirs.unwrap().status.success();
            assert_eq!(fits(zones), theirs, "mkfs.f2fs {} on {zones} zones", args.join(" "));
        }
    }
}
