//! Volumes of one device and of several, opened by their superblocks.
use segno_device::{BlockDevice, DeviceError, FileDevice, OpenOptions, open_volume, open_volume_recorded};
use segno_format::superblock::RawSuperblock;
use segno_format::{BLOCK_SIZE, Block};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zerocopy::FromZeros;

const SEGMENT: u64 = 512;
/// Where segment 0 starts.
const SEGMENT0: u64 = 512;

/// A superblock that passes its checks, with a table of (path, segments).
fn superblock(devices: &[(&Path, u32)], segments: u32) -> RawSuperblock {
    let mut sb = RawSuperblock::new_zeroed();
    sb.magic.set(segno_format::F2FS_MAGIC);
    sb.log_sectorsize.set(9);
    sb.log_sectors_per_block.set(3);
    sb.log_blocksize.set(12);
    sb.log_blocks_per_seg.set(9);
    for (field, n) in
        [(&mut sb.segs_per_sec, 1), (&mut sb.secs_per_zone, 1), (&mut sb.segment_count, segments)]
    {
        field.set(n);
    }
    sb.block_count.set(SEGMENT0 + u64::from(segments) * SEGMENT);
    let main = segments - 7;
    let counts = [
        (&mut sb.segment_count_ckpt, 2),
        (&mut sb.segment_count_sit, 2),
        (&mut sb.segment_count_nat, 2),
        (&mut sb.segment_count_ssa, 1),
        (&mut sb.segment_count_main, main),
        (&mut sb.section_count, main),
    ];
    counts.into_iter().for_each(|(field, n)| field.set(n));
    let starts = [
        (&mut sb.segment0_blkaddr, 0),
        (&mut sb.cp_blkaddr, 0),
        (&mut sb.sit_blkaddr, 2),
        (&mut sb.nat_blkaddr, 4),
        (&mut sb.ssa_blkaddr, 6),
        (&mut sb.main_blkaddr, 7),
    ];
    starts.into_iter().for_each(|(field, after)| field.set(512 + after * 512));
    for (field, ino) in [(&mut sb.node_ino, 1), (&mut sb.meta_ino, 2), (&mut sb.root_ino, 3)] {
        field.set(ino);
    }
    for (dev, (path, segments)) in sb.devs.iter_mut().zip(devices) {
        let path = path.as_os_str().as_encoded_bytes();
        dev.path[..path.len()].copy_from_slice(path);
        dev.total_segments.set(*segments);
    }
    sb
}

fn image(path: &Path, blocks: u64) {
    FileDevice::create(path, blocks * BLOCK_SIZE as u64, false).unwrap();
}

/// Writes the superblock into the copies named.
fn store(path: &Path, sb: &RawSuperblock, copies: &[u64]) {
    let device = FileDevice::open(path, OpenOptions::default()).unwrap();
    let mut block = Block::zeroed();
    sb.store(&mut block.0);
    copies.iter().for_each(|&copy| device.write(copy, &[&block]).unwrap());
}

fn open(paths: &[&Path]) -> Result<Arc<dyn BlockDevice>, DeviceError> {
    open_volume(paths, OpenOptions::default())
}

fn refused(paths: &[&Path]) -> String {
    open(paths).map(|_| ()).unwrap_err().to_string()
}

fn fill(device: &dyn BlockDevice, addr: u64) -> u8 {
    let mut block = [Block::zeroed()];
    device.read(addr, &mut block).unwrap();
    block[0].0[0]
}

/// A directory whose name is short enough for the table's 64 bytes, with a volume of 12 + 3 + 2 segments.
fn three_devices() -> (tempfile::TempDir, [PathBuf; 3]) {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["a", "b", "c"].map(|n| dir.path().join(n));
    let [a, b, c] = &paths;
    image(a, SEGMENT0 + 12 * SEGMENT + 9);
    image(b, 3 * SEGMENT);
    image(c, 2 * SEGMENT + 100);
    store(a, &superblock(&[(a, 12), (b, 3), (c, 2)], 17), &[0, 1]);
    (dir, paths)
}

#[test]
fn a_single_device_is_opened_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    image(&path, SEGMENT0 + 10 * SEGMENT + 3);
    store(&path, &superblock(&[], 10), &[0, 1]);
    assert_eq!(open(&[&path]).unwrap().block_count(), SEGMENT0 + 10 * SEGMENT + 3);
    assert!(matches!(open(&[&path, &path]), Err(DeviceError::MemberCount { expected: 1, given: 2, .. })));
    assert!(matches!(open(&[]), Err(DeviceError::NoPath)));
}

#[test]
fn either_copy_of_the_superblock_will_do() {
    for copy in [0, 1] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        image(&path, SEGMENT0 + 10 * SEGMENT);
        assert!(refused(&[&path]).contains("is empty: there are only zeros"));
        let damaged = RawSuperblock { root_ino: 4.into(), ..superblock(&[], 10) };
        store(&path, &damaged, &[0, 1]);
        assert!(refused(&[&path]).contains("holds no usable superblock (copy 0: "));
        store(&path, &superblock(&[], 10), &[copy]);
        open(&[&path]).unwrap();
    }
}

#[test]
fn a_volume_with_other_blocks_is_no_damaged_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    image(&path, SEGMENT0 + 10 * SEGMENT);
    let other =
        RawSuperblock { log_blocksize: 14.into(), log_sectors_per_block: 5.into(), ..superblock(&[], 10) };
    // The second copy of such a volume is after its first block.
    store(&path, &other, &[0]);
    let said = refused(&[&path]);
    assert!(
        said.contains("cannot be used: the volume has blocks of 16384 bytes (log_blocksize 14)"),
        "{said}"
    );
    store(&path, &superblock(&[], 10), &[1]);
    open(&[&path]).unwrap();
}

#[test]
fn a_truncated_image_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    image(&path, SEGMENT0 + 10 * SEGMENT - 1);
    store(&path, &superblock(&[], 10), &[0, 1]);
    assert!(matches!(open(&[&path]), Err(DeviceError::TooSmall { blocks: 5631, needed: 5632, .. })));
    let tiny = dir.path().join("tiny");
    image(&tiny, 1);
    assert!(matches!(open(&[&tiny]), Err(DeviceError::TooSmall { blocks: 1, .. })));
}

#[test]
fn members_are_joined_in_the_order_of_the_table() {
    let (_dir, [a, b, c]) = three_devices();
    let volume = open(&[&a, &b, &c]).unwrap();
    // Blocks of the first device beyond its share follow the last device.
    assert_eq!(volume.block_count(), SEGMENT0 + 17 * SEGMENT + 9);
    let b_start = SEGMENT0 + 12 * SEGMENT;
    let block = |n| Block([n; BLOCK_SIZE]);
    volume.write(b_start - 1, &[&block(1), &block(2)]).unwrap();
    volume.write(b_start + 3 * SEGMENT - 1, &[&block(3), &block(4)]).unwrap();
    volume.flush().unwrap();
    drop(volume);
    let [a, b, c] = [a, b, c].map(|p| FileDevice::open(p, OpenOptions::default()).unwrap());
    assert_eq!((fill(&a, b_start - 1), fill(&a, b_start)), (1, 0));
    assert_eq!((fill(&b, 0), fill(&b, 3 * SEGMENT - 1)), (2, 3));
    assert_eq!(fill(&c, 0), 4);
}

/// A table may have the path of any file of the host.
#[test]
fn a_recorded_path_is_not_opened_unless_it_is_named() {
    let (_dir, [a, b, c]) = three_devices();
    // Held by another, so that an attempt to open it is seen.
    let held = FileDevice::open(&b, OpenOptions::default()).unwrap();
    let open_recorded = |paths: &[&Path]| open_volume_recorded(paths, OpenOptions::default()).map(|_| ());
    for refused in [open(&[&a]).map(|_| ()), open_recorded(&[&a])] {
        let Err(DeviceError::NotNamed { path, recorded }) = refused else { panic!("{refused:?}") };
        assert_eq!((path.as_ref(), recorded), (a.to_str().unwrap(), vec![b.clone(), c.clone()]));
    }
    assert!(refused(&[&a, &b, &c]).contains("is in use"));
    drop(held);
    open_recorded(&[&a, &b, &c]).unwrap();
    let read_only = OpenOptions { read_only: true, direct: false };
    assert!(matches!(open_volume(&[&a, &b, &b], read_only), Err(DeviceError::Twice { .. })));
    assert!(matches!(open_volume(&[&a, &b, &a], read_only), Err(DeviceError::Twice { .. })));
}

#[test]
fn recorded_bytes_are_kept_and_shown_with_escapes() {
    let (_dir, [a, _, _]) = three_devices();
    let further = OsStr::from_bytes(b"/\xff\x1b[2J");
    store(&a, &superblock(&[(&a, 12), (Path::new(further), 5)], 17), &[0, 1]);
    let Err(DeviceError::NotNamed { recorded, .. }) = open(&[&a]) else { panic!("not refused") };
    assert_eq!(recorded, [Path::new(further)]);
    assert!(refused(&[&a]).ends_with(r#"names them, in order: "/\xFF\u{1b}[2J""#), "{}", refused(&[&a]));
}

#[test]
fn members_are_named_in_order_wherever_they_are() {
    let (dir, [a, b, c]) = three_devices();
    let moved = dir.path().join("moved");
    std::fs::rename(&b, &moved).unwrap();
    let message = refused(&[&a, &b, &c]);
    assert!(message.contains("device 1 of the volume") && message.contains("name the paths"), "{message}");
    assert!(matches!(open(&[&a, &moved]), Err(DeviceError::MemberCount { expected: 3, given: 2, .. })));
    open(&[&a, &moved, &c]).unwrap();
    // In the wrong order the second is too small for the second place.
    assert!(matches!(open(&[&a, &c, &moved]), Err(DeviceError::Member { index: 1, .. })));
}

#[test]
fn all_members_are_held() {
    let (_dir, [a, b, c]) = three_devices();
    let volume = open(&[&a, &b, &c]).unwrap();
    assert!(matches!(FileDevice::open(&b, OpenOptions::default()), Err(DeviceError::InUse { .. })));
    drop(volume);
    FileDevice::open(&b, OpenOptions::default()).unwrap();
}

#[test]
fn a_volume_opened_for_reading_refuses_writes() {
    let (_dir, [a, b, c]) = three_devices();
    let read_only = OpenOptions { read_only: true, direct: false };
    let volume = open_volume(&[&a, &b, &c], read_only).unwrap();
    assert!(volume.read_only());
    let refused = volume.write(9000, &[&Block::zeroed()]).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
}
