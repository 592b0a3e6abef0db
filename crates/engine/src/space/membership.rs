//! Updating a segment together with every index it is in.
use super::table::{Bitmaps, Seg, Table};
use crate::health::invariant;
use segno_format::sit::LogType;
use segno_format::{BLOCKS_PER_SEG, SegNo};

impl Table {
    pub(super) fn update(&mut self, seg: SegNo, f: impl FnOnce(&mut Seg, &mut Option<Box<Bitmaps>>)) {
        invariant!(self.health, seg.idx() < self.segs.len(), "a segment outside the main area changes", else return);
        let before = self.before(seg);
        if let (Some(s), Some(bitmaps)) = (self.segs.get_mut(seg.idx()), self.bitmaps.get_mut(seg.idx())) {
            f(s, bitmaps);
        }
        self.after(seg, before);
    }

    /// Removes a segment from every index; `after` inserts it with its new state.
    pub(super) fn before(&mut self, seg: SegNo) -> Membership {
        let st = self.membership(seg);
        if let Some((log, held)) = st.hole {
            self.holes.put(log, held, seg, false);
        }
        st
    }

    pub(super) fn after(&mut self, seg: SegNo, before: Membership) {
        let sec = self.geo.sec_of(seg);
        let Seg { valid, held, log, .. } = self.seg(seg);
        self.held_total = self.held_total + u64::from(held) - u64::from(before.held);
        self.valid_total = self.valid_total + u64::from(valid) - u64::from(before.valid);
        self.valid_by_log[before.log.idx()] -= u64::from(before.valid);
        self.valid_by_log[log.idx()] += u64::from(valid);
        let (busy, free) = (self.is_busy(seg), self.is_free(seg));
        if let Some(x) = self.secs.get_mut(sec.idx()) {
            x.valid = x.valid + u32::from(valid) - u32::from(before.valid);
            step(&mut x.busy, before.busy, busy);
            step(&mut x.free_segs, before.free, free);
            self.free_secs.put(sec, x.free_segs == self.geo.segs_per_sec);
        }
        if valid == 0 && before.valid > 0 {
            self.note_emptied(sec, log);
        }
        let known = self.free.put(seg.0, free);
        invariant!(self.health, known, "a segment is outside the free segment map", else return);
        let st = self.membership(seg);
        invariant!(self.health, st.valid <= st.held && u32::from(st.held) <= BLOCKS_PER_SEG, "a segment has more valid blocks than held ones", else return);
        self.update_candidate(sec);
        if let Some((log, held)) = st.hole {
            self.holes.put(log, held, seg, true);
        }
        if st.prefree != before.prefree {
            if st.prefree {
                self.prefree.insert(seg);
            } else {
                self.prefree.remove(&seg);
            }
        }
    }

    fn membership(&self, seg: SegNo) -> Membership {
        let s = self.seg(seg);
        let busy = self.is_busy(seg);
        Membership {
            valid: s.valid,
            held: s.held,
            log: s.log,
            busy,
            free: self.is_free(seg),
            prefree: !busy && s.valid == 0 && s.held > 0,
            hole: (!busy && s.valid > 0 && u32::from(s.held) < BLOCKS_PER_SEG).then_some((s.log, s.held)),
        }
    }
}

/// Counts a member that is added or removed. Written with branches: rustc 1.95 may drop the addition of a comparison
/// result that is branched on later.
fn step(count: &mut u32, before: bool, now: bool) {
    match (before, now) {
        (false, true) => *count += 1,
        (true, false) => *count -= 1,
        _ => {}
    }
}

/// State of a segment that decides which indexes contain it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Membership {
    valid: u16,
    held: u16,
    log: LogType,
    busy: bool,
    free: bool,
    prefree: bool,
    hole: Option<(LogType, u16)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::test_health;
    use crate::meta::test_geometry;

    #[test]
    fn a_segment_holds_its_valid_blocks_and_no_more_than_it_has() {
        type Change = fn(&mut Seg);
        let changes: [(Change, bool); 4] = [
            (|s| (s.valid, s.held) = (1, 1), false),
            (|s| (s.valid, s.held) = (512, 512), false),
            (|s| (s.valid, s.held) = (2, 1), true),
            (|s| (s.valid, s.held) = (1, 513), true),
        ];
        for (i, (change, stops)) in changes.into_iter().enumerate() {
            let health = test_health();
            Table::new(&test_geometry(), health.clone()).update(SegNo(3), |s, _| change(s));
            assert_eq!(health.is_stopped(), stops, "change {i}");
        }
    }
}
