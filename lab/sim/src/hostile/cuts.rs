//! Power cuts in repairs: the volume has its old findings, or none.
use super::edit::Image;
use super::repair::{Ended, check, run as repair};
use segno_check::{Kind, Problem, Report};
use segno_device::{BlockDevice, MemDevice, Snapshot};
use segno_format::Block;
use segno_format::superblock::RawSuperblock;
use segno_repair::Plan;
use segno_testkit::{CrashLog, CrashPlan, CrashStates, Event, RecordDevice};

/// States that cuts in one repair left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuts {
    pub writes: usize,
    /// States with the findings of the volume before.
    pub old: u64,
    /// States without findings once the superblocks are written, too.
    pub repaired: u64,
}

/// Cuts the repair of an image at every write; `None` if there is no repair. An error is a violation.
pub fn run(image: &Image) -> Result<Option<Cuts>, String> {
    let Ended::Repaired { before, after, plan } = repair(image)? else { return Ok(None) };
    let text = |e: std::io::Error| e.to_string();
    let device = RecordDevice::new(MemDevice::from_snapshot(&before));
    plan.apply(&device).map_err(text)?;
    let old = bases(&before, &after, &plan, &device.log())?;
    let old = old.iter().map(|d| check(d).map(|found| lasting(&found))).collect::<Result<Vec<_>, _>>()?;
    let log = CrashLog::new(before, device.log()).map_err(text)?;
    let mut cuts = Cuts { writes: plan.addresses().count(), ..Cuts::default() };
    let crashes = CrashPlan { subsets: 6, torn_data: 4, ..CrashPlan::new(image.session) };
    for state in CrashStates::new(&log, crashes, |addr, _| addr < SUPERBLOCKS) {
        let found = lasting(&check(&state.device)?);
        if old.contains(&found) && !found.is_empty() {
            cuts.old += 1;
            continue;
        }
        put_superblocks(&state.device, &MemDevice::from_snapshot(&after))?;
        let again = check(&state.device)?;
        if again.complete && again.problems.iter().all(|p| is_of_superblock(p.kind)) {
            cuts.repaired += 1;
        } else if old.contains(&found) {
            cuts.old += 1;
        } else {
            return Err(format!("{}: {}", state.choice, difference(&old, &found)));
        }
    }
    Ok(Some(cuts))
}

/// Blocks of superblocks.
const SUPERBLOCKS: u64 = 2;

/// The states that count as the volume before the repair: unchanged; with the superblock that replaces a
/// wrong one, which is written first; and without the pack that is overwritten. If that pack is the newest
/// one and damaged, the older one is in force from its first write on, and the repair works from the older
/// one.
fn bases(before: &Snapshot, after: &Snapshot, plan: &Plan, log: &[Event]) -> Result<[MemDevice; 3], String> {
    let text = |e: std::io::Error| e.to_string();
    let devices = [(); 3].map(|()| MemDevice::from_snapshot(before));
    let [_, settled, older] = &devices;
    let writes = log.iter().filter_map(|e| match e {
        Event::Write { addr, blocks, .. } => Some((*addr, blocks)),
        _ => None,
    });
    for (addr, blocks) in writes.take_while(|(addr, _)| *addr < SUPERBLOCKS) {
        for (at, block) in (addr..).zip(blocks) {
            settled.write_shared(at, block).map_err(text)?;
            older.write_shared(at, block).map_err(text)?;
        }
    }
    let first = block(&MemDevice::from_snapshot(after), 0)?;
    let sb = RawSuperblock::from_block(&first.0).parse(0).map_err(|e| e.to_string())?;
    let packs = [0, 1].map(|index| u64::from(sb.geo.pack_addr(index).0));
    for addr in plan.addresses().filter(|addr| packs.contains(addr)) {
        older.write(addr, &[&Block::zeroed()]).map_err(text)?;
    }
    Ok(devices)
}

fn block(device: &MemDevice, addr: u64) -> Result<Block, String> {
    let mut one = [Block::zeroed()];
    device.read(addr, &mut one).map_err(|e| e.to_string())?;
    let [block] = one;
    Ok(block)
}

/// Writes the superblocks of another device, which are the last writes of a repair.
fn put_superblocks(device: &MemDevice, of: &MemDevice) -> Result<(), String> {
    for addr in 0..SUPERBLOCKS {
        device.write(addr, &[&block(of, addr)?]).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// All findings except those of superblocks, which are written first and last, and of summaries, which are
/// corrected in place. Quota files are compared only if nothing else is wrong, so their findings are left out
/// as well.
fn lasting(found: &Report) -> Vec<Problem> {
    let passes =
        |kind| is_of_superblock(kind) || matches!(kind, Kind::SummaryEntry | Kind::SummaryType | Kind::Quota);
    found.problems.iter().filter(|p| !passes(p.kind)).cloned().collect()
}

fn is_of_superblock(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Superblock
            | Kind::SuperblockStale
            | Kind::SuperblockCopies
            | Kind::ErrorRecord
            | Kind::FoldedHash
    )
}

fn difference(old: &[Vec<Problem>], found: &[Problem]) -> String {
    let old = old.first().map(Vec::as_slice).unwrap_or_default();
    let only = |of: &[Problem], not: &[Problem]| {
        let listed = of.iter().filter(|p| !not.contains(p)).take(3).map(ToString::to_string);
        listed.collect::<Vec<_>>().join("; ")
    };
    format!("new findings: {}, findings that are gone: {}", only(found, old), only(old, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Images whose states were mistaken for violations: a first superblock that is torn, a record of a quota
    /// file in the first superblock of a volume without quotas, a newest pack that is damaged and valid, a
    /// quota file next to a summary.
    #[test]
    fn states_that_are_as_before() {
        for (seed, number) in [(71, 43), (71, 70), (71, 224), (71, 281), (71, 285), (72, 271)] {
            let image = crate::hostile::image(seed, number).unwrap();
            let cuts = run(&image).unwrap_or_else(|e| panic!("seed {seed}, number {number}: {e}"));
            assert!(cuts.is_some_and(|c| c.old > 10 && c.repaired > 0), "{seed} {number}: {cuts:?}");
        }
    }

    /// The newest pack is damaged, and 19 records of the journal follow it: a repair from the older pack would give them up.
    #[test]
    fn a_repair_gives_up_no_journal_for_an_older_pack() {
        assert!(run(&crate::hostile::image(71, 315).unwrap()).unwrap().is_none());
    }

    /// More: `cargo run -p segno-sim --example repair_cuts`.
    #[test]
    fn drawn_repairs_are_cut() {
        let mut sum = Cuts::default();
        for number in 0..24 {
            let image = crate::hostile::image(5, number).unwrap();
            let cuts = run(&image).unwrap_or_else(|e| panic!("seed 5, number {number}: {e}\n{image}"));
            let cuts = cuts.unwrap_or_default();
            (sum.old, sum.repaired) = (sum.old + cuts.old, sum.repaired + cuts.repaired);
        }
        assert!(sum.old > 500 && sum.repaired > 20, "{sum:?}");
    }
}
