//! A source of 16 TiB that is a hole except for a few blocks: the number of reads depends on the data, not on
//! the size.
use crate::fixture::{features, volume};
use segno_device::{BlockDevice, MemDevice};
use segno_format::Block;
use segno_rescue::scan::BadBlocks;
use segno_rescue::{Found, ScanOptions, Shifted, Tree, Volume, scan};
use segno_testkit::CountDevice;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// One more than there are addresses.
const BLOCKS: u64 = 1 << 32;
/// Blocks that are read at once.
const PIECE: u64 = 1024;

/// A volume of 64 MiB with a file, at the start of a large device.
fn source() -> CountDevice<MemDevice> {
    let (small, v) = volume(64, features());
    v.write("file", vec![5; 200_000]).unwrap();
    v.close().unwrap();
    let large = MemDevice::new(BLOCKS);
    let mut one = [Block::zeroed()];
    for at in small.filled() {
        small.read(at, &mut one).unwrap();
        large.write(at, &[&one[0]]).unwrap();
    }
    // Other data, at the end.
    large.write(BLOCKS - 2, &[&Block([9; 4096])]).unwrap();
    CountDevice::new(large)
}

fn look(device: &dyn BlockDevice, known_bad: &BadBlocks) -> (Found, u64) {
    let (stop, furthest) = (AtomicBool::new(false), Mutex::new(0u64));
    let options = ScanOptions { threads: 2, known_bad, base: Some(0), stop: &stop };
    let progress = |done: u64| {
        let mut furthest = furthest.lock().unwrap();
        *furthest = done.max(*furthest);
    };
    let found = scan(device, &options, &progress).unwrap();
    (found, furthest.into_inner().unwrap())
}

fn bad(ranges: &[Range<u64>]) -> BadBlocks {
    let line = |r: &Range<u64>| format!("{:#x} {:#x} -\n", r.start * 4096, (r.end - r.start) * 4096);
    let text = format!("0x0 + 1\n{}", ranges.iter().map(line).collect::<String>());
    BadBlocks::from_mapfile(&text, std::path::Path::new("map")).unwrap()
}

#[test]
fn holes_are_not_read() {
    let device = source();
    let before = device.counts();
    let (found, furthest) = look(&device, &BadBlocks::default());
    let read = (device.counts() - before).blocks_read;
    assert!(read <= (64 << 8) + 2 * PIECE, "{read} blocks were read");
    assert_eq!(furthest, u64::from(u32::MAX));
    let volume = Volume::find(&device, found, false);
    let tree = Tree::build(&volume);
    assert_eq!(tree.entries.len(), 2, "the root and the file");
    let all = (device.counts() - before).blocks_read;
    assert!(all <= read + 20_000, "{all} blocks were read");
}

/// The image that ddrescue leaves has holes where it could not read.
#[test]
fn a_hole_that_could_not_be_read_is_no_data() {
    let device = source();
    let ranges = [70_000..70_001, 1 << 20..(1 << 31) + 5, BLOCKS - 5..BLOCKS - 3];
    let (found, _) = look(&device, &bad(&ranges));
    assert_eq!(found.bad.ranges(), ranges);
    assert!(!found.nodes.is_empty());
}

#[test]
fn a_volume_between_two_blocks_is_found_behind_a_hole() {
    let device = MemDevice::new(1 << 30);
    for at in [1000, 500_000] {
        device.write(at, &[&Block([9; 4096])]).unwrap();
    }
    for offset in [0, 512, 4096, 5 * 4096 + 3584] {
        let shifted = Shifted::new(&device, offset);
        let mut one = [Block::zeroed()];
        let (mut at, mut seen) = (shifted.next_data(0), 0);
        while at < 600_000 {
            shifted.read(at, &mut one).unwrap();
            seen += one[0].0.iter().filter(|&&b| b == 9).count();
            at = shifted.next_data(at + 1);
        }
        assert_eq!(seen, 2 * 4096, "{offset}");
    }
}
