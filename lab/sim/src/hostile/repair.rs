//! Repairs of damaged volumes: one pass leaves nothing for the checker to find, a second one has nothing to do, and files
//! that the damage did not touch are as they were.
use super::base::{Base, bases};
use super::edit::{Image, Place};
use crate::capture::Tree;
use crate::mounted::{FixedClock, Mounted};
use segno_check::{CheckOptions, Kind, Report};
use segno_device::{BlockDevice, MemDevice, Overlay, Snapshot};
use segno_engine::lab;
use segno_engine::options::{Discard, JournalMode};
use segno_engine::{Clock, MountOptions};
use segno_format::node::RawNode;
use segno_layout::superblock_in_force;
use segno_repair::{Pending, Plan, PlanOptions, RepairError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};

/// How the repair of one image ended.
#[derive(Clone, Debug)]
pub enum Ended {
    /// The checker found nothing.
    Sound,
    /// No superblock or no pack is left: repair is not made for that.
    Beyond,
    /// Nothing was written, for this reason.
    Refused(String),
    /// The repaired volume, and the writes that led to it.
    Repaired { before: Snapshot, after: Snapshot, plan: Plan },
}

/// Repairs an image; an error is a violation.
pub fn run(image: &Image) -> Result<Ended, String> {
    let base = bases()?.iter().find(|b| b.name == image.base);
    let base = base.ok_or_else(|| format!("no base volume {}", image.base))?;
    let device = MemDevice::from_snapshot(&base.image);
    base.layout.apply(&device, &image.edits, image.sealed)?;
    let before = device.snapshot();
    let device: Arc<dyn BlockDevice> = Arc::new(device);
    let Ok(found) = check(&*device) else { return Ok(Ended::Beyond) };
    if !found.complete
        && found.problems.iter().all(|p| matches!(p.kind, Kind::Superblock | Kind::NoCheckpoint))
    {
        return Ok(Ended::Beyond);
    }
    let touched = touched(base, image);
    if !segno_repair::is_repairable(&found) {
        return Ok(Ended::Sound);
    }
    let pending = if base.name == "journal" { Pending::Journal } else { Pending::Chain };
    let plan = match segno_repair::plan(&device, pending, &mut replay, PlanOptions::default()) {
        Ok(plan) => plan,
        Err(RepairError::Refused(_)) if lacks_superblock(image) => return Ok(Ended::Beyond),
        Err(RepairError::Refused(why)) => return Ok(Ended::Refused(why)),
        Err(e) => return Err(format!("plan: {e}")),
    };
    plan.apply(&*device).map_err(|e| format!("apply: {e}"))?;
    let again = check(&*device).map_err(|e| format!("check after the repair: {e}"))?;
    if segno_repair::is_repairable(&again) {
        let first = again.problems.first().map(ToString::to_string).unwrap_or_default();
        return Err(format!("a second pass would have something to do: {first}"));
    }
    // Two names, each as good as the other.
    let undecided = plan.actions.iter().any(|a| a.loss && a.text.contains("nothing tells which is right"));
    if !lacks_superblock(image) && !undecided {
        same_devices(base, &*device)?;
    }
    // A damaged chain may be lost as a whole.
    let given_up = plan.actions.iter().any(|a| a.text.contains("cannot be replayed"));
    if let Some(touched) = touched.filter(|_| !given_up) {
        let done = || plan.actions.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ");
        compare(base, &device, &touched).map_err(|e| format!("{e}, after\n  {}", done()))?;
    }
    let repaired = MemDevice::new(device.block_count());
    copy(&*device, &repaired)?;
    Ok(Ended::Repaired { before, after: repaired.snapshot(), plan })
}

/// The list of devices, without which a volume of several does not open.
fn same_devices(base: &Base, device: &dyn BlockDevice) -> Result<(), String> {
    let list = |device: &dyn BlockDevice| {
        let sb = superblock_in_force(device).map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        Ok::<_, String>(sb.devices)
    };
    let (old, new) = (list(&MemDevice::from_snapshot(&base.image))?, list(device)?);
    (old == new).then_some(()).ok_or_else(|| format!("the list of devices is {new:?}"))
}

fn copy(from: &dyn BlockDevice, to: &MemDevice) -> Result<(), String> {
    let mut one = [segno_format::Block::zeroed()];
    for addr in 0..from.block_count() {
        from.read(addr, &mut one).map_err(|e| e.to_string())?;
        let [block] = &one;
        if !block.is_zero() {
            to.write(addr, &[block]).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

pub(super) fn check(device: &dyn BlockDevice) -> Result<Report, String> {
    segno_check::check(device, &CheckOptions::default(), &mut |_| {}).map_err(|e| e.to_string())
}

/// Replays what a crash left, in memory.
fn replay(overlay: Arc<Overlay>) -> Result<(), String> {
    let clock: Arc<dyn Clock> = Arc::new(FixedClock::default());
    let options = MountOptions {
        background: false,
        discard: Discard::Never,
        cache_bytes: 8 << 20,
        journal: JournalMode::Off,
        ..MountOptions::default()
    };
    let volume = lab::mount(overlay, options, clock).map_err(|e| e.to_string())?;
    volume.unmount().map_err(|e| e.to_string())
}

/// Whether both copies of the superblock were changed, so that the original parameters are unknown.
#[must_use]
pub fn lacks_superblock(image: &Image) -> bool {
    (0..2).all(|copy| image.edits.iter().any(|e| e.place == Place::Super(copy)))
}

/// Inodes that the damage touched; `None` if it may be all of them.
fn touched(base: &Base, image: &Image) -> Option<BTreeSet<u32>> {
    if lacks_superblock(image) {
        return None;
    }
    let device = MemDevice::from_snapshot(&base.image);
    let owner = |place| {
        let (block, _) = base.layout.block(&device, place).ok()?;
        Some(block.view::<RawNode>().footer.ino.get())
    };
    let of = |place: Place| match place {
        Place::Super(_) | Place::Sit(_) | Place::Summary(_) | Place::Orphans(_) | Place::SitJournal => {
            Some(None)
        }
        Place::Node(nid) | Place::Nat(nid) => Some(owner(Place::Node(nid)).or(Some(nid))),
        Place::Data(ino, _) => Some(Some(ino)),
        Place::NatJournal
        | Place::Checkpoint
        | Place::CheckpointEnd(_)
        | Place::Chain(_)
        | Place::Journal(_) => None,
    };
    let inos: Option<Vec<Option<u32>>> = image.edits.iter().map(|e| of(e.place)).collect();
    inos.map(|inos| inos.into_iter().flatten().collect())
}

/// Files of the undamaged volume, by inode.
fn undamaged(base: &Base) -> Result<Arc<Tree>, String> {
    static TREES: OnceLock<Mutex<BTreeMap<&'static str, Arc<Tree>>>> = OnceLock::new();
    let trees = TREES.get_or_init(Mutex::default);
    let mut trees = trees.lock().map_err(|e| e.to_string())?;
    if let Some(tree) = trees.get(base.name) {
        return Ok(tree.clone());
    }
    let tree = Arc::new(capture(
        &(Arc::new(MemDevice::from_snapshot(&base.image)) as Arc<dyn BlockDevice>),
        &BTreeSet::new(),
    )?);
    trees.insert(base.name, tree.clone());
    Ok(tree)
}

fn capture(device: &Arc<dyn BlockDevice>, without: &BTreeSet<u32>) -> Result<Tree, String> {
    let options = MountOptions { background: false, cache_bytes: 8 << 20, ..MountOptions::default() };
    let overlay: Arc<dyn BlockDevice> = Arc::new(Overlay::new(device.clone()));
    let mut mounted = Mounted::mount(overlay, options, 0).map_err(|e| format!("mount: {e}"))?;
    Tree::capture_without(&mut mounted, without)
}

/// Compares what can be reached from the root without meeting a touched inode.
fn compare(base: &Base, device: &Arc<dyn BlockDevice>, touched: &BTreeSet<u32>) -> Result<(), String> {
    let (old, new) = (undamaged(base)?, capture(device, touched)?);
    let mut todo = vec![(String::new(), old.root)];
    while let Some((path, node)) = todo.pop() {
        if touched.contains(&node) {
            continue;
        }
        let (Some(a), Some(b)) = (old.inodes.get(&node), new.inodes.get(&node)) else {
            return Err(format!("{path}/ (inode {node}) is gone although it was not damaged"));
        };
        let Ok(names) = a.names() else {
            if let Some(what) = crate::capture::inode_difference(a, b) {
                return Err(format!("{path} (inode {node}) is changed although it was not damaged: {what}"));
            }
            continue;
        };
        let after = b.names().map_err(|_| format!("{path}/ is no directory any more"))?;
        for (name, child) in names {
            let path = format!("{path}/{}", String::from_utf8_lossy(name));
            if touched.contains(child) {
                continue;
            }
            if after.get(name) != Some(child) {
                return Err(format!("name {path} is gone or leads elsewhere although it was not damaged"));
            }
            todo.push((path, *child));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Images that were once repaired wrongly: extra attributes without room for the checksum; a compressed file that became a
    /// device; free blocks in a segment whose summary has the wrong type; a folded name with a wrong hash; an empty name in the
    /// list of devices, and another name in it; a symbolic link with a block and no length; a superblock that ends where no journal
    /// is.
    #[test]
    fn known_images() {
        for (seed, number) in [
            (61, 1384),
            (61, 1622),
            (81, 4544),
            (81, 5602),
            (81, 5988),
            (81, 11218),
            (101, 8368),
            (101, 16971),
        ] {
            let ended = run(&crate::hostile::image(seed, number).unwrap());
            assert!(
                matches!(ended, Ok(Ended::Repaired { .. })),
                "seed {seed}, number {number}: {:?}",
                ended.err()
            );
        }
    }

    /// A journal that names a block after the end of the device is damage, not a read error.
    #[test]
    fn journal_with_an_impossible_address() {
        let ended = run(&crate::hostile::image(81, 11829).unwrap());
        let Ok(Ended::Refused(why)) = ended else { panic!("{:?}", ended.err()) };
        assert!(why.starts_with("the journal cannot be replayed"), "{why}");
    }

    /// More: `cargo run -p segno-sim --example repair`.
    #[test]
    fn drawn_images_are_repaired() {
        let (mut repaired, mut refused) = (0, Vec::new());
        for number in 0..120 {
            match run(&crate::hostile::image(7, number).unwrap()) {
                Ok(Ended::Repaired { .. }) => repaired += 1,
                Ok(Ended::Refused(why)) => refused.push((number, why)),
                Ok(Ended::Sound | Ended::Beyond) => {}
                Err(e) => panic!("seed 7, number {number}: {e}"),
            }
        }
        assert!(repaired > 60 && refused.len() * 12 < repaired, "{repaired} repaired, refused {refused:?}");
    }
}
