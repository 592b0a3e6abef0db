//! Without force, contents are refused, and nothing is written.
use crate::compare::{MIB, sparse};
use segno_device::{BlockDevice, Contents, MemDevice};
use segno_format::superblock::RawSuperblock;
use segno_format::{BLOCK_SIZE, Block};
use segno_mkfs::{Member, MkfsError, MkfsOptions, format};
use segno_testkit::{RecordDevice, Rng, f2fs_tools};
use std::sync::Arc;
use zerocopy::IntoBytes;

fn volume(bytes: u64, options: &MkfsOptions) -> MemDevice {
    let device = Arc::new(MemDevice::new(bytes / BLOCK_SIZE as u64));
    format(&[Member { device: device.clone(), path: "old".into(), zeroed: true }], options).unwrap();
    Arc::into_inner(device).unwrap()
}

/// Overwrites blocks with zeros or random bytes.
fn overwrite(device: &MemDevice, blocks: u64, random: bool) {
    let mut rng = Rng::new(blocks);
    for addr in 0..blocks {
        let mut block = Block::zeroed();
        if random {
            block.0.as_chunks_mut::<8>().0.iter_mut().for_each(|b| *b = rng.below(u64::MAX).to_le_bytes());
        }
        device.write(addr, &[&block]).unwrap();
    }
}

fn refusal(device: MemDevice, options: &MkfsOptions) -> Option<String> {
    let device = Arc::new(RecordDevice::new(device));
    let member = Member { device: device.clone(), path: "disk".into(), zeroed: false };
    match format(&[member], options) {
        Ok(_) => None,
        Err(e) => {
            assert!(matches!(e, MkfsError::Occupied { .. }), "{e}");
            assert_eq!(device.log(), [], "{e}");
            Some(e.to_string())
        }
    }
}

#[test]
fn the_remains_of_a_volume_are_recognised_and_refused() {
    let plain = MkfsOptions::default();
    let sections = MkfsOptions { segs_per_sec: 16, ..MkfsOptions::default() };
    for (bytes, options) in [(64 * MIB, &plain), (1024 * MIB, &plain), (1024 * MIB, &sections)] {
        for random in [false, true] {
            let device = volume(bytes, options);
            overwrite(&device, 256, random);
            assert!(Contents::of(&device).unwrap().is_wiped_volume());
            let said = refusal(device, options).unwrap();
            assert_eq!(
                said,
                "disk has remains of an F2FS volume without superblock; copy its files with `segno rescue disk DIR`, then overwrite it with -f"
            );
        }
    }
}

/// Two nodes are left, in different logs.
#[test]
fn the_root_alone_tells_that_there_was_a_volume() {
    let device = volume(64 * MIB, &MkfsOptions::default());
    let main = segno_mkfs::plan(&[device.block_count()], &MkfsOptions::default()).unwrap().geo.main_blkaddr;
    overwrite(&device, main.into(), false);
    assert!(Contents::of(&device).unwrap().is_wiped_volume());
}

#[test]
fn anything_but_zeros_is_refused() {
    let options = MkfsOptions::default();
    assert_eq!(refusal(MemDevice::new(64 * MIB / BLOCK_SIZE as u64), &options), None);
    let used = volume(64 * MIB, &options);
    assert_eq!(refusal(used, &options).unwrap(), "disk holds an F2FS volume; overwrite it with -f");
    for addr in [0, 1000, 64 * MIB / BLOCK_SIZE as u64 - 1] {
        let device = MemDevice::new(64 * MIB / BLOCK_SIZE as u64);
        device.write(addr, &[&Block([0xA5; BLOCK_SIZE])]).unwrap();
        let said = refusal(device, &options).unwrap();
        assert_eq!(said, "disk holds data that is not recognised; overwrite it with -f", "block {addr}");
    }
}

/// A device without contents may still have some that the search missed.
#[test]
fn nothing_is_discarded_without_force_unless_requested() {
    let discards = |force, discard| {
        let device = Arc::new(RecordDevice::new(MemDevice::new(64 * MIB / BLOCK_SIZE as u64)));
        let member = Member { device: device.clone(), path: "disk".into(), zeroed: false };
        format(&[member], &MkfsOptions { force, discard, ..MkfsOptions::default() }).unwrap();
        let log = device.log();
        log.iter().filter(|e| matches!(e, segno_testkit::Event::Discard { .. })).count()
    };
    assert_eq!([discards(false, None), discards(false, Some(true))], [0, 1]);
    assert_eq!([discards(true, None), discards(true, Some(false))], [1, 0]);
}

/// The new volume has the id of the old one, so its journal would be taken for that of the new volume.
#[test]
fn an_old_journal_does_not_follow_the_new_volume() {
    let journal = |at: u64, device: &MemDevice| {
        let mut block = Block([0xA5; BLOCK_SIZE]);
        block.0[..8].copy_from_slice(segno_device::JOURNAL_MAGIC);
        device.write(at, &[&block, &block]).unwrap();
    };
    let options =
        MkfsOptions { gap_blocks: 2048, force: true, discard: Some(false), ..MkfsOptions::default() };
    let device = Arc::new(volume(64 * MIB, &options));
    let end = device.block_count() - 2048;
    journal(end, &device);
    journal(end + 512, &device);
    let made =
        format(&[Member { device: device.clone(), path: "disk".into(), zeroed: false }], &options).unwrap();
    assert_eq!(made.layout.geo.block_count, end);
    let mut found = vec![Block::zeroed(); 2];
    device.read(end, &mut found).unwrap();
    assert!(found.iter().all(Block::is_zero));
    device.read(end + 512, &mut found).unwrap();
    assert!(found.iter().all(|b| b.0.starts_with(segno_device::JOURNAL_MAGIC)), "other data is left alone");
}

/// f2fs-tools take a device for no volume on which a format was cut off, also while a superblock was written over the mark.
#[test]
fn fsck_f2fs_refuses_an_unfinished_format_and_leaves_it_alone() {
    let dir = tempfile::tempdir().unwrap();
    let image = sparse(&dir.path().join("image"), 64 * MIB);
    let device = volume(64 * MIB, &MkfsOptions::default());
    let mut all = vec![Block::zeroed(); device.block_count() as usize];
    device.read(0, &mut all).unwrap();
    let (whole, mark) = (all[0].clone(), segno_device::unfinished_format());
    all[1] = mark.clone();
    for sectors in 0..8 {
        let kept = sectors * 512;
        all[0] = mark.clone();
        all[0].0[..kept].copy_from_slice(&whole.0[..kept]);
        std::fs::write(&image, all.as_bytes()).unwrap();
        let copy = RawSuperblock::from_block(&all[0].0).parse(0);
        assert!(copy.is_err(), "{sectors} sectors of a superblock");
        for option in ["-a", "-f"] {
            let done = f2fs_tools::run("fsck.f2fs", &[option], &[&image]).unwrap();
            assert!(!done.status.success(), "{sectors} sectors: {}", f2fs_tools::text(&done));
            assert!(
                std::fs::read(&image).unwrap() == all.as_bytes(),
                "{sectors} sectors, {option}: written to"
            );
        }
    }
}
