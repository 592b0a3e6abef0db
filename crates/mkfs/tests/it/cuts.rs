//! A format that is cut anywhere leaves the old contents, the new volume, or a device that is named as being formatted.

use crate::overwrite::block;
use segno_check::{CheckOptions, check};
use segno_device::{
    BlockDevice, Contents, MemDevice, MultiDevice, Zone, ZoneCondition, ZoneKind, require_superblock,
};
use segno_format::superblock::RawSuperblock;
use segno_format::{BLOCK_SIZE, Block, Structure};
use segno_mkfs::{Member, MkfsOptions, format};
use segno_testkit::{CrashLog, CrashPlan, CrashStates, FlushRegion, RecordDevice, Window, forward};
use std::io;
use std::path::Path;
use std::sync::Arc;

const OLD: [u8; 16] = [1; 16];
const NEW: [u8; 16] = [2; 16];
const SEGMENT: u64 = 512;

/// Devices that share one log, so that a cut hits all of them.
#[derive(Clone)]
struct Shape {
    /// Segments of each device, and whether its zones have to be written in order.
    devices: Vec<(u64, bool)>,
    options: MkfsOptions,
}

/// One whose zones have to be written in order.
struct Sequential(Window);

impl BlockDevice for Sequential {
    forward!(0: block_count, read, write, write_fua, flush, discard, read_only);
    fn zones(&self) -> io::Result<Vec<Zone>> {
        let zone = |start| Zone {
            start,
            blocks: SEGMENT,
            capacity: SEGMENT,
            pointer: start + SEGMENT,
            kind: ZoneKind::Sequential,
            condition: ZoneCondition::Full,
        };
        Ok((0..self.block_count()).step_by(SEGMENT as usize).map(zone).collect())
    }
}

impl Shape {
    fn one(options: MkfsOptions) -> Self {
        Self { devices: vec![(32, false)], options }
    }

    fn blocks(&self) -> u64 {
        self.devices.iter().map(|(segments, _)| segments * SEGMENT).sum()
    }

    fn members(&self, whole: &Arc<dyn FlushRegion>) -> Vec<Member> {
        let mut start = 0;
        let member = |&(segments, sequential): &(u64, bool)| {
            let (from, path) = (start, format!("device at {start}"));
            start += segments * SEGMENT;
            let window = Window::new(Arc::clone(whole), from..start).unwrap();
            let device: Arc<dyn BlockDevice> =
                if sequential { Arc::new(Sequential(window)) } else { Arc::new(window) };
            Member { path, device, zeroed: false }
        };
        self.devices.iter().map(member).collect()
    }

    fn format(&self, whole: &Arc<dyn FlushRegion>, uuid: [u8; 16]) {
        let options = MkfsOptions { uuid: Some(uuid), force: true, ..self.options.clone() };
        format(&self.members(whole), &options).unwrap();
    }

    /// The volume, which may end before its only device does.
    fn joined(&self, whole: &Arc<dyn FlushRegion>) -> Arc<dyn BlockDevice> {
        let shares = self.members(whole).into_iter().map(|m| (Arc::clone(&m.device), m.device.block_count()));
        match &shares.collect::<Vec<_>>()[..] {
            [(only, _)] => Arc::clone(only),
            all => Arc::new(MultiDevice::new(all.to_vec()).unwrap()),
        }
    }
}

fn junk(blocks: u64) -> MemDevice {
    let device = MemDevice::new(blocks);
    let block = Block([0xA5; BLOCK_SIZE]);
    (0..blocks).for_each(|addr| device.write(addr, &[&block]).unwrap());
    device
}

/// The volume that a reader finds.
fn uuid(device: &dyn BlockDevice) -> Option<[u8; 16]> {
    let copy = |copy: u64| RawSuperblock::from_block(&block(device, copy).0).parse(copy).ok();
    copy(0).or_else(|| copy(1)).map(|sb| sb.raw.uuid)
}

/// Counts of the three outcomes.
#[derive(Debug, Default)]
struct Seen {
    old: usize,
    named: usize,
    new: usize,
}

impl Seen {
    /// `start` has the bytes before the format.
    fn add(&mut self, shape: &Shape, start: &dyn BlockDevice, state: MemDevice, at: &str) {
        let state: Arc<dyn FlushRegion> = Arc::new(state);
        let same = |addr: &u64| block(&*state, *addr).0 == block(start, *addr).0;
        match uuid(&*state) {
            Some(NEW) => {
                let report = check(&*shape.joined(&state), &CheckOptions::default(), &mut |_| {}).unwrap();
                let harmless = |s: Structure| matches!(s, Structure::Superblock);
                let bad: Vec<_> = report.problems.iter().filter(|p| !harmless(p.structure)).collect();
                assert!(bad.is_empty() && report.complete, "{at}: {bad:?}");
                self.new += 1;
            }
            Some(_) => {
                // Either copy of the superblock will do.
                let changed: Vec<u64> = (2..shape.blocks()).filter(|addr| !same(addr)).collect();
                assert_eq!(changed, [], "{at}: the old volume is there, and changed");
                self.old += 1;
            }
            None if (0..shape.blocks()).all(|addr| same(&addr)) => self.old += 1,
            None => {
                let first = &shape.members(&state)[0].device;
                let refused = require_superblock(Path::new("d"), &**first).unwrap_err().to_string();
                assert!(
                    refused.starts_with("d was being formatted when that was interrupted"),
                    "{at}: {refused}"
                );
                self.named += 1;
            }
        }
    }
}

/// Formats over `start` and judges every state that a cut leaves.
fn cut(shape: &Shape, start: MemDevice, seed: u64) -> Seen {
    let base = start.snapshot();
    let device = Arc::new(RecordDevice::new(start));
    shape.format(&(Arc::clone(&device) as Arc<dyn FlushRegion>), NEW);
    let log = CrashLog::new(base.clone(), device.log()).unwrap();
    let plan = CrashPlan { subsets: 20, torn_data: 4, ..CrashPlan::new(seed) };
    let (mut seen, start) = (Seen::default(), MemDevice::from_snapshot(&base));
    let first_blocks = |addr: u64, _: &[u8; BLOCK_SIZE]| addr < 2;
    for state in CrashStates::new(&log, plan, first_blocks) {
        let at = format!("seed {seed}, state {}: {}", state.index, state.choice);
        seen.add(shape, &start, state.device, &at);
    }
    seen
}

fn old_volume(shape: &Shape) -> MemDevice {
    let device = Arc::new(junk(shape.blocks()));
    shape.format(&(Arc::clone(&device) as Arc<dyn FlushRegion>), OLD);
    MemDevice::from_snapshot(&device.snapshot())
}

fn zoned() -> Shape {
    let options = MkfsOptions { zoned: true, ..MkfsOptions::default() };
    Shape { devices: vec![(8, false), (33, true)], options }
}

#[test]
fn a_format_cut_anywhere_leaves_the_old_volume_the_new_one_or_a_named_device() {
    let several =
        Shape { devices: vec![(20, false), (12, false), (10, false)], ..Shape::one(MkfsOptions::default()) };
    let gap = MkfsOptions { gap_blocks: 2 * SEGMENT, ..MkfsOptions::default() };
    let keeping = MkfsOptions { discard: Some(false), ..MkfsOptions::default() };
    let shapes = [Shape::one(MkfsOptions::default()), Shape::one(keeping), Shape::one(gap), several, zoned()];
    for (seed, shape) in (0..).zip(&shapes) {
        let seen = cut(shape, old_volume(shape), seed);
        println!("{seen:?}");
        assert!(seen.old > 3 && seen.named > 50 && seen.new > 3, "seed {seed}: {seen:?}");
    }
}

#[test]
fn a_format_cut_anywhere_over_other_data_leaves_it_or_a_named_device() {
    let shape = Shape::one(MkfsOptions::default());
    let ext = junk(shape.blocks());
    let mut superblock = Block([0xA5; BLOCK_SIZE]);
    superblock.0[0x438..0x43A].copy_from_slice(&[0x53, 0xEF]);
    ext.write(0, &[&superblock]).unwrap();
    assert_eq!(Contents::of(&ext).unwrap().to_string(), "holds an ext4 file system");
    let seen = cut(&shape, ext, 7);
    assert!(seen.old > 0 && seen.named > 100 && seen.new > 3, "{seen:?}");
}

/// Before the format each device may have had a volume.
#[test]
fn no_old_volume_on_another_device_outlives_its_blocks() {
    let shape = Shape { devices: vec![(20, false), (32, false)], ..Shape::one(MkfsOptions::default()) };
    let second = |device: &Arc<dyn FlushRegion>| shape.members(device).remove(1);
    let device = Arc::new(junk(shape.blocks()));
    let start: Arc<dyn FlushRegion> = device.clone();
    let options = MkfsOptions { uuid: Some(OLD), force: true, ..MkfsOptions::default() };
    format(&[second(&start)], &options).unwrap();
    let base = device.snapshot();
    let device = Arc::new(RecordDevice::new(MemDevice::from_snapshot(&base)));
    shape.format(&(Arc::clone(&device) as Arc<dyn FlushRegion>), NEW);
    let log = CrashLog::new(base, device.log()).unwrap();
    let (mut old, mut gone) = (0, 0);
    for state in CrashStates::new(&log, CrashPlan::new(3), |addr, _| addr < 2) {
        let now = second(&(Arc::new(state.device) as Arc<dyn FlushRegion>)).device;
        if uuid(&*now) != Some(OLD) {
            gone += 1;
            continue;
        }
        let before = second(&start).device;
        let changed = (1..now.block_count()).find(|addr| block(&*now, *addr).0 != block(&*before, *addr).0);
        assert_eq!(changed, None, "state {}: {}", state.index, state.choice);
        old += 1;
    }
    assert!(old > 3 && gone > 100, "{old} {gone}");
}
