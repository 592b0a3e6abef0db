//! Compares the states with the contents that the rules allow for each single sector.
use super::*;
use crate::blocks::{read, write, write_fua};
use crate::record::Event;
use crate::{RecordDevice, Window};
use proptest::prelude::*;
use segno_device::{BlockDevice, MemDevice};
use segno_format::Block;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

const BLOCKS: u64 = 6;
/// Byte that fills the base.
const BASE: u8 = 255;

/// A log over a base full of [`BASE`]; the script makes the changes.
fn log(script: impl FnOnce(&RecordDevice<MemDevice>)) -> CrashLog {
    let device = MemDevice::new(BLOCKS);
    write(&device, 0, &[BASE; BLOCKS as usize]);
    let base = device.snapshot();
    let device = RecordDevice::new(device);
    script(&device);
    CrashLog::new(base, device.log()).unwrap()
}

fn no_metadata(_: u64, _: &[u8; 4096]) -> bool {
    false
}

/// The byte that fills each sector.
fn sectors(device: &MemDevice) -> Vec<u8> {
    let mut blocks = vec![Block::zeroed(); BLOCKS as usize];
    device.read(0, &mut blocks).unwrap();
    let sectors: Vec<&[u8]> = blocks.iter().flat_map(|b| b.0.chunks(512)).collect();
    assert!(sectors.iter().all(|s| s.iter().all(|&b| b == s[0])), "a sector is mixed");
    sectors.iter().map(|s| s[0]).collect()
}

/// The allowed values of a block after a cut: the newest durable value, or any later one.
fn allowed(log: &CrashLog, block: u64, cut: usize) -> BTreeSet<u8> {
    let durable_below = log.events()[..cut].iter().fold(0, |d, e| match e {
        Event::Flush { covers, within } if within.contains(&block) => d.max(*covers),
        _ => d,
    });
    let mut values = BTreeSet::from([BASE]);
    for (index, event) in log.events()[..cut].iter().enumerate() {
        let (value, through) = match event {
            Event::Write { addr, blocks, fua } if (*addr..addr + blocks.len() as u64).contains(&block) => {
                (blocks[(block - addr) as usize][0], *fua && index + 1 < cut)
            }
            Event::Discard { addr, count } if (*addr..addr + count).contains(&block) => (0, false),
            _ => continue,
        };
        if index < durable_below || through {
            values.clear();
        }
        values.insert(value);
    }
    values
}

#[test]
fn a_flush_keeps_what_came_before_and_the_rest_is_any_subset() {
    let log = log(|d| {
        write(d, 0, &[1]);
        d.flush().unwrap();
        write(d, 1, &[2]);
        write(d, 2, &[3]);
    });
    let states = CrashStates::new(&log, CrashPlan { torn_data: 0, ..CrashPlan::new(1) }, no_metadata);
    let seen: HashSet<(usize, Vec<u8>)> = states.map(|s| (s.choice.cut, read(&s.device, 0, 3))).collect();
    let at = |cut, blocks: &[u8]| (cut, blocks.to_vec());
    let expected = HashSet::from([
        at(0, &[BASE, BASE, BASE]),
        at(1, &[BASE, BASE, BASE]),
        at(2, &[1, BASE, BASE]),
        at(3, &[1, 2, BASE]),
        at(4, &[1, BASE, BASE]),
        at(4, &[1, 2, BASE]),
        at(4, &[1, BASE, 3]),
        at(4, &[1, 2, 3]),
    ]);
    assert_eq!(seen, expected);
}

#[test]
fn a_fua_write_is_durable_once_it_has_returned() {
    let log = log(|d| {
        write(d, 0, &[1]);
        write_fua(d, 1, &[2]);
        d.mark("promised");
        write(d, 2, &[3]);
    });
    let mut lost_before_it_returned = false;
    for state in CrashStates::new(&log, CrashPlan::new(1), |_, _| true) {
        let found = sectors(&state.device);
        if log.marks(state.choice.cut).any(|m| m == "promised") {
            assert_eq!(found[8..16], [2; 8], "{}", state.choice);
        } else {
            lost_before_it_returned |= state.choice.cut == 2 && found[8] == BASE;
        }
    }
    assert!(lost_before_it_returned);
}

#[test]
fn what_was_written_while_a_flush_ran_is_not_covered_by_it() {
    let recorded = log(|d| (1..4).for_each(|i| write(d, u64::from(i), &[i])));
    let [first, during, after] = recorded.events() else { unreachable!("three writes were made") };
    let events =
        vec![first.clone(), during.clone(), Event::Flush { covers: 1, within: 0..BLOCKS }, after.clone()];
    let overlapping = CrashLog::new(
        recorded.image(&CrashChoice { cut: 0, kept: Kept::All, torn: None }).snapshot(),
        events,
    );
    let overlapping = overlapping.unwrap();
    let plan = CrashPlan { torn_data: 0, ..CrashPlan::new(1) };
    let at_end: HashSet<_> = CrashStates::new(&overlapping, plan, no_metadata)
        .filter(|s| s.choice.cut == 4)
        .map(|s| read(&s.device, 1, 3))
        .collect();
    let expected = [[1, BASE, BASE], [1, 2, BASE], [1, BASE, 3], [1, 2, 3]];
    assert_eq!(at_end, expected.map(|e| e.to_vec()).into());
}

#[test]
fn an_older_write_never_comes_back_over_a_durable_one() {
    let log = log(|d| {
        write(d, 0, &[1]);
        write_fua(d, 0, &[2]);
        write(d, 1, &[3]);
    });
    let last = CrashStates::new(&log, CrashPlan::new(1), no_metadata).filter(|s| s.choice.cut == 3);
    assert!(last.map(|s| read(&s.device, 0, 1)).all(|b| b == [2]));
}

#[test]
fn metadata_is_cut_at_every_sector_and_data_now_and_then() {
    let log = log(|d| write(d, 1, &[1, 2, 3, 4]));
    let torn = |plan, is_metadata: fn(u64, &[u8; 4096]) -> bool| {
        CrashStates::new(&log, plan, is_metadata)
            .filter_map(|s| s.choice.torn.map(|t| (t, sectors(&s.device))))
            .collect::<Vec<_>>()
    };
    let all = torn(CrashPlan::new(1), |_, _| true);
    assert_eq!(all.iter().map(|(t, _)| *t).collect::<Vec<_>>(), (1..32).collect::<Vec<_>>());
    for (arrived, found) in all {
        for (index, &byte) in found.iter().enumerate() {
            let new = (8..8 + arrived as usize).contains(&index);
            assert_eq!(byte, if new { (index / 8) as u8 } else { BASE }, "sector {index} of {arrived}");
        }
    }
    let second_block =
        torn(CrashPlan { torn_data: 0, ..CrashPlan::new(1) }, |addr, b| addr == 2 && b[0] == 2);
    assert_eq!(second_block.iter().map(|(t, _)| *t).collect::<Vec<_>>(), (8..16).collect::<Vec<_>>());
    let drawn: HashSet<u64> = torn(CrashPlan::new(1), no_metadata).into_iter().map(|(t, _)| t).collect();
    assert_eq!(drawn.len(), 20);
}

#[test]
fn many_writes_in_flight_are_sampled_with_the_telling_ones() {
    let log = log(|d| (0..40).for_each(|i| write(d, u64::from(i) % BLOCKS, &[i + 1])));
    let plan = CrashPlan { subsets: 50, torn_data: 0, ..CrashPlan::new(7) };
    let kept: Vec<Kept> = CrashStates::new(&log, plan, no_metadata)
        .filter(|s| s.choice.cut == 40)
        .map(|s| s.choice.kept)
        .collect();
    assert_eq!(kept.len(), 1 + 4 + 50);
    for telling in [Kept::All, Kept::Nothing, Kept::OnlyLast, Kept::AllButFirst, Kept::AllButLast] {
        assert!(kept.contains(&telling), "{telling:?}");
    }
    let image = |kept| read(&log.image(&CrashChoice { cut: 40, kept, torn: None }), 0, BLOCKS as usize);
    assert_eq!(image(Kept::Nothing), [BASE; 6]);
    assert_eq!(image(Kept::OnlyLast), [BASE, BASE, BASE, 40, BASE, BASE]);
    assert_eq!(image(Kept::All), [37, 38, 39, 40, 35, 36]);
    assert_eq!(image(Kept::AllButLast), [37, 38, 39, 34, 35, 36]);
}

#[test]
fn a_large_write_may_arrive_with_holes() {
    let log = log(|d| (0..2).for_each(|i| write(d, 0, &[i + 1; BLOCKS as usize])));
    let holed = CrashStates::new(&log, CrashPlan::new(3), no_metadata)
        .filter(|s| s.choice.torn.is_none())
        .map(|s| sectors(&s.device))
        .filter(|s| s[0] == 2 && s[16] == BASE && s[40] == 2);
    assert!(holed.count() > 0);
}

#[test]
fn a_crash_in_recovery_continues_from_a_state() {
    let first = log(|d| write(d, 0, &[1]));
    for state in CrashStates::new(&first, CrashPlan::new(1), no_metadata) {
        let base = state.device.snapshot();
        let before = read(&MemDevice::from_snapshot(&base), 5, 1);
        let recovering = RecordDevice::new(state.device);
        write(&recovering, 5, &[9]);
        let second = CrashLog::new(base, recovering.log()).unwrap();
        let ends: HashSet<_> = CrashStates::new(&second, CrashPlan::new(1), no_metadata)
            .filter(|s| s.choice.torn.is_none())
            .map(|s| read(&s.device, 5, 1))
            .collect();
        assert_eq!(ends, HashSet::from([before, vec![9]]));
    }
}

#[test]
fn a_log_that_does_not_fit_its_base_is_refused() {
    let base = MemDevice::new(3).snapshot();
    CrashLog::new(base.clone(), vec![Event::Discard { addr: 0, count: 3 }]).unwrap();
    CrashLog::new(base, vec![Event::Discard { addr: 1, count: 3 }]).unwrap_err();
}

/// A log over a base full of [`BASE`] of two windows, before and from block [`BORDER`].
fn log_of_two(script: impl FnOnce(&RecordDevice<MemDevice>, [Window; 2])) -> CrashLog {
    let device = MemDevice::new(BLOCKS);
    write(&device, 0, &[BASE; BLOCKS as usize]);
    let base = device.snapshot();
    let device = Arc::new(RecordDevice::new(device));
    let windows = [0..BORDER, BORDER..BLOCKS].map(|r| Window::new(device.clone(), r).unwrap());
    script(&device, windows);
    CrashLog::new(base, device.log()).unwrap()
}

const BORDER: u64 = 2;

/// The first blocks after each state of a cut at the end.
fn at_end(log: &CrashLog, plan: CrashPlan) -> HashSet<Vec<u8>> {
    let end = log.events().len();
    let states = CrashStates::new(log, CrashPlan { torn_data: 0, ..plan }, no_metadata);
    states.filter(|s| s.choice.cut == end).map(|s| read(&s.device, 0, BLOCKS as usize)).collect()
}

#[test]
fn a_write_to_one_region_stays_in_flight_after_a_flush_of_another() {
    let script = |flush: fn(&RecordDevice<MemDevice>, &[Window; 2])| {
        log_of_two(|whole, windows| {
            write(&windows[0], 0, &[1]);
            write(&windows[1], 0, &[2]);
            flush(whole, &windows);
        })
    };
    let ends = |log: &CrashLog| {
        let ends = at_end(log, CrashPlan::new(1)).into_iter();
        ends.map(|blocks| (blocks[0], blocks[BORDER as usize])).collect::<BTreeSet<_>>()
    };
    let first = script(|_, windows| windows[0].flush().unwrap());
    assert_eq!(ends(&first), [(1, 2), (1, BASE)].into());
    let second = script(|_, windows| windows[1].flush().unwrap());
    assert_eq!(ends(&second), [(1, 2), (BASE, 2)].into());
    let both = script(|_, windows| windows.iter().for_each(|w| w.flush().unwrap()));
    assert_eq!(ends(&both), [(1, 2)].into());
    let whole = script(|whole, windows| {
        windows[0].flush().unwrap();
        whole.flush().unwrap();
    });
    assert_eq!(ends(&whole), [(1, 2)].into());
}

#[test]
fn subsets_count_the_writes_in_flight_of_all_regions_and_no_durable_ones() {
    let log = log_of_two(|_, [first, second]| {
        write(&first, 0, &[1]);
        write(&second, 0, &[2, 3]);
        write(&first, 1, &[4]);
        first.flush().unwrap();
        write_fua(&second, 3, &[5]);
        write(&first, 0, &[6]);
    });
    let in_flight: Vec<u64> = log.in_flight(log.events().len()).filter_map(first_block).collect();
    assert_eq!(
        in_flight,
        [2, 0],
        "the two blocks of the second region, and what followed the flush of the first"
    );
    let image = |kept| {
        let choice = CrashChoice { cut: log.events().len(), kept, torn: None };
        read(&log.image(&choice), 0, BLOCKS as usize)
    };
    assert_eq!(image(Kept::Nothing), [1, 4, BASE, BASE, BASE, 5]);
    assert_eq!(image(Kept::Writes(0b01)), [1, 4, 2, 3, BASE, 5]);
    assert_eq!(image(Kept::Blocks(0b100)), [6, 4, BASE, BASE, BASE, 5]);
    assert_eq!(image(Kept::AllButRegion(1)), [6, 4, BASE, BASE, BASE, 5]);
    assert_eq!(image(Kept::AllButRegion(0)), [1, 4, 2, 3, BASE, 5]);
    assert_eq!(at_end(&log, CrashPlan::new(1)).len(), 8);
}

fn first_block(event: &Event) -> Option<u64> {
    if let Event::Write { addr, .. } = event { Some(*addr) } else { None }
}

#[test]
fn each_region_loses_its_writes_alone_where_not_all_subsets_are_tried() {
    let log = log_of_two(|_, [first, second]| {
        (0..12).for_each(|i| write(&first, u64::from(i) % BORDER, &[i + 1]));
        write(&second, 0, &[20, 21, 22, 23]);
    });
    let ends = at_end(&log, CrashPlan { subsets: 0, ..CrashPlan::new(1) });
    assert!(ends.contains(&vec![11, 12, BASE, BASE, BASE, BASE]));
    assert!(ends.contains(&vec![BASE, BASE, 20, 21, 22, 23]));
}

#[test]
fn a_write_across_two_regions_is_refused() {
    let blocks = [1, 2].map(|fill| Arc::new([fill; 4096]));
    let write = |addr| Event::Write { addr, blocks: blocks.to_vec(), fua: false };
    let flushes = [0..BORDER, BORDER..BLOCKS].map(|within| Event::Flush { covers: 0, within });
    let log = |event| {
        let events = flushes.iter().cloned().chain([event]).collect();
        CrashLog::new(MemDevice::new(BLOCKS).snapshot(), events)
    };
    log(write(0)).unwrap();
    log(write(BORDER)).unwrap();
    log(write(BORDER - 1)).unwrap_err();
    log(Event::Discard { addr: 0, count: BLOCKS }).unwrap_err();
    log(Event::Flush { covers: 0, within: 0..BLOCKS + 1 }).unwrap_err();
}

/// Writes (address, length, FUA), discards (address, length), flushes of all or of a window, and marks; write i fills with
/// i + 1. None crosses the border.
fn run(device: &RecordDevice<MemDevice>, windows: &[Window; 2], ops: &[(u8, u64, u64)]) {
    for (index, &(op, addr, count)) in ops.iter().enumerate() {
        let count = count.min(if addr < BORDER { BORDER - addr } else { BLOCKS - addr });
        let fills = vec![index as u8 + 1; count as usize];
        match op {
            0..=4 => write(device, addr, &fills),
            5 => write_fua(device, addr, &fills),
            6 => device.discard(addr, count).unwrap(),
            7 => device.mark(index.to_string()),
            8 => device.flush().unwrap(),
            _ => windows[usize::from(op % 2)].flush().unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_state_is_one_that_the_rules_allow(
        ops in prop::collection::vec((0u8..11, 0..BLOCKS, 1u64..4), 0..25),
        seed: u64,
    ) {
        let log = log_of_two(|device, windows| run(device, &windows, &ops));
        let plan = CrashPlan { subsets: 20, ..CrashPlan::new(seed) };
        for state in CrashStates::new(&log, plan, |addr, _| addr == 0).step_by(7) {
            for (index, value) in sectors(&state.device).into_iter().enumerate() {
                let allowed = allowed(&log, index as u64 / 8, state.choice.cut);
                prop_assert!(allowed.contains(&value), "sector {}: {} is not in {:?} ({})",
                    index, value, allowed, state.choice);
            }
        }
    }

    #[test]
    fn with_few_single_blocks_in_flight_every_allowed_state_is_tried(
        ops in prop::collection::vec(prop_oneof![
            3 => (Just(0u8), 0..BLOCKS, Just(1u64)),
            1 => (5u8..8, 0..BLOCKS, Just(1u64)),
            1 => (8u8..11).prop_map(|op| (op, 0, 1)),
        ], 0..9),
        seed: u64,
    ) {
        let log = log_of_two(|device, windows| run(device, &windows, &ops));
        let end = log.events().len();
        let states = CrashStates::new(&log, CrashPlan { torn_data: 0, ..CrashPlan::new(seed) }, no_metadata);
        let found: HashSet<Vec<u8>> =
            states.filter(|s| s.choice.cut == end).map(|s| sectors(&s.device)).collect();
        let expected: usize = (0..BLOCKS).map(|b| allowed(&log, b, end).len()).product();
        prop_assert_eq!(found.len(), expected);
    }

    #[test]
    fn a_state_is_rebuilt_by_its_index_and_by_its_choice(
        ops in prop::collection::vec((0u8..11, 0..BLOCKS, 1u64..4), 0..25),
        seed: u64,
        from: prop::sample::Index,
    ) {
        let log = log_of_two(|device, windows| run(device, &windows, &ops));
        let states = || CrashStates::new(&log, CrashPlan { subsets: 20, ..CrashPlan::new(seed) }, |_, _| true);
        let count = states().len();
        let index = from.index(count);
        let walked = states().inspect(|s| assert!(s.index <= index)).take(index + 1).last().unwrap();
        let direct = states().nth(index).unwrap();
        prop_assert_eq!((walked.index, walked.choice), (index, direct.choice));
        prop_assert_eq!(sectors(&walked.device), sectors(&direct.device));
        prop_assert_eq!(sectors(&walked.device), sectors(&log.image(&walked.choice)));
        prop_assert!(states().nth(count).is_none());
    }
}

#[test]
fn the_end_of_two_parts_may_come_first_where_that_is_asked_for() {
    let log = log(|d| {
        write(d, 4, &[9]);
        write(d, 1, &[1, 2]);
        d.flush().unwrap();
        write_fua(d, 3, &[3]);
        write_fua(d, 5, &[4]);
    });
    let plan = CrashPlan { early: true, ..CrashPlan::new(1) };
    let is_early = |s: &CrashState| matches!(s.choice.kept, Kept::AllAnd { .. });
    let early: Vec<_> = CrashStates::new(&log, plan, no_metadata).filter(is_early).collect();
    let seen: Vec<_> = early.iter().map(|s| (s.choice.cut, read(&s.device, 0, 6))).collect();
    assert_eq!(seen, [(1, vec![BASE, BASE, BASE, 3, 9, BASE])]);
    assert_eq!(CrashStates::new(&log, CrashPlan::new(1), no_metadata).filter(is_early).count(), 0);
}
