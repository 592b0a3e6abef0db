//! Power cuts in repairs: the volume has its old findings, or none.
use super::edit::Image;
use super::repair::{Ended, check, run as repair};
use segno_check::{Kind, Problem, Report};
use segno_device::MemDevice;
use segno_testkit::{CrashLog, CrashPlan, CrashStates, RecordDevice};

/// States that cuts in one repair left.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuts {
    pub writes: usize,
    /// States with the old findings.
    pub old: u64,
    /// States without any but those of superblocks, which are written last.
    pub repaired: u64,
}

/// Cuts the repair of an image at every write; `None` if there is no repair. An error is a violation.
pub fn run(image: &Image) -> Result<Option<Cuts>, String> {
    let Ended::Repaired { before, plan, .. } = repair(image)? else { return Ok(None) };
    let text = |e: std::io::Error| e.to_string();
    let device = RecordDevice::new(MemDevice::from_snapshot(&before));
    plan.apply(&device).map_err(text)?;
    let old = check(&MemDevice::from_snapshot(&before))?;
    let log = CrashLog::new(before, device.log()).map_err(text)?;
    let mut cuts = Cuts { writes: plan.addresses().count(), ..Cuts::default() };
    // A superblock that was followed wrongly is replaced first: what the volume is without it counts as old.
    let mut settled = None;
    let crashes = CrashPlan { subsets: 6, torn_data: 4, ..CrashPlan::new(image.session) };
    for state in CrashStates::new(&log, crashes, |addr, _| addr < 2) {
        let found = check(&state.device)?;
        if is_repaired(&found) {
            cuts.repaired += 1;
        } else if is_same(&found, &old) || settled.as_ref().is_some_and(|s| is_same(&found, s)) {
            cuts.old += 1;
        } else if settled.is_none() && plan.addresses().next().is_some_and(|a| a < 2) && cuts.repaired == 0 {
            settled = Some(found);
            cuts.old += 1;
        } else {
            let first = found.problems.first().map(ToString::to_string).unwrap_or_default();
            return Err(format!("{}: {} findings, the first: {first}", state.choice, found.problems.len()));
        }
    }
    Ok(Some(cuts))
}

fn is_repaired(found: &Report) -> bool {
    let of_superblock = |kind| {
        matches!(
            kind,
            Kind::Superblock
                | Kind::SuperblockStale
                | Kind::SuperblockCopies
                | Kind::ErrorRecord
                | Kind::UnknownFeature
                | Kind::FoldedHash
        )
    };
    found.complete && found.problems.iter().all(|p| of_superblock(p.kind))
}

/// Whether the findings are the same but for summaries, which are corrected in place.
fn is_same(found: &Report, old: &Report) -> bool {
    let others = |report: &Report| -> Vec<Problem> {
        let in_place = |p: &&Problem| !matches!(p.kind, Kind::SummaryEntry | Kind::SummaryType);
        report.problems.iter().filter(in_place).cloned().collect()
    };
    others(found) == others(old)
}

#[cfg(test)]
mod tests {
    use super::*;

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
