//! The SIT as of the boundary of the checkpoint in progress, while operations continue.
//!
//! The first change to a segment after the boundary copies its state there. Placing the checkpoint's nodes changes
//! both that copy and the live state.
use super::table::{Bitmaps, Table, by_segment, offset_of};
use crate::error::Result;
use crate::health::invariant;
use segno_format::bits::msb;
use segno_format::sit::{RawSitEntry, SIT_MAP_BYTES};
use segno_format::{BlockAddr, Corrupt, Geometry, SegNo, Structure};
use std::collections::{BTreeSet, HashMap};

/// State of a segment at the boundary.
#[derive(Debug)]
struct Snapshot {
    valid: u16,
    valid_map: [u8; SIT_MAP_BYTES],
    /// Blocks that became valid since. Newer blocks, such as those logged by fsync, may refer to them.
    since: [u8; SIT_MAP_BYTES],
}

impl Snapshot {
    fn set_valid(&mut self, addrs: &[BlockAddr], on: bool, geo: &Geometry) -> Result<()> {
        for &addr in addrs {
            let off = offset_of(addr, geo);
            if msb::test(&self.valid_map, off) == on {
                return Err(misplaced(addr, "block of the checkpoint is allocated or freed twice", on).into());
            }
            msb::put(&mut self.valid_map, off, on);
            self.valid = if on { self.valid + 1 } else { self.valid - 1 };
        }
        Ok(())
    }
}

fn misplaced(addr: BlockAddr, why: &'static str, on: bool) -> Corrupt {
    Corrupt::block(Structure::SitBlock, addr.0.into(), why, (!on).into(), on.into())
}

/// Changes relative to the boundary of the checkpoint in progress.
#[derive(Debug, Default)]
pub struct Boundary {
    /// Segments whose entry the checkpoint stores.
    changed: BTreeSet<SegNo>,
    snapshot: HashMap<SegNo, Box<Snapshot>>,
}

impl Table {
    /// Fixes the boundary: the next checkpoint stores what is valid now. The gate is closed.
    pub fn freeze(&mut self) {
        invariant!(self.health, self.boundary.is_none(), "a boundary is fixed while a checkpoint is in progress", else return);
        let changed = std::mem::take(&mut self.changed);
        self.boundary = Some(Boundary { changed, snapshot: HashMap::new() });
    }

    /// Segments whose entries the checkpoint in progress stores.
    pub fn frozen(&self) -> Vec<SegNo> {
        self.boundary.iter().flat_map(|b| &b.changed).copied().collect()
    }

    /// Copies the state of a segment that is about to change, if a checkpoint is in progress.
    pub(super) fn keep_at_boundary(&mut self, seg: SegNo) {
        if self.boundary.as_ref().is_none_or(|b| b.snapshot.contains_key(&seg)) {
            return;
        }
        let (valid, valid_map) = (self.seg(seg).valid, self.valid_map(seg));
        let snapshot = Box::new(Snapshot { valid, valid_map, since: [0; SIT_MAP_BYTES] });
        self.boundary.as_mut().map(|b| b.snapshot.insert(seg, snapshot));
    }

    /// Records blocks of a segment that became valid after the boundary.
    pub(super) fn note_since(&mut self, seg: SegNo, addrs: &[BlockAddr]) {
        let Some(snapshot) = self.boundary.as_mut().and_then(|b| b.snapshot.get_mut(&seg)) else { return };
        addrs.iter().for_each(|&a| msb::put(&mut snapshot.since, offset_of(a, &self.geo), true));
    }

    /// Makes blocks of the checkpoint in progress valid or invalid. With `live` the live state changes too.
    pub fn place_frozen(&mut self, addrs: &[BlockAddr], on: bool, live: bool, now: u64) -> Result<()> {
        for (first, seg, run) in by_segment(addrs, self.geo) {
            let seg = seg.ok_or_else(|| misplaced(first, "block outside the main area", on))?;
            if !live {
                self.keep_at_boundary(seg);
                self.changed.insert(seg);
            }
            let Some(boundary) = &mut self.boundary else {
                return Err(self.health.broken("a checkpoint places blocks before its boundary"));
            };
            boundary.changed.insert(seg);
            if let Some(snapshot) = boundary.snapshot.get_mut(&seg) {
                snapshot.set_valid(run, on, &self.geo)?;
            }
            if live {
                self.set_valid_in_segment(seg, run, on, now)?;
            }
        }
        Ok(())
    }

    /// Adds a segment to the checkpoint in progress, or else to the next one, which stores its type or releases its
    /// blocks once durable.
    pub(super) fn add_to_checkpoint(&mut self, seg: Option<SegNo>) {
        match &mut self.boundary {
            Some(boundary) => boundary.changed.extend(seg),
            None => self.changed.extend(seg),
        }
    }

    /// The entry of a segment as the checkpoint stores it.
    pub fn entry_at_boundary(&self, seg: SegNo) -> RawSitEntry {
        let Some(snapshot) = self.boundary.as_ref().and_then(|b| b.snapshot.get(&seg)) else {
            return self.entry(seg);
        };
        // A segment with valid blocks never changes its class, and the newest type within the class is as good.
        let s = self.seg(seg);
        RawSitEntry::new(s.log, snapshot.valid, &snapshot.valid_map, s.mtime)
    }

    /// Number of segments the checkpoint counts as free: no valid blocks, and none of its logs open there.
    pub fn empty_at_boundary(&self, logs: &[SegNo]) -> u64 {
        let valid = |seg: SegNo| self.seg(seg).valid;
        let snapshot = |seg: SegNo| {
            self.boundary
                .as_ref()
                .and_then(|b| b.snapshot.get(&seg))
                .map_or(valid(seg), |snapshot| snapshot.valid)
        };
        let mut differing: BTreeSet<SegNo> = logs.iter().chain(&self.current).copied().collect();
        differing.extend(self.boundary.iter().flat_map(|b| b.snapshot.keys()));
        let live = differing.iter().filter(|&&s| valid(s) == 0 && !self.current.contains(&s)).count() as u64;
        let then = differing.iter().filter(|&&s| snapshot(s) == 0 && !logs.contains(&s)).count() as u64;
        (self.empty_segments() + then).saturating_sub(live)
    }

    /// Called once the checkpoint is durable: blocks it freed may be reused. Returns the segments that became free.
    pub fn committed(&mut self) -> Vec<SegNo> {
        let Some(mut boundary) = self.boundary.take() else {
            // The volume has stopped: every later change fails.
            let _stopped = self.health.broken("a checkpoint without boundary ends");
            return Vec::new();
        };
        let (mut freed, canaries) = (Vec::new(), self.canaries);
        for seg in boundary.changed {
            let was_free = self.free.contains(seg.0);
            let snapshot = boundary.snapshot.remove(&seg);
            self.update(seg, |s, bitmaps| {
                let Some(m) = bitmaps else { return };
                m.held = match &snapshot {
                    None => m.valid,
                    // A freed node that this checkpoint moved may still be valid: the thread that frees it
                    // has taken its old address from the NAT, and has yet to clear the bit.
                    Some(snapshot) => {
                        std::array::from_fn(|i| snapshot.valid_map[i] | snapshot.since[i] | m.valid[i])
                    }
                };
                s.held = m.held.iter().map(|b| b.count_ones() as u16).sum();
                let here = canaries.iter().flatten().filter(|(at, _)| *at == seg);
                here.for_each(|&(_, off)| s.hold(m, off as usize));
                if s.held == 0 {
                    *bitmaps = None;
                }
            });
            if !was_free && self.free.contains(seg.0) {
                freed.push(seg);
            }
        }
        freed
    }
}

impl Bitmaps {
    pub fn empty() -> Box<Self> {
        Box::new(Self { valid: [0; SIT_MAP_BYTES], held: [0; SIT_MAP_BYTES] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::test_geometry;
    use segno_format::sit::LogType;

    const OLD: u32 = 3;
    const NEW: u32 = 600;

    /// All interleavings of freeing a node and of the checkpoint that places it.
    #[test]
    fn a_node_freed_while_being_placed_belongs_to_the_checkpoint_only() {
        let geo = test_geometry();
        let addr = |n| geo.seg_start(SegNo(0)).offset(n);
        let off = |n| geo.seg_of(addr(n)).unwrap();
        // Bit i selects the actor of step i: two steps of freeing, three of the checkpoint.
        for mixture in (0u32..32).filter(|m| m.count_ones() == 2) {
            let mut t = Table::new(&geo, crate::health::test_health());
            t.open(SegNo(0), LogType::WarmNode);
            t.open(SegNo(1), LogType::WarmNode);
            t.set_valid(&[addr(OLD)], true, 1).unwrap();
            t.freeze();
            t.place_frozen(&[addr(NEW)], true, true, 1).unwrap();
            // State of the NAT: the node's address, and whether the node still exists.
            let (mut at, mut live) = (OLD, true);
            let (mut placed_live, mut displaced, mut freed_at) = (None, false, None);
            for step in 0..5 {
                match (mixture >> step & 1, placed_live, freed_at) {
                    (0, None, _) => {
                        placed_live = Some(live);
                        at = NEW;
                    }
                    (0, Some(live), _) if !displaced => {
                        displaced = true;
                        t.place_frozen(&[addr(OLD)], false, live, 1).unwrap();
                        if !live {
                            t.set_valid(&[addr(NEW)], false, 1).unwrap();
                        }
                    }
                    (0, ..) => {
                        for (n, in_checkpoint) in [(OLD, 0), (NEW, 1)] {
                            assert_eq!(
                                t.entry_at_boundary(off(n).0).valid(),
                                in_checkpoint,
                                "{mixture:05b}: {n}"
                            );
                        }
                        t.committed();
                        assert!(
                            t.is_held(off(NEW).0, off(NEW).1),
                            "{mixture:05b}: kept until the next checkpoint"
                        );
                    }
                    (_, _, None) => {
                        (freed_at, live) = (Some(at), false);
                    }
                    (_, _, Some(at)) => t.set_valid(&[addr(at)], false, 1).unwrap(),
                }
                for (seg, off) in [off(OLD), off(NEW)] {
                    assert!(
                        t.is_held(seg, off) || !t.is_valid(seg, off),
                        "{mixture:05b}: {off} may be overwritten"
                    );
                }
            }
            for n in [OLD, NEW] {
                assert!(!t.is_valid(off(n).0, off(n).1), "{mixture:05b}: {n}");
            }
            t.freeze();
            t.committed();
            for n in [OLD, NEW] {
                assert!(!t.is_held(off(n).0, off(n).1), "{mixture:05b}: {n} is given back");
            }
        }
    }
}
