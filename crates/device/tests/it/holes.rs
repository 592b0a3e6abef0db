//! The next data on each kind of device: blocks that are left out read as zeros.
use segno_device::{BlockDevice, FileDevice, MemDevice, MultiDevice, OpenOptions, Overlay, open_storage};
use segno_format::{BLOCK_SIZE, Block};
use segno_sparse::Writer;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Blocks of the device, and those with data.
const BLOCKS: u64 = 40_000;
const DATA: [u64; 6] = [0, 300, 301, 9_999, 25_000, 39_998];

fn full() -> Block {
    Block([7; BLOCK_SIZE])
}

fn fill(device: &dyn BlockDevice, blocks: impl IntoIterator<Item = u64>) {
    blocks.into_iter().for_each(|at| device.write(at, &[&full()]).unwrap());
}

fn memory() -> Arc<dyn BlockDevice> {
    let device = MemDevice::new(BLOCKS);
    fill(&device, DATA);
    Arc::new(device)
}

fn file(dir: &Path) -> Arc<dyn BlockDevice> {
    let device = FileDevice::create(dir.join("file"), BLOCKS * BLOCK_SIZE as u64, false).unwrap();
    fill(&device, DATA);
    Arc::new(device)
}

/// Two members, of which the first has blocks after its share.
fn several() -> Arc<dyn BlockDevice> {
    let members: [Arc<dyn BlockDevice>; 3] =
        [12_000, 20_000, 18_000].map(|n| Arc::new(MemDevice::new(n)) as _);
    fill(&*members[0], [11_000]);
    let joined = MultiDevice::new(members.into_iter().zip([10_000, 14_000, 16_000]).collect()).unwrap();
    fill(&joined, DATA);
    Arc::new(joined)
}

/// Half of the data below, half in the overlay.
fn overlay() -> Arc<dyn BlockDevice> {
    let below = MemDevice::new(BLOCKS);
    fill(&below, DATA.into_iter().step_by(2));
    let device = Overlay::new(Arc::new(below));
    fill(&device, DATA.into_iter().skip(1).step_by(2));
    Arc::new(device)
}

fn android(dir: &Path) -> Arc<dyn BlockDevice> {
    let path = dir.join("android");
    let mut writer = Writer::new(File::create(&path).unwrap(), BLOCK_SIZE as u32, u32::MAX).unwrap();
    let mut at = 0;
    for data in DATA {
        // Blocks without content, and zeros.
        let gap = (data - at) as u32;
        writer.skip(gap / 2).unwrap();
        writer.fill(0, gap - gap / 2).unwrap();
        writer.write(&full().0).unwrap();
        at = data + 1;
    }
    writer.skip((BLOCKS - at) as u32).unwrap();
    writer.finish().unwrap();
    open_storage(&path, OpenOptions { read_only: true, direct: false }).unwrap()
}

#[test]
fn no_data_is_left_out_and_holes_are() {
    let dir = tempfile::tempdir().unwrap();
    // Blocks that are stored together with one that has data.
    let devices = [
        ("memory", memory(), 64),
        ("file", file(dir.path()), 64),
        ("several devices", several(), 64),
        ("overlay", overlay(), 64),
        ("Android sparse image", android(dir.path()), 1),
    ];
    for (name, device, unit) in devices {
        assert_eq!(device.block_count(), BLOCKS, "{name}");
        let (mut at, mut visited) = (device.next_data(0), 0);
        while at < BLOCKS {
            visited += 1;
            at = device.next_data(at + 1);
        }
        assert!(visited <= DATA.len() as u64 * unit, "{name}: {visited} blocks may have data");
        for from in DATA.iter().flat_map(|&data| [data.saturating_sub(70), data, data + 1]) {
            let next = device.next_data(from);
            let expected = DATA.into_iter().find(|&data| data >= from).unwrap_or(BLOCKS);
            assert!((from..=expected).contains(&next), "{name} from {from}: {next}, {expected}");
        }
        for data in DATA {
            let next = device.next_data(data.saturating_sub(70));
            let expected = DATA.into_iter().find(|&at| at >= data.saturating_sub(70)).unwrap_or(BLOCKS);
            assert!(expected - next < unit, "{name} before {data}: {next}");
        }
        assert_eq!(device.next_data(BLOCKS), BLOCKS, "{name}");
    }
}

/// 2^31 blocks of a sparse file of a few bytes, as they are, in an overlay and joined to another device.
#[test]
fn blocks_that_repeat_are_equal_and_end_where_another_begins() {
    const REPEATED: u64 = 1 << 31;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fill");
    let mut writer = Writer::new(File::create(&path).unwrap(), BLOCK_SIZE as u32, u32::MAX).unwrap();
    writer.write(&full().0).unwrap();
    writer.fill(0x0403_0201, REPEATED as u32).unwrap();
    writer.write(&full().0).unwrap();
    writer.finish().unwrap();
    let options = OpenOptions { read_only: true, direct: false };
    let plain = || open_storage(&path, options).unwrap();
    let end = REPEATED + 1;
    let written = Overlay::new(plain());
    fill(&written, [1000, 1001]);
    let joined = MultiDevice::new(vec![(plain(), 500), (Arc::new(MemDevice::new(512)), 512)]).unwrap();
    type Case<'a> = (&'a str, &'a dyn BlockDevice, &'a [(u64, u64)]);
    let cases: [Case<'_>; 3] = [
        ("sparse", &plain(), &[(0, 1), (1, end), (1_000_000, end), (end - 1, end), (end, end + 1)]),
        ("overlay", &written, &[(1, 1000), (1000, 1001), (1001, 1002), (1002, end)]),
        ("joined", &joined, &[(0, 1), (1, 500), (500, 501), (1011, 1012)]),
    ];
    for (name, device, ends) in cases {
        for &(addr, expected) in ends {
            assert_eq!(device.repeats_until(addr), expected, "{name} from {addr}");
            let mut two = [Block::zeroed(), Block::zeroed()];
            let (first, last) = two.split_at_mut(1);
            device.read(addr, first).unwrap();
            device.read(expected - 1, last).unwrap();
            assert!(two[0].0 == two[1].0, "{name} from {addr}");
        }
    }
}
