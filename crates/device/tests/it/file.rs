//! Image files on a real file system, buffered and direct.
use segno_device::{BlockDevice, Buffer, DeviceError, FileDevice, OpenOptions, StorageKind, probe};
use segno_format::{BLOCK_SIZE, Block};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

const READ_WRITE: OpenOptions = OpenOptions { read_only: false, direct: false };
const READ_ONLY: OpenOptions = OpenOptions { read_only: true, direct: false };
const DIRECT: OpenOptions = OpenOptions { read_only: false, direct: true };

/// An image of `blocks` blocks, in the build directory because a temporary one may lack direct I/O.
fn image(blocks: u64) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("image");
    FileDevice::create(&path, blocks * BLOCK_SIZE as u64, false).unwrap();
    (dir, path)
}

fn numbered(count: usize) -> Vec<Block> {
    (0..count).map(|i| Block([i as u8; BLOCK_SIZE])).collect()
}

#[test]
fn what_is_written_is_read_back() {
    // More blocks than one gather may have.
    let count = 2500;
    for options in [READ_WRITE, DIRECT] {
        for fua in [false, true] {
            let (_dir, path) = image(3000);
            let blocks = numbered(count);
            let mut scattered: Vec<&Block> = blocks.iter().collect();
            scattered.reverse();
            let device = FileDevice::open(&path, options).unwrap();
            let write = if fua { FileDevice::write_fua } else { FileDevice::write };
            write(&device, 100, &scattered).unwrap();
            device.flush().unwrap();
            drop(device);
            let device = FileDevice::open(&path, options).unwrap();
            let mut back = vec![Block([0xEE; BLOCK_SIZE]); count + 2];
            device.read(99, &mut back).unwrap();
            assert!(back[0].is_zero() && back[count + 1].is_zero());
            assert!(back[1..=count].iter().zip(scattered).all(|(a, b)| a.0 == b.0));
        }
    }
}

#[test]
fn beyond_the_end_is_refused_and_the_file_keeps_its_size() {
    let (_dir, path) = image(10);
    let device = FileDevice::open(&path, READ_WRITE).unwrap();
    let block = Block([1; BLOCK_SIZE]);
    let outside =
        |result: std::io::Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::InvalidInput);
    outside(device.read(10, &mut numbered(1)));
    outside(device.read(u64::MAX, &mut numbered(1)));
    outside(device.write(9, &[&block, &block]));
    outside(device.write_fua(10, &[&block]));
    outside(device.discard(9, 2));
    outside(device.discard(1, u64::MAX));
    let mut last = numbered(2);
    device.read(8, &mut last).unwrap();
    assert!(last[1].is_zero(), "a refused write arrived in part");
    assert_eq!(path.metadata().unwrap().len(), 10 * BLOCK_SIZE as u64);
}

#[test]
fn a_trailing_part_of_a_block_is_not_used() {
    let (_dir, path) = image(2);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(3 * BLOCK_SIZE as u64 - 1).unwrap();
    assert_eq!(FileDevice::open(&path, READ_WRITE).unwrap().block_count(), 2);
}

#[test]
fn discard_frees_the_space_and_keeps_the_size() {
    let (_dir, path) = image(64);
    let device = FileDevice::open(&path, READ_WRITE).unwrap();
    let blocks = vec![Block([7; BLOCK_SIZE]); 64];
    device.write(0, &blocks.iter().collect::<Vec<_>>()).unwrap();
    device.flush().unwrap();
    let before = path.metadata().unwrap();
    device.discard(1, 62).unwrap();
    let after = path.metadata().unwrap();
    assert_eq!(after.len(), before.len());
    assert!(after.blocks() < before.blocks(), "{} of {} sectors", after.blocks(), before.blocks());
    let mut back = numbered(64);
    device.read(0, &mut back).unwrap();
    assert!(back[1..63].iter().all(Block::is_zero));
    assert_eq!((back[0].0[0], back[63].0[0]), (7, 7));
}

#[test]
fn holes_are_skipped() {
    let (_dir, path) = image(1 << 16);
    let device = FileDevice::open(&path, READ_WRITE).unwrap();
    assert_eq!(device.next_data(5), 1 << 16);
    device.write(4096, &[&Block([7; BLOCK_SIZE])]).unwrap();
    device.flush().unwrap();
    assert_eq!((device.next_data(5), device.next_data(4096)), (4096, 4096));
    assert_eq!(device.next_data(40_000), 1 << 16);
}

#[test]
fn a_writer_is_alone_and_readers_share() {
    let (_dir, path) = image(2);
    let in_use = |options| match FileDevice::open(&path, options) {
        Err(e @ DeviceError::InUse { .. }) => {
            let said = format!("{} is in use: this process has it open; close it first", path.display());
            assert_eq!(e.to_string(), said);
        }
        other => panic!("expected that it is in use, not {other:?}"),
    };
    let writer = FileDevice::open(&path, READ_WRITE).unwrap();
    in_use(READ_WRITE);
    in_use(READ_ONLY);
    assert!(matches!(FileDevice::create(&path, 4096, true), Err(DeviceError::InUse { .. })));
    assert_eq!(path.metadata().unwrap().len(), 2 * BLOCK_SIZE as u64, "emptied although in use");
    drop(writer);
    let _readers = [FileDevice::open(&path, READ_ONLY).unwrap(), FileDevice::open(&path, READ_ONLY).unwrap()];
    in_use(READ_WRITE);
}

#[test]
fn a_read_only_device_refuses_every_change() {
    let (_dir, path) = image(2);
    let device = FileDevice::open(&path, READ_ONLY).unwrap();
    assert!(device.read_only());
    let block = Block([1; BLOCK_SIZE]);
    for result in [device.write(0, &[&block]), device.write_fua(0, &[&block]), device.discard(0, 1)] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    }
    device.flush().unwrap();
}

#[test]
fn create_makes_a_sparse_file_and_respects_an_existing_one() {
    let (dir, path) = image(4);
    std::fs::write(&path, vec![9; 2 * BLOCK_SIZE]).unwrap();
    assert!(matches!(FileDevice::create(&path, 4096, false), Err(DeviceError::Exists { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), vec![9; 2 * BLOCK_SIZE]);
    let device = FileDevice::create(&path, 1 << 30, true).unwrap();
    let mut first = numbered(3);
    device.read(0, &mut first).unwrap();
    let mark = segno_device::unfinished_format();
    assert_eq!([0, 1].map(|i| first[i].0), [mark.0, mark.0]);
    assert!(first[2].is_zero(), "old contents survived");
    assert_eq!((device.block_count(), path.metadata().unwrap().blocks()), (1 << 18, 16));
    let impossible = dir.path().join("impossible");
    assert!(FileDevice::create(&impossible, u64::MAX, false).is_err());
    assert!(!impossible.exists(), "a file was left behind");
}

#[test]
fn probe_tells_what_a_path_is() {
    let (dir, path) = image(3);
    let found = probe(&path).unwrap();
    assert_eq!((found.kind, found.bytes, found.sector_size), (StorageKind::Regular, 3 * 4096, 512));
    assert!(matches!(probe(dir.path()), Err(DeviceError::NotStorage { .. })));
    assert!(matches!(FileDevice::open(dir.path(), READ_ONLY), Err(DeviceError::NotStorage { .. })));
    let missing = probe(&dir.path().join("missing")).unwrap_err();
    assert!(missing.to_string().contains("cannot open"), "{missing}");
}

/// Buffered and direct accesses see the same content.
#[test]
fn what_is_written_behind_is_read_back_whatever_the_page_cache_held() {
    let (_dir, path) = image(2500);
    let device = FileDevice::open(&path, READ_WRITE).unwrap();
    let (old, new) = (vec![Block([9; BLOCK_SIZE]); 2500], numbered(1500));
    // Dirty in the cache, and read into it.
    device.write(0, &old.iter().collect::<Vec<_>>()).unwrap();
    device.read(0, &mut vec![Block::zeroed(); 2500]).unwrap();
    device.write_behind(500, &new.iter().collect::<Vec<_>>()).unwrap();
    let expected = |back: &[Block]| {
        let inner = back[500..2000].iter().zip(&new).all(|(a, b)| a.0 == b.0);
        inner && back[..500].iter().chain(&back[2000..]).all(|b| b.0 == old[0].0)
    };
    let mut back = vec![Block::zeroed(); 2500];
    device.read(0, &mut back).unwrap();
    assert!(expected(&back));
    device.flush().unwrap();
    drop(device);
    FileDevice::open(&path, DIRECT).unwrap().read(0, &mut back).unwrap();
    assert!(expected(&back));
    let refused =
        |options, at| FileDevice::open(&path, options).unwrap().write_behind(at, &[&old[0]]).is_err();
    assert!(refused(READ_WRITE, 2500) && refused(READ_ONLY, 0) && !refused(DIRECT, 0));
}

/// Destroys what is on the device; a loop device on a scratch file will do.
#[test]
#[ignore = "needs a scratch block device named by SEGNO_TEST_BLOCK_DEVICE"]
fn a_block_device_works_like_a_file_and_is_opened_exclusively() {
    let path = PathBuf::from(std::env::var_os("SEGNO_TEST_BLOCK_DEVICE").unwrap());
    assert_eq!(probe(&path).unwrap().kind, StorageKind::BlockDevice);
    for options in [READ_WRITE, DIRECT] {
        let device = FileDevice::open(&path, options).unwrap();
        assert!(matches!(FileDevice::open(&path, READ_WRITE), Err(DeviceError::InUse { .. })));
        assert!(matches!(FileDevice::create(&path, 4096, true), Err(DeviceError::FixedSize { .. })));
        let last = device.block_count() - 1;
        let blocks = numbered(8);
        device.write(last - 7, &blocks.iter().collect::<Vec<_>>()).unwrap();
        device.write_fua(0, &[&blocks[5]]).unwrap();
        device.flush().unwrap();
        device.discard(last - 3, 4).unwrap();
        let mut back = numbered(4);
        device.read(last - 7, &mut back).unwrap();
        assert!(back.iter().zip(&blocks).all(|(a, b)| a.0 == b.0));
        device.read(0, &mut back[..1]).unwrap();
        assert_eq!(back[0].0, blocks[5].0);
        assert_eq!(
            device.write(last, &[&blocks[0], &blocks[0]]).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
}

#[test]
fn prepared_blocks_have_storage_and_keep_their_neighbours() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("image");
    let dev = FileDevice::create(&path, 1 << 20, false).unwrap();
    let mut block = Block::zeroed();
    block.0.fill(7);
    dev.write(9, &[&block]).unwrap();
    dev.prepare(10, 100).unwrap();
    dev.flush().unwrap();
    assert!(std::fs::metadata(&path).unwrap().blocks() * 512 >= 101 * 4096, "holes are left");
    let mut back = vec![Block::zeroed(); 2];
    dev.read(9, &mut back).unwrap();
    assert!(back[0].0 == [7; 4096] && back[1].is_zero());
    // With no hole in it the range keeps what it has.
    dev.prepare(9, 1).unwrap();
    dev.read(9, &mut back).unwrap();
    assert_eq!(back[0].0, [7; 4096]);
    assert!(dev.prepare(255, 2).is_err(), "past the end");
}

#[test]
fn blocks_in_memory_are_not_prepared() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        println!("NOT TESTED: no /dev/shm");
        return;
    };
    let path = dir.path().join("image");
    let dev = FileDevice::create(&path, 1 << 20, false).unwrap();
    dev.prepare(10, 100).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().blocks(), 0);
}

#[test]
fn reads_go_on_meanwhile_and_see_what_was_written_before() {
    for options in [READ_WRITE, DIRECT] {
        let (_dir, path) = image(300);
        let device = FileDevice::open(&path, options).unwrap();
        let blocks = numbered(200);
        device.write(50, &blocks.iter().collect::<Vec<_>>()).unwrap();
        let readings: Vec<_> = (0..5).map(|n| device.start_read(n * 60, Buffer::new(60))).collect();
        // A read that is dropped.
        drop(device.start_read(7, Buffer::new(30)));
        let read = readings.into_iter().flat_map(|r| r.wait().unwrap().blocks().to_vec());
        for (addr, block) in read.enumerate() {
            let expected = if (50..250).contains(&addr) { (addr - 50) as u8 } else { 0 };
            assert!(block.0 == [expected; BLOCK_SIZE], "block {addr}, {options:?}");
        }
        let refused = device.start_read(299, Buffer::new(2)).wait().err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn who_may_only_read_reads_ahead_too() {
    let (_dir, path) = image(10);
    let block = Block([9; BLOCK_SIZE]);
    FileDevice::open(&path, READ_WRITE).unwrap().write(3, &[&block]).unwrap();
    let device = FileDevice::open(&path, READ_ONLY).unwrap();
    let buffer = device.start_read(2, Buffer::new(2)).wait().unwrap();
    // The buffer is used again.
    let buffer = device.start_read(3, buffer).wait().unwrap();
    assert_eq!(buffer.blocks().iter().map(|b| b.0[77]).collect::<Vec<_>>(), [9, 0]);
}

#[test]
fn an_image_file_reports_what_of_it_has_storage_and_what_its_host_can_add() {
    let (_dir, path) = image(1000);
    let device = FileDevice::open(&path, READ_WRITE).unwrap();
    let sparse = device.host_storage().unwrap().unwrap();
    assert!(sparse.allocated < 10 && sparse.available > 1000, "{sparse:?}");
    let blocks = numbered(100);
    device.write(0, &blocks.iter().collect::<Vec<_>>()).unwrap();
    device.flush().unwrap();
    let written = device.host_storage().unwrap().unwrap();
    assert!((100..150).contains(&written.allocated), "{written:?}");
    let len = path.metadata().unwrap().len();
    let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(std::fs::File::options().write(true).open(&path).unwrap(), flags, 0, len).unwrap();
    assert!(device.host_storage().unwrap().unwrap().allocated >= 1000);
}
