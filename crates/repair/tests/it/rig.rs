//! Repairing a volume in memory, and judging the result.
use crate::image::{report, text};
use segno_device::{BlockDevice, FileDevice, MemDevice, Overlay, Snapshot};
use segno_engine::{MountOptions, Volume};
use segno_format::Block;
use segno_repair::{Pending, Plan, PlanOptions, RepairError, is_repairable, plan};
use std::process::Command;
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

/// What is wrong with the outcome of a repair; empty if nothing.
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
            let left = report(&device);
            if left.problems.is_empty() {
                fsck(name, &device)
            } else {
                format!("{name}: left {}\n", text(&left))
            }
        }
    }
}

/// What fsck.f2fs says of a volume that it would change.
fn fsck(name: &str, device: &MemDevice) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    let file = FileDevice::create(&path, device.block_count() * 4096, false).unwrap();
    let mut one = [Block::zeroed()];
    for addr in 0..device.block_count() {
        device.read(addr, &mut one).unwrap();
        if !one[0].is_zero() {
            file.write(addr, &[&one[0]]).unwrap();
        }
    }
    drop(file);
    let places = ["", "/usr/sbin/", "/sbin/"].map(|dir| format!("{dir}fsck.f2fs"));
    let run = |tool: &String| Command::new(tool).args(["--dry-run", "-f"]).arg(&path).output().ok();
    let Some(out) = places.iter().find_map(run) else { return String::new() };
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let bad = |l: &&str| ["[ASSERT]", "[FIX]", "[Fail]"].iter().any(|mark| l.contains(mark));
    let bad: Vec<&str> = said.lines().filter(bad).take(4).collect();
    if out.status.success() && bad.is_empty() {
        String::new()
    } else {
        format!("{name}: fsck.f2fs: {bad:?}\n")
    }
}
