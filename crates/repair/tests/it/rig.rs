//! Repairing a volume in memory, and judging the result.
use crate::image::{report, text};
use segno_device::{BlockDevice, MemDevice, Overlay, Snapshot};
use segno_engine::{MountOptions, Volume};
use segno_repair::{Pending, Plan, PlanOptions, RepairError, is_repairable, plan};
use segno_testkit::f2fs_tools;
use std::sync::Arc;

/// Damage that is refused, by its name in the table, with a part of the reason.
const REFUSED: [(&str, &str); 1] = [("no pack", "no superblock, or no checkpoint pack")];

/// Plans the repair.
pub fn planned(damaged: &Snapshot) -> Result<Plan, RepairError> {
    let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::from_snapshot(damaged));
    plan(&device, Pending::Chain, &mut replay, PlanOptions::default())
}

pub fn replay(overlay: Arc<Overlay>) -> Result<(), String> {
    let options = MountOptions {
        background: false,
        discard: segno_engine::options::Discard::Never,
        ..MountOptions::default()
    };
    let volume = Volume::mount(overlay, options).map_err(|e| e.to_string())?;
    volume.unmount().map_err(|e| e.to_string())
}

/// Carries out a repair.
pub fn repaired(damaged: &Snapshot) -> (MemDevice, Plan) {
    let plan = planned(damaged).unwrap();
    let device = MemDevice::from_snapshot(damaged);
    plan.apply(&device).unwrap();
    (device, plan)
}

/// The errors in the outcome of a repair; empty if there are none.
pub fn repaired_or_refused(name: &str, damaged: &MemDevice) -> String {
    if !is_repairable(&report(damaged)) {
        return String::new();
    }
    let expected = REFUSED.iter().find(|(n, _)| *n == name).map(|(_, why)| *why);
    let before = damaged.snapshot();
    match (planned(&before), expected) {
        (Err(e), Some(why)) if e.to_string().contains(why) => String::new(),
        (Err(e), _) => format!("{name}: {e}\n"),
        (Ok(_), Some(_)) => format!("{name}: is repaired\n"),
        (Ok(plan), None) => {
            let device = MemDevice::from_snapshot(&before);
            plan.apply(&device).unwrap();
            let after = report(&device);
            if after.problems.is_empty() {
                fsck(name, &device)
            } else {
                format!("{name}: left {}\n", text(&after))
            }
        }
    }
}

/// The findings of fsck.f2fs.
fn fsck(name: &str, device: &MemDevice) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    f2fs_tools::copy(device, 0..device.block_count(), &path).unwrap();
    let findings = f2fs_tools::fsck(&path).unwrap().findings;
    if findings.is_empty() { String::new() } else { format!("{name}: fsck.f2fs: {findings:?}\n") }
}
