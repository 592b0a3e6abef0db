//! What a device held before must neither survive nor come back.
use crate::compare::{MIB, members};
use crate::tools;
use segno_device::{BlockDevice, MemDevice};
use segno_format::superblock::RawSuperblock;
use segno_format::{BLOCK_SIZE, Block, Features};
use segno_mkfs::{Member, MkfsError, MkfsOptions, format, probe};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCKS: u64 = 64 * MIB / BLOCK_SIZE as u64;

/// A device that ignores discards, counts the blocks written to it and can stop taking them.
struct Tough {
    inner: MemDevice,
    written: AtomicU64,
    /// Writes that still succeed.
    left: AtomicU64,
}

impl Tough {
    fn filled(byte: u8) -> Self {
        let inner = MemDevice::new(BLOCKS);
        let block = Block([byte; BLOCK_SIZE]);
        (0..BLOCKS).for_each(|addr| inner.write(addr, &[&block]).unwrap());
        Self { inner, written: AtomicU64::new(0), left: AtomicU64::new(u64::MAX) }
    }
}

impl BlockDevice for Tough {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.inner.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.checked_sub(1).ok_or(io::ErrorKind::ConnectionReset)?, Ordering::Relaxed);
        self.written.fetch_add(blocks.len() as u64, Ordering::Relaxed);
        self.inner.write(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.write(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }
    fn discard(&self, _addr: u64, _count: u64) -> io::Result<()> {
        Ok(())
    }
    fn read_only(&self) -> bool {
        false
    }
}

fn member(device: Arc<dyn BlockDevice>, zeroed: bool) -> Member {
    Member { device, path: "mem".into(), zeroed }
}

fn options() -> MkfsOptions {
    MkfsOptions {
        uuid: Some([7; 16]),
        checkpoint_ver: Some(77),
        timestamp: Some(1),
        features: Features::LOST_FOUND | Features::QUOTA_INO,
        ..MkfsOptions::default()
    }
}

fn block(device: &dyn BlockDevice, addr: u64) -> Block {
    let mut into = [Block::zeroed()];
    device.read(addr, &mut into).unwrap();
    let [block] = into;
    block
}

fn superblocks(device: &dyn BlockDevice) -> [bool; 2] {
    [0, 1].map(|copy| RawSuperblock::from_block(&block(device, copy).0).parse(copy).is_ok())
}

/// A device full of old data, without a working discard, gets the same tables as a fresh one.
#[test]
fn old_contents_do_not_shine_through() {
    let fresh = Arc::new(MemDevice::new(BLOCKS));
    let layout = format(&[member(fresh.clone(), true)], &options()).unwrap().layout;
    let dirty = Arc::new(Tough::filled(0xA5));
    format(&[member(dirty.clone(), false)], &options()).unwrap();

    let segments = |start: u32, n: u32| u64::from(start)..u64::from(start + n * 512);
    let sit = segments(layout.sit_blkaddr, layout.segment_count_sit / 2);
    // Of the NAT the first segment of each pair is the first copy; here there is one pair.
    assert_eq!(layout.segment_count_nat, 2);
    let nat = segments(layout.nat_blkaddr, 1);
    let pack = u64::from(layout.cp_blkaddr)..u64::from(layout.cp_blkaddr) + 6;
    let warm_node = layout.curseg_start(segno_format::sit::LogType::WarmNode).0.into();
    for addr in (0..512).chain(pack).chain(sit).chain(nat).chain([warm_node]) {
        assert_eq!(block(&*dirty, addr).0, block(&*fresh, addr).0, "block {addr}");
    }
    assert_eq!(block(&*dirty, BLOCKS - 1).0[0], 0xA5);
}

/// Only a finished format may be mountable: neither the old volume nor half of the new one.
#[test]
fn a_format_cut_off_leaves_nothing_to_mount() {
    let mut cut = 0;
    loop {
        let device = Arc::new(Tough::filled(0xA5));
        let old = MkfsOptions { uuid: Some([1; 16]), ..options() };
        format(&[member(device.clone(), false)], &old).unwrap();
        assert_eq!(superblocks(&*device), [true; 2]);
        device.left.store(cut, Ordering::Relaxed);
        let done = format(&[member(device.clone(), false)], &options());
        let mountable = superblocks(&*device);
        match done {
            Ok(_) => break assert_eq!(mountable, [true; 2]),
            Err(MkfsError::Io { path, doing, .. }) => {
                assert_eq!(path, "mem");
                let expected = match (cut, doing) {
                    (0, _) => [true; 2],
                    // Everything else was written and flushed before the first copy.
                    (_, "writing the superblocks") => [mountable[0], false],
                    _ => [false; 2],
                };
                assert_eq!(mountable, expected, "after {cut} writes, {doing}");
            }
            Err(e) => panic!("{e}"),
        }
        cut += 1;
    }
    assert!(cut > 8, "only {cut} writes");
}

/// Zeroing the tables of a huge device that is known to be empty would take minutes.
#[test]
fn an_empty_device_is_not_cleared() {
    let device = Arc::new(Tough { inner: MemDevice::new(1 << 30), written: 0.into(), left: u64::MAX.into() });
    format(&[member(device.clone(), true)], &options()).unwrap();
    let written = device.written.load(Ordering::Relaxed);
    assert!(written < 50, "{written} blocks written");
}

/// Holes read as zeros, so nothing is written over them either.
#[test]
fn a_reused_image_stays_sparse() {
    let dir = tempfile::tempdir().unwrap();
    let image = tools::sparse(&dir.path().join("image"), 40 << 30);
    let members = members(std::slice::from_ref(&image));
    for _ in 0..2 {
        format(&members, &options()).unwrap();
        let allocated = std::os::unix::fs::MetadataExt::blocks(&image.metadata().unwrap()) * 512;
        assert!(allocated < MIB, "{allocated} bytes allocated");
    }
    tools::fsck_is_clean("a second format", &[image]);
}

#[test]
fn what_was_there_is_seen() {
    let device = Arc::new(MemDevice::new(BLOCKS));
    assert_eq!(probe(&*device).unwrap(), None);
    format(&[member(device.clone(), true)], &options()).unwrap();
    assert_eq!(probe(&*device).unwrap(), Some("f2fs"));
}
