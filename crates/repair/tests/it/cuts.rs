//! A power cut at any write of a repair leaves the volume with its old findings, or without any. So does
//! putting it back.
use crate::edit::Edit;
use crate::image::{filled, kinds, report};
use crate::rig::planned;
use segno_check::Kind;
use segno_device::MemDevice;
use segno_format::dentry::{DentryShape, FileType};
use segno_format::{BlockAddr, Ino};
use segno_repair::Undo;
use segno_testkit::{CrashLog, CrashPlan, CrashStates, RecordDevice};

type Case = (&'static str, fn(&Edit));

const DAMAGES: [Case; 6] = [
    ("pointer out of range", |e| e.set_slot(e.lookup("two"), 1, BlockAddr(5))),
    ("NAT entry", |e| {
        e.nat(e.lookup("many"), |n| n.block_addr.set(0));
    }),
    ("cross-linked block", |e| e.set_slot(e.lookup("two"), 1, e.slot(e.lookup("three"), 1))),
    ("lost name", |e| {
        e.dentry(e.lookup("sub"), b"inner", |b, slot, _| DentryShape::BLOCK.remove(b, slot, 5));
    }),
    ("name without an inode, and a superblock", |e| {
        e.add_name(3, b"ghost", 9000, FileType::Regular);
        e.superblock(1, |sb| sb.magic.set(0));
    }),
    ("second name of a directory", |e| {
        e.add_name(3, b"again", e.lookup("sub"), FileType::Directory);
        e.inode(3, |n| n.set_name(Ino(3), b"x"));
    }),
];

#[test]
fn old_findings_or_none() {
    for (name, damage) in DAMAGES {
        let edit = Edit::new(filled());
        damage(&edit);
        let before = edit.dev.snapshot();
        let old = report(&edit.dev);
        let plan = planned(&before).unwrap();
        let device = RecordDevice::new(MemDevice::from_snapshot(&before));
        plan.apply(&device).unwrap();
        let log = CrashLog::new(before, device.log()).unwrap();
        let crashes = CrashPlan { subsets: 12, torn_data: 4, ..CrashPlan::new(1) };
        let (mut unchanged, mut sound) = (0, 0);
        for state in CrashStates::new(&log, crashes, |_, _| false) {
            let found = report(&state.device);
            // The superblocks come last.
            let only_superblocks =
                kinds(&found).iter().all(|k| matches!(k, Kind::Superblock | Kind::SuperblockStale));
            if found.problems == old.problems {
                unchanged += 1;
            } else {
                assert!(only_superblocks, "{name}: {}: {:?}", state.choice, found.problems);
                sound += 1;
            }
        }
        assert!(unchanged > 10 && sound > 0, "{name}: {unchanged} old, {sound} new states");
    }
}

#[test]
fn undo_puts_everything_back() {
    let edit = Edit::new(filled());
    edit.set_slot(edit.lookup("two"), 1, BlockAddr(5));
    let before = edit.dev.snapshot();
    let plan = planned(&before).unwrap();
    let device = MemDevice::from_snapshot(&before);
    let mut file = Vec::new();
    Undo::of(&plan, &device).unwrap().save(&mut file).unwrap();
    plan.apply(&device).unwrap();
    assert!(report(&device).is_clean());
    Undo::load(&mut file.as_slice()).unwrap().put_back(&device).unwrap();
    let old = MemDevice::from_snapshot(&before);
    for addr in plan.addresses() {
        assert_eq!(block(&device, addr), block(&old, addr), "block {addr}");
    }
    // Undo would lose writes made to the volume after the repair, so it is refused.
    let first = plan.addresses().next().unwrap();
    segno_testkit::blocks::write(&device, first, &[0x77]);
    let refused = Undo::load(&mut file.as_slice()).unwrap().put_back(&device).unwrap_err();
    assert!(refused.to_string().contains("has changed since the repair"), "{refused}");
    Undo::load(&mut &file[..file.len() - 1]).unwrap_err();
}

fn block(device: &MemDevice, addr: u64) -> Vec<u8> {
    let mut one = [segno_format::Block::zeroed()];
    segno_device::BlockDevice::read(device, addr, &mut one).unwrap();
    one[0].0.to_vec()
}
