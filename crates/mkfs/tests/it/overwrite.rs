//! Old contents of a device must neither survive nor reappear.
use crate::compare::{MIB, members, sparse};
use segno_device::{BlockDevice, MemDevice};
use segno_format::{BLOCK_SIZE, Block, Features};
use segno_mkfs::{Member, MkfsOptions, format};
use segno_testkit::f2fs_tools;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCKS: u64 = 64 * MIB / BLOCK_SIZE as u64;

/// A device that ignores discards and counts the blocks written to it.
struct NoDiscardDevice {
    inner: MemDevice,
    written: AtomicU64,
}

impl NoDiscardDevice {
    fn filled(byte: u8) -> Self {
        let inner = MemDevice::new(BLOCKS);
        let block = Block([byte; BLOCK_SIZE]);
        (0..BLOCKS).for_each(|addr| inner.write(addr, &[&block]).unwrap());
        Self { inner, written: AtomicU64::new(0) }
    }
}

impl BlockDevice for NoDiscardDevice {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.inner.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
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

pub fn block(device: &dyn BlockDevice, addr: u64) -> Block {
    let mut into = [Block::zeroed()];
    device.read(addr, &mut into).unwrap();
    let [block] = into;
    block
}

/// A device full of old data, without a working discard, gets the same tables as a fresh one.
#[test]
fn old_contents_do_not_shine_through() {
    let fresh = Arc::new(MemDevice::new(BLOCKS));
    let layout = format(&[member(fresh.clone(), true)], &options()).unwrap().layout;
    let dirty = Arc::new(NoDiscardDevice::filled(0xA5));
    let force = MkfsOptions { force: true, ..options() };
    format(&[member(dirty.clone(), false)], &force).unwrap();

    let segments = |start: u32, n: u32| u64::from(start)..u64::from(start + n * 512);
    let sit = segments(layout.geo.sit_blkaddr, layout.geo.segment_count_sit / 2);
    // Of the NAT the first segment of each pair is the first copy; here there is one pair.
    assert_eq!(layout.geo.segment_count_nat, 2);
    let nat = segments(layout.geo.nat_blkaddr, 1);
    let pack = u64::from(layout.geo.cp_blkaddr)..u64::from(layout.geo.cp_blkaddr) + 6;
    let warm_node = layout.curseg_start(segno_format::sit::LogType::WarmNode).0.into();
    for addr in (0..512).chain(pack).chain(sit).chain(nat).chain([warm_node]) {
        assert_eq!(block(&*dirty, addr).0, block(&*fresh, addr).0, "block {addr}");
    }
    assert_eq!(block(&*dirty, BLOCKS - 1).0[0], 0xA5);
}

/// Zeroing the tables of a huge device that is known to be empty would take minutes.
#[test]
fn an_empty_device_is_not_cleared() {
    let device = Arc::new(NoDiscardDevice { inner: MemDevice::new(1 << 30), written: 0.into() });
    format(&[member(device.clone(), true)], &options()).unwrap();
    let written = device.written.load(Ordering::Relaxed);
    assert!(written < 50, "{written} blocks written");
}

/// Holes read as zeros, so nothing is written over them either.
#[test]
fn a_reused_image_stays_sparse() {
    let dir = tempfile::tempdir().unwrap();
    let image = sparse(&dir.path().join("image"), 40 << 30);
    let members = members(std::slice::from_ref(&image));
    for force in [false, true] {
        format(&members, &MkfsOptions { force, ..options() }).unwrap();
        let allocated = std::os::unix::fs::MetadataExt::blocks(&image.metadata().unwrap()) * 512;
        assert!(allocated < MIB, "{allocated} bytes allocated");
    }
    f2fs_tools::assert_clean("a second format", &image);
}
