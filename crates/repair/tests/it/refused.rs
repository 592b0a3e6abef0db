//! Volumes that are not repaired, with a reason, and devices that fail: nothing is written.
use crate::edit::Edit;
use crate::image::{filled, load, mkfs};
use crate::rig::{planned, replay};
use segno_device::{BlockDevice, MemDevice, Snapshot};
use segno_format::{Block, BlockAddr, Features};
use segno_repair::{Pending, PlanOptions, RepairError, plan};
use segno_testkit::{Fault, FaultCall, FaultDevice, FaultError};
use std::sync::Arc;

fn refused(damaged: &Snapshot) -> String {
    match planned(damaged).unwrap_err() {
        RepairError::Refused(why) => why,
        e => panic!("{e}"),
    }
}

#[test]
fn read_only_image() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("image");
    mkfs(&path, 64 << 20, &["-O", "ro"]);
    let edit = Edit::new(&load(&path));
    edit.put(edit.node(3), &Block::zeroed());
    assert!(
        refused(&edit.dev.snapshot()).starts_with("read-only images are not repaired: make the image anew")
    );
}

/// A volume with zones is repaired (`segno-sim`, `hostile::zoned`), unless there is something to replay as well.
#[test]
fn zoned_volume_with_a_chain() {
    let edit = Edit::new(filled());
    for copy in 0..2 {
        edit.superblock(copy, |sb| sb.feature.set(sb.feature.get() | Features::BLKZONED.bits()));
    }
    edit.set_slot(edit.lookup("two"), 1, BlockAddr(5));
    edit.fsync(edit.lookup("small"), edit.next_node().offset(1));
    assert!(refused(&edit.dev.snapshot()).contains("a damaged zoned volume is not repaired while"));
}

/// Any failed read is an error of the device: there is no plan, and the chain is not given up either. Blocks
/// that are read ahead are read again when they are needed; if that succeeds, the plan is the same.
#[test]
fn read_errors() {
    let edit = Edit::new(filled());
    edit.set_slot(edit.lookup("two"), 1, BlockAddr(5));
    edit.nat(edit.lookup("many"), |n| n.block_addr.set(0));
    edit.fsync(edit.lookup("small"), edit.next_node().offset(1));
    let damaged = edit.dev.snapshot();
    let planned = |fault: Option<(u64, bool)>| {
        let faults =
            fault.map(|(nth, lasting)| Fault { call: FaultCall::Read, nth, error: FaultError::Io, lasting });
        let device =
            Arc::new(FaultDevice::new(MemDevice::from_snapshot(&damaged), faults.into_iter().collect()));
        let shared: Arc<dyn BlockDevice> = device.clone();
        (plan(&shared, Pending::Chain, &mut replay, PlanOptions::default()), device.calls())
    };
    let (sound, calls) = planned(None);
    let sound = sound.unwrap();
    assert!(calls > 1000, "{calls} calls");
    for nth in (0..calls).step_by(calls as usize / 20) {
        assert!(matches!(planned(Some((nth, true))).0, Err(RepairError::Check(_))), "from read {nth} on");
        match planned(Some((nth, false))).0 {
            Err(RepairError::Check(_)) => {}
            Ok(plan) => assert_eq!(plan.actions, sound.actions, "read {nth}"),
            Err(e) => panic!("read {nth}: {e}"),
        }
    }
}
