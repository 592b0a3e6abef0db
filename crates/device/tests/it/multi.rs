//! Several devices joined.
use parking_lot::Mutex;
use proptest::prelude::*;
use segno_device::{BlockDevice, Buffer, FileDevice, MemDevice, MultiDevice, ZoneLimits};
use segno_format::Block;
use segno_testkit::blocks::{compare_with_array, gathered, read, write, write_fua};
use segno_testkit::{CountDevice, ZoneShape, ZonedDevice};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts flushes, fails them while told to, and does something during the next one.
struct Flushes {
    inner: MemDevice,
    count: AtomicUsize,
    fail: AtomicBool,
    during: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Other calls for the whole device.
    ended: Mutex<Vec<&'static str>>,
}

impl Flushes {
    fn new(blocks: u64) -> Arc<Self> {
        let (count, fail) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self {
            inner: MemDevice::new(blocks),
            count,
            fail,
            during: Mutex::new(None),
            ended: Mutex::default(),
        })
    }
    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
    fn end(&self, call: &'static str) -> io::Result<()> {
        self.ended.lock().push(call);
        if self.fail.load(Ordering::SeqCst) { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
    }
}

impl BlockDevice for Flushes {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.inner.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.inner.write(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.inner.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.count.fetch_add(1, Ordering::SeqCst);
        if let Some(during) = self.during.lock().take() {
            during();
        }
        if self.fail.load(Ordering::SeqCst) { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.inner.discard(addr, count)
    }
    fn read_only(&self) -> bool {
        false
    }
    fn drain(&self) -> io::Result<()> {
        self.end("drain")
    }
    fn close(&self) -> io::Result<()> {
        self.end("close")
    }
}

fn joined(shares: [u64; 3]) -> (Vec<Arc<Flushes>>, MultiDevice) {
    // Slack after each share shows that it is not used.
    let members: Vec<_> = shares.iter().map(|&s| Flushes::new(s + 5)).collect();
    let table = members.iter().zip(shares).map(|(m, s)| (Arc::clone(m) as Arc<dyn BlockDevice>, s));
    let device = MultiDevice::new(table.collect()).unwrap();
    (members, device)
}

#[test]
fn an_access_is_split_at_the_boundaries() {
    let (members, device) = joined([4, 2, 3]);
    assert_eq!(device.block_count(), 9);
    write(&device, 3, &[1, 2, 3, 4]);
    assert_eq!(read(&members[0].inner, 3, 2), [1, 0]);
    assert_eq!(read(&members[1].inner, 0, 3), [2, 3, 0]);
    assert_eq!(read(&members[2].inner, 0, 2), [4, 0]);
    assert_eq!(read(&device, 2, 6), [0, 1, 2, 3, 4, 0]);
    device.discard(4, 3).unwrap();
    assert_eq!(read(&device, 2, 6), [0, 1, 0, 0, 0, 0]);
}

/// It is written and flushed as a part of the first device, and a device with zones has none.
#[test]
fn what_the_first_device_has_beyond_its_share_follows_the_last() {
    let members = [9, 7].map(Flushes::new);
    let table = |shares: [u64; 2]| {
        let devices = members.iter().map(|m| Arc::clone(m) as Arc<dyn BlockDevice>);
        MultiDevice::of_volume(devices.zip(shares).collect()).unwrap()
    };
    let device = table([4, 2]);
    assert_eq!(device.block_count(), 4 + 2 + 5);
    write(&device, 0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(read(&members[0].inner, 0, 9), [1, 2, 3, 4, 7, 8, 9, 10, 11]);
    assert_eq!(read(&members[1].inner, 0, 3), [5, 6, 0]);
    assert_eq!(read(&device, 3, 5), [4, 5, 6, 7, 8]);
    assert!(device.read(10, &mut [Block::zeroed(), Block::zeroed()]).is_err());
    assert_eq!((device.next_data(6), device.next_data(10)), (6, 10));
    let before = members[0].count();
    write(&device, 1, &[1]);
    write(&device, 9, &[1]);
    device.flush().unwrap();
    assert_eq!(members[0].count(), before + 1, "one flush for both parts");
    assert_eq!(table([9, 7]).block_count(), 16);
    let shape = ZoneShape {
        zones: 4,
        conventional: 1,
        blocks: 4,
        capacity: 4,
        limits: ZoneLimits { open: 0, active: 0 },
    };
    let zoned: Arc<dyn BlockDevice> = Arc::new(ZonedDevice::new(shape));
    let joined = MultiDevice::of_volume(vec![(zoned, 8), (members[1].clone(), 7)]).unwrap();
    assert_eq!((joined.block_count(), joined.zones().unwrap().len()), (15, 2));
}

#[test]
fn a_read_goes_on_in_one_device_or_is_made_at_once_in_several() {
    let (_members, device) = joined([4, 2, 3]);
    write(&device, 0, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for (addr, count) in [(0, 4), (4, 2), (6, 3), (1, 3), (3, 2), (2, 7)] {
        let buffer = device.start_read(addr, Buffer::new(count)).wait().unwrap();
        let fills: Vec<u8> = buffer.blocks().iter().map(|b| b.0[5]).collect();
        assert_eq!(fills, (addr as u8 + 1..).take(count).collect::<Vec<_>>());
    }
    assert!(device.start_read(8, Buffer::new(2)).wait().is_err());
}

#[test]
fn each_device_prepares_its_share_and_is_written_behind() {
    let dir = tempfile::tempdir().unwrap();
    let open = |n: usize| FileDevice::create(dir.path().join(n.to_string()), 1 << 20, false).unwrap();
    let members = (0..2).map(|n| (Arc::new(open(n)) as Arc<dyn BlockDevice>, 256)).collect();
    let device = CountDevice::new(MultiDevice::new(members).unwrap());
    device.prepare(200, 100).unwrap();
    gathered(&[7; 4], |b| device.write_behind(254, b)).unwrap();
    device.flush().unwrap();
    assert_eq!(read(&device, 253, 6), [0, 7, 7, 7, 7, 0]);
    let stored = |n: usize| std::fs::metadata(dir.path().join(n.to_string())).unwrap().blocks() * 512;
    assert!(stored(0) >= 56 * 4096 && stored(1) >= 44 * 4096, "{} and {}", stored(0), stored(1));
    assert!(device.prepare(500, 13).is_err(), "past the end");
}

#[test]
fn all_devices_are_drained_and_closed_though_one_fails() {
    let (members, device) = joined([4, 4, 4]);
    device.drain().unwrap();
    device.close().unwrap();
    members[1].fail.store(true, Ordering::SeqCst);
    device.drain().unwrap_err();
    device.close().unwrap_err();
    for member in members {
        assert_eq!(*member.ended.lock(), ["drain", "close", "drain", "close"]);
    }
}

#[test]
fn only_written_devices_are_flushed() {
    let (members, device) = joined([4, 4, 4]);
    let counts = || members.iter().map(|m| m.count()).collect::<Vec<_>>();
    device.flush().unwrap();
    assert_eq!(counts(), [0, 0, 0]);
    write(&device, 5, &[1]);
    write_fua(&device, 0, &[1]);
    device.flush().unwrap();
    assert_eq!(counts(), [0, 1, 0]);
    device.discard(8, 1).unwrap();
    device.flush().unwrap();
    device.flush().unwrap();
    assert_eq!(counts(), [0, 1, 1]);
}

#[test]
fn a_failed_flush_is_tried_again_and_stops_no_other() {
    let (members, device) = joined([4, 4, 4]);
    write(&device, 0, &[1; 12]);
    members[0].fail.store(true, Ordering::SeqCst);
    device.flush().unwrap_err();
    assert_eq!(members[2].count(), 1);
    members[0].fail.store(false, Ordering::SeqCst);
    device.flush().unwrap();
    assert_eq!(members.iter().map(|m| m.count()).collect::<Vec<_>>(), [2, 1, 1]);
}

#[test]
fn a_flush_waits_for_one_that_runs_already() {
    let (members, device) = joined([4, 4, 4]);
    let device = Arc::new(device);
    write(&*device, 0, &[1]);
    let (send, second) = std::sync::mpsc::channel();
    let other = Arc::clone(&device);
    *members[0].during.lock() = Some(Box::new(move || {
        let second = std::thread::spawn(move || other.flush().unwrap());
        for _ in 0..2000 {
            std::thread::yield_now();
            assert!(!second.is_finished(), "returned while the block was not durable yet");
        }
        send.send(second).unwrap();
    }));
    device.flush().unwrap();
    second.recv().unwrap().join().unwrap();
    assert_eq!(members[0].count(), 1);
}

#[test]
fn a_device_smaller_than_its_share_is_refused() {
    let small: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(7));
    assert!(MultiDevice::new(vec![(Arc::clone(&small), 7)]).is_ok());
    let refused = MultiDevice::new(vec![(small, 8)]).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("device 0 has 7 blocks"), "{refused}");
}

#[test]
fn nothing_is_written_when_the_end_does_not_fit() {
    let (members, device) = joined([4, 2, 3]);
    gathered(&[1; 7], |b| device.write(3, b)).unwrap_err();
    assert_eq!(read(&members[0].inner, 3, 1), [0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn behaves_like_an_array(
        shares in [0u64..20, 0u64..20, 1u64..20],
        ops in prop::collection::vec((0u8..4, 0u64..60, 0u64..40, 0u8..4), 1..20),
    ) {
        compare_with_array(&joined(shares).1, &ops);
    }
}
