//! The SIT as the checkpoint on its way sees it, while operations go on.
//!
//! A segment that changes after the boundary keeps a copy of how it stood there. What the checkpoint itself does, giving
//! places to nodes, changes both that copy and the present.
use super::table::{Maps, Table};
use crate::error::Result;
use segno_format::bits::msb;
use segno_format::sit::{RawSitEntry, SIT_MAP_BYTES};
use segno_format::{BlockAddr, Corrupt, Geometry, SegNo, Structure};
use std::collections::{BTreeSet, HashMap};

/// How a segment stood at the boundary.
#[derive(Debug)]
struct Stood {
    valid: u16,
    map: [u8; SIT_MAP_BYTES],
    /// Blocks that became valid since; something of a later time may name them.
    since: [u8; SIT_MAP_BYTES],
}

impl Stood {
    fn turn(&mut self, addrs: &[BlockAddr], on: bool, geo: &Geometry) -> Result<()> {
        for &addr in addrs {
            let off = geo.seg_of(addr).map_or(0, |(_, off)| off) as usize;
            if msb::test(&self.map, off) == on {
                return Err(misplaced(addr, "block of the checkpoint is given or taken twice", on).into());
            }
            msb::put(&mut self.map, off, on);
            self.valid = if on { self.valid + 1 } else { self.valid - 1 };
        }
        Ok(())
    }
}

fn misplaced(addr: BlockAddr, why: &'static str, on: bool) -> Corrupt {
    Corrupt::block(Structure::SitBlock, addr.0.into(), why, (!on).into(), on.into())
}

/// See the module.
#[derive(Debug, Default)]
pub struct Boundary {
    /// Segments whose entry the checkpoint stores.
    changed: BTreeSet<SegNo>,
    stood: HashMap<SegNo, Box<Stood>>,
}

impl Table {
    /// What is valid now is what the next checkpoint stores. The gate is closed.
    pub fn freeze(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        self.boundary = Some(Boundary { changed, stood: HashMap::new() });
    }

    /// Segments whose entries the checkpoint on its way stores.
    pub fn frozen(&self) -> Vec<SegNo> {
        self.boundary.iter().flat_map(|b| &b.changed).copied().collect()
    }

    /// Keeps a copy of a segment that is about to change, if a checkpoint is on its way.
    pub(super) fn keep(&mut self, seg: SegNo) {
        let Some(boundary) = &mut self.boundary else { return };
        let (segs, maps) = (&self.segs, &self.maps);
        boundary.stood.entry(seg).or_insert_with(|| {
            let map = maps.get(seg.idx()).and_then(Option::as_deref).map_or([0; SIT_MAP_BYTES], |m| m.valid);
            let valid = segs.get(seg.idx()).map_or(0, |s| s.valid);
            Box::new(Stood { valid, map, since: [0; SIT_MAP_BYTES] })
        });
    }

    /// Notes blocks of a segment that became valid after the boundary.
    pub(super) fn note_since(&mut self, seg: SegNo, addrs: &[BlockAddr], geo: &Geometry) {
        let Some(stood) = self.boundary.as_mut().and_then(|b| b.stood.get_mut(&seg)) else { return };
        for (_, off) in addrs.iter().filter_map(|a| geo.seg_of(*a)) {
            msb::put(&mut stood.since, off as usize, true);
        }
    }

    /// The checkpoint on its way makes blocks valid, or no longer so; `live` says whether the present follows.
    pub fn place_frozen(
        &mut self,
        addrs: &[BlockAddr],
        on: bool,
        live: bool,
        now: u64,
        geo: &Geometry,
    ) -> Result<()> {
        let seg_of = |a: &BlockAddr| geo.seg_of(*a).map(|(seg, _)| seg);
        for run in addrs.chunk_by(|a, b| seg_of(a) == seg_of(b)) {
            let Some(&first) = run.first() else { continue };
            let outside = || misplaced(first, "block outside the main area", on);
            let seg = seg_of(&first).ok_or_else(outside)?;
            if !live {
                self.keep(seg);
                self.changed.insert(seg);
            }
            if let Some(boundary) = &mut self.boundary {
                boundary.changed.insert(seg);
                if let Some(stood) = boundary.stood.get_mut(&seg) {
                    stood.turn(run, on, geo)?;
                }
            }
            if live {
                self.turn(seg, run, on, now, geo)?;
            }
        }
        Ok(())
    }

    /// A segment has something for the checkpoint on its way, or else for the next one: its type, or what is given back
    /// when it is durable.
    pub(super) fn of_next_checkpoint(&mut self, seg: Option<SegNo>) {
        match &mut self.boundary {
            Some(boundary) => boundary.changed.extend(seg),
            None => self.changed.extend(seg),
        }
    }

    /// The entry of a segment as the checkpoint stores it.
    pub fn entry_at_boundary(&self, seg: SegNo) -> RawSitEntry {
        match (self.boundary.as_ref().and_then(|b| b.stood.get(&seg)), self.segs.get(seg.idx())) {
            // A segment with valid blocks never changes its class, and of its type the newest is as good.
            (Some(stood), Some(s)) => RawSitEntry::new(s.log, stood.valid, &stood.map, s.mtime),
            _ => self.entry(seg),
        }
    }

    /// What the checkpoint counts as free: segments without valid blocks in which it has no log.
    pub fn empty_at_boundary(&self, logs: &[SegNo]) -> u64 {
        let valid = |seg: SegNo| self.segs.get(seg.idx()).map_or(0, |s| s.valid);
        let stood = |seg: SegNo| {
            self.boundary.as_ref().and_then(|b| b.stood.get(&seg)).map_or(valid(seg), |stood| stood.valid)
        };
        let mut differing: BTreeSet<SegNo> = logs.iter().chain(&self.current).copied().collect();
        differing.extend(self.boundary.iter().flat_map(|b| b.stood.keys()));
        let live = differing.iter().filter(|&&s| valid(s) == 0 && !self.current.contains(&s)).count() as u64;
        let then = differing.iter().filter(|&&s| stood(s) == 0 && !logs.contains(&s)).count() as u64;
        (self.empty_segments() + then).saturating_sub(live)
    }

    /// The checkpoint is durable: what it freed may be used again. Returns the segments freed.
    pub fn committed(&mut self) -> Vec<SegNo> {
        let Some(mut boundary) = self.boundary.take() else { return Vec::new() };
        let (mut freed, spared) = (Vec::new(), self.spared);
        for seg in boundary.changed {
            let was_free = self.free.contains(seg.0);
            let stood = boundary.stood.remove(&seg);
            self.update(seg, |s, maps| {
                let Some(m) = maps else { return };
                m.held = match &stood {
                    None => m.valid,
                    Some(stood) => std::array::from_fn(|i| stood.map[i] | stood.since[i]),
                };
                s.held = m.held.iter().map(|b| b.count_ones() as u16).sum();
                let here = spared.iter().flatten().filter(|(at, _)| *at == seg);
                here.for_each(|&(_, off)| s.hold(m, off as usize));
                if s.held == 0 {
                    *maps = None;
                }
            });
            if !was_free && self.free.contains(seg.0) {
                freed.push(seg);
            }
        }
        freed
    }
}

impl Maps {
    pub fn empty() -> Box<Self> {
        Box::new(Self { valid: [0; SIT_MAP_BYTES], held: [0; SIT_MAP_BYTES] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::test_rig::Rig;
    use segno_format::Features;
    use segno_format::sit::LogType;

    const OLD: u32 = 3;
    const NEW: u32 = 600;

    /// The steps of a free of a node and of its being placed by a checkpoint, each in its order, in any mixture.
    #[test]
    fn a_node_that_is_freed_while_it_is_placed_is_the_checkpoints_alone() {
        let geo = Rig::new(Features::empty()).volume.geo;
        let addr = |n| geo.seg_start(SegNo(0)).offset(n);
        // Bit i tells who takes step i.
        for mixture in (0u32..16).filter(|m| m.count_ones() == 2) {
            let mut t = Table::new(&geo);
            t.open(SegNo(0), LogType::WarmNode);
            t.open(SegNo(1), LogType::WarmNode);
            t.validate(addr(OLD), 1, &geo).unwrap();
            t.freeze();
            t.place_frozen(&[addr(NEW)], true, true, 1, &geo).unwrap();
            // What the NAT says: where the node is, and whether it is there at all.
            let (mut at, mut live) = (OLD, true);
            let (mut placed_live, mut freed_at) = (None, None);
            for step in 0..4 {
                match (mixture >> step & 1, placed_live, freed_at) {
                    (0, None, _) => {
                        placed_live = Some(live);
                        at = NEW;
                    }
                    (0, Some(live), _) => {
                        t.place_frozen(&[addr(OLD)], false, live, 1, &geo).unwrap();
                        if !live {
                            t.invalidate(addr(NEW), 1, &geo).unwrap();
                        }
                    }
                    (_, _, None) => {
                        (freed_at, live) = (Some(at), false);
                    }
                    (_, _, Some(at)) => t.invalidate(addr(at), 1, &geo).unwrap(),
                }
            }
            for (n, in_checkpoint) in [(OLD, 0), (NEW, 1)] {
                let (seg, off) = geo.seg_of(addr(n)).unwrap();
                assert!(!t.is_valid(seg, off), "{mixture:04b}: {n}");
                assert_eq!(t.entry_at_boundary(seg).valid(), in_checkpoint, "{mixture:04b}: {n}");
            }
            t.committed();
            let (seg, off) = geo.seg_of(addr(NEW)).unwrap();
            assert_ne!(
                t.next_hole(seg, off),
                Some(off),
                "{mixture:04b}: it is kept until the next checkpoint"
            );
        }
    }
}
