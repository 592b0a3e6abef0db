//! Blocks between their allocation and their publication.
use super::{Space, Table, Tables};
use crate::error::Result;
use segno_format::{BlockAddr, SegNo};
use std::sync::Arc;

/// Blocks that a log handed out. Each is published once it is written, or abandoned. Until then its segment is neither free nor a
/// victim.
///
/// Dropping a placement abandons the blocks that are unsettled. So a block is abandoned only if neither index nor
/// pack names it: it was not written, or its page or node was dropped meanwhile.
#[must_use]
pub struct Placement {
    /// The addresses in the order of their owners. The caller may take them.
    pub addrs: Vec<BlockAddr>,
    /// Number of blocks of each segment that are neither published nor abandoned.
    unsettled: Vec<(SegNo, u32)>,
    tables: Arc<Tables>,
}

impl Placement {
    pub(super) fn hand_out(&mut self, t: &mut Table, seg: SegNo, count: u32) {
        t.hand_out(seg, count);
        self.add(seg, count);
    }

    fn add(&mut self, seg: SegNo, count: u32) {
        match self.unsettled.iter_mut().rev().find(|(of, _)| *of == seg) {
            Some((_, unsettled)) => *unsettled += count,
            None => self.unsettled.push((seg, count)),
        }
    }

    /// Takes over the blocks of another placement.
    pub fn append(&mut self, mut other: Self) {
        self.addrs.append(&mut other.addrs);
        std::mem::take(&mut other.unsettled).into_iter().for_each(|(seg, count)| self.add(seg, count));
    }

    /// Blocks are being published.
    fn take(&mut self, t: &mut Table, addrs: &[BlockAddr]) -> Result<()> {
        let geo = t.geo;
        let seg_of = |a: &BlockAddr| geo.seg_of(*a).map(|(seg, _)| seg);
        for run in addrs.chunk_by(|a, b| seg_of(a) == seg_of(b)) {
            let (seg, count) = (run.first().and_then(seg_of), run.len() as u32);
            let own =
                self.unsettled.iter_mut().find(|(of, unsettled)| Some(*of) == seg && *unsettled >= count);
            let (seg, unsettled) = self.tables.health.present(own, "an unallocated block is published")?;
            *unsettled -= count;
            t.take_back(*seg, count)?;
        }
        Ok(())
    }

    /// Lets the index name blocks and publishes them. After an error the index may name blocks that are not published; none is
    /// abandoned then, so that no log hands it out again.
    pub fn settle<R>(mut self, publish: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let done = publish(&mut self);
        if done.is_err() {
            self.unsettled.clear();
        }
        done
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        let mut unsettled = self.unsettled.iter().filter(|(_, count)| *count > 0).peekable();
        if unsettled.peek().is_some() {
            // A failure has stopped the volume; the caller returns its own error.
            let _stopped =
                self.tables.with(|t| unsettled.try_for_each(|&(seg, count)| t.take_back(seg, count)));
        }
    }
}

impl Space {
    /// A placement without blocks yet.
    pub fn placement(&self, capacity: usize) -> Placement {
        Placement { addrs: Vec::with_capacity(capacity), unsettled: Vec::new(), tables: self.tables.clone() }
    }

    /// Publishes blocks that were written and that the index now names, and frees the blocks that it named
    /// before.
    pub fn publish(&self, placed: &mut Placement, new: &[BlockAddr], old: &[BlockAddr]) -> Result<()> {
        let now = self.now();
        self.with_table(|t| {
            placed.take(t, new)?;
            t.set_valid(new, true, now)?;
            t.set_valid(old, false, now)
        })
    }

    /// Publishes blocks written by the checkpoint in progress.
    pub fn place_all(&self, placed: &mut Placement, addrs: &[BlockAddr]) -> Result<()> {
        let now = self.now();
        self.with_table(|t| {
            placed.take(t, addrs)?;
            t.place_frozen(addrs, true, true, now)
        })
    }

    /// Protects blocks that the index names but that are written later from being moved, until the result is dropped.
    pub fn expect(&self, addrs: &[BlockAddr]) -> Placement {
        let mut expected = self.placement(0);
        self.with_table(|t| {
            addrs
                .iter()
                .filter_map(|a| self.geo.seg_of(*a))
                .for_each(|(seg, _)| expected.hand_out(t, seg, 1));
        });
        expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::health::{Health, test_health};
    use crate::meta::test_geometry;

    struct Rig {
        geo: segno_format::Geometry,
        health: Arc<Health>,
        tables: Arc<Tables>,
    }

    impl Rig {
        fn new() -> Self {
            let (geo, health) = (test_geometry(), test_health());
            let table = Table::new(&geo, health.clone());
            Self { geo, tables: Arc::new(Tables::new(table, health.clone())), health }
        }
        /// Blocks from the start of each segment.
        fn place(&self, blocks: &[(u32, u32)]) -> Placement {
            let mut placed =
                Placement { addrs: Vec::new(), unsettled: Vec::new(), tables: self.tables.clone() };
            for &(seg, count) in blocks {
                placed.addrs.extend(self.addrs(seg, count));
                self.tables.with(|t| placed.hand_out(t, SegNo(seg), count));
            }
            placed
        }
        fn addrs(&self, seg: u32, count: u32) -> Vec<BlockAddr> {
            (0..count).map(|i| self.geo.seg_start(SegNo(seg)).offset(i)).collect()
        }
        fn publish(&self, placed: &mut Placement, addrs: &[BlockAddr]) -> Result<()> {
            self.tables.with(|t| placed.take(t, addrs))
        }
        fn unpublished(&self) -> Vec<(u32, u32)> {
            let mut all: Vec<_> =
                self.tables.with(|t| t.unpublished.iter().map(|(seg, &n)| (seg.0, n)).collect());
            all.sort_unstable();
            all
        }
    }

    #[test]
    fn what_is_not_published_is_abandoned_with_the_placement() {
        let rig = Rig::new();
        let mut placed = rig.place(&[(3, 5)]);
        placed.append(rig.place(&[(4, 2), (3, 1)]));
        assert_eq!((placed.addrs.len(), rig.unpublished()), (8, vec![(3, 6), (4, 2)]));
        rig.publish(&mut placed, &rig.addrs(3, 6)).unwrap();
        rig.publish(&mut placed, &rig.addrs(4, 1)).unwrap();
        assert_eq!(rig.unpublished(), [(4, 1)]);
        drop(placed);
        assert_eq!((rig.unpublished(), rig.health.is_stopped()), (vec![], false));
    }

    #[test]
    fn blocks_that_the_index_may_name_after_an_error_are_not_abandoned() {
        let rig = Rig::new();
        let failed = rig.place(&[(3, 5)]).settle(|placed| {
            rig.publish(placed, &rig.addrs(3, 2))?;
            Err::<(), _>(Error::NoSpace)
        });
        assert!(matches!(failed, Err(Error::NoSpace)));
        assert_eq!((rig.unpublished(), rig.health.is_stopped()), (vec![(3, 3)], false));
        rig.place(&[(4, 2)]).settle(|placed| rig.publish(placed, &rig.addrs(4, 1))).unwrap();
        assert_eq!(rig.unpublished(), [(3, 3)], "without an error the rest is abandoned");
    }

    #[test]
    fn a_block_of_another_placement_or_published_before_stops_the_volume() {
        for addrs in [(3, 2), (4, 1)] {
            let rig = Rig::new();
            let (mut placed, _other) = (rig.place(&[(3, 2)]), rig.place(&[(4, 1)]));
            rig.publish(&mut placed, &rig.addrs(3, 1)).unwrap();
            let error = rig.publish(&mut placed, &rig.addrs(addrs.0, addrs.1)).unwrap_err();
            assert!(matches!(error, Error::Invariant("an unallocated block is published")), "{error}");
            assert!(rig.health.is_stopped());
        }
    }
}
