//! The devices of a test volume: ranges of the recorded device, each with a separate write cache.
use crate::zones::{CONVENTIONAL, ZONE, ZoneLayer};
use segno_device::{BlockDevice, MemDevice, MultiDevice};
use segno_testkit::{FlushRegion, Window};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// How a setup divides the device.
#[derive(Clone, Debug)]
pub(crate) struct Devices {
    /// Where each device of the volume is, and how many of its blocks are the volume's. The first begins at block 0.
    members: Vec<(Range<u64>, u64)>,
    /// Where an external journal is.
    journal: Option<Range<u64>>,
    /// The zones of the last device of the volume that are written in order, if it has zones.
    in_order: Option<Range<u64>>,
}

/// The devices of a mount.
pub(crate) struct Opened {
    pub volume: Arc<dyn BlockDevice>,
    pub journal: Option<Arc<dyn BlockDevice>>,
}

/// A device of a volume, and the number of its blocks that are the volume's.
type Member = (Arc<dyn BlockDevice>, u64);

impl Devices {
    /// Chosen by the end of the setup's name. `devices` has several devices. `multijournal` and
    /// `zonedjournal` have several devices too, with a journal after the first one's share. In `beside` the
    /// gap after the volume is the journal's device.
    pub(crate) fn of_setup(name: &str, zoned: bool, gap: Range<u64>) -> Self {
        let (volume, all) = (gap.start, gap.end);
        // Metadata and a segment of nodes; other nodes; most data. So fsyncs and checkpoints depend on flushes of all.
        let (first, half) = (CONVENTIONAL * ZONE, volume / ZONE / 2 * ZONE);
        let on_first = name.ends_with("multijournal") || name.ends_with("zonedjournal");
        let external = name.ends_with("beside");
        let ends = match (on_first || name.ends_with("devices"), zoned) {
            (true, false) => vec![first, half, volume],
            (true, true) => vec![first, volume],
            (false, _) => vec![volume],
        };
        let rest = all - volume;
        // The gap is on the first device, or after all of them.
        let moved = if on_first { rest } else { 0 };
        let starts: Vec<u64> = [0].into_iter().chain(ends.iter().map(|end| end + moved)).collect();
        let place = |(&start, &end): (&u64, &u64)| {
            let end = if end == volume && !external { all } else { end + moved };
            start..end
        };
        let places = starts.iter().zip(&ends).map(place);
        let shares = [0].iter().chain(&ends).zip(&ends).map(|(start, end)| end - start);
        let members: Vec<_> = places.zip(shares).collect();
        let in_order = zoned.then(|| members.last().map(|(last, _)| last.start.max(first)..last.end));
        Self { members, journal: external.then_some(gap), in_order: in_order.flatten() }
    }

    pub(crate) fn count(&self) -> u64 {
        (self.members.len() + usize::from(self.have_journal())) as u64
    }

    pub(crate) fn are_zoned(&self) -> bool {
        self.in_order.is_some()
    }

    pub(crate) fn have_journal(&self) -> bool {
        self.journal.is_some()
    }

    /// Applies the rules of zones to the blocks that are left after a power cut.
    pub(crate) fn settle(&self, device: &MemDevice) -> io::Result<()> {
        self.in_order.clone().map_or(Ok(()), |zones| ZoneLayer::settle(device, zones))
    }

    /// Opens all of them; several of a volume are joined as the product joins them.
    pub(crate) fn open(&self, whole: &Arc<dyn FlushRegion>) -> io::Result<Opened> {
        let mut members = self.members(whole)?;
        let volume = match members.pop() {
            Some((only, _)) if members.is_empty() => only,
            last => Arc::new(MultiDevice::of_volume(members.into_iter().chain(last).collect())?),
        };
        let journal = self.journal.as_ref().map(|blocks| range(whole, blocks)).transpose()?;
        Ok(Opened { volume, journal })
    }

    /// The devices of the volume.
    pub(crate) fn members(&self, whole: &Arc<dyn FlushRegion>) -> io::Result<Vec<Member>> {
        let member = |(place, share): &(Range<u64>, u64)| -> io::Result<Member> {
            let mut device = range(whole, place)?;
            if let Some(zones) = self.in_order.as_ref().filter(|zones| zones.end == place.end) {
                device = Arc::new(ZoneLayer::open(device, (zones.start - place.start) / ZONE)?);
            }
            Ok((device, *share))
        };
        self.members.iter().map(member).collect()
    }
}

fn range(whole: &Arc<dyn FlushRegion>, blocks: &Range<u64>) -> io::Result<Arc<dyn BlockDevice>> {
    if *blocks == (0..whole.block_count()) {
        return Ok(whole.clone());
    }
    Ok(Arc::new(Window::new(whole.clone(), blocks.clone())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup;
    use segno_device::MemDevice;
    use segno_format::Block;
    use segno_format::superblock::RawSuperblock;

    #[test]
    fn the_devices_of_a_setup_are_those_of_its_superblock() {
        for (name, expected) in [("devices", &[8, 23, 32][..]), ("zoneddevices", &[8, 33]), ("beside", &[])] {
            let setup = setup::chosen(Some(name), 0).unwrap();
            let whole: Arc<dyn FlushRegion> = Arc::new(MemDevice::from_snapshot(&setup.base));
            let opened = setup.devices.open(&whole).unwrap();
            let mut first = [Block::zeroed()];
            opened.volume.read(0, &mut first).unwrap();
            let superblock = RawSuperblock::from_block(&first[0].0).parse(0).unwrap();
            let segments: Vec<u32> = superblock.devices.iter().map(|d| d.total_segments).collect();
            assert_eq!(segments, expected, "{name}");
            assert_eq!(opened.volume.block_count(), setup.blocks, "{name}");
            let journal = opened.journal.map(|journal| journal.block_count());
            assert_eq!(journal, (name == "beside").then_some(8 * 256), "{name}");
            // Segment 0 comes after the superblocks.
            let shares: Vec<u64> = setup.devices.members(&whole).unwrap().into_iter().map(|m| m.1).collect();
            let of_table =
                (0..).zip(expected).map(|(n, &segments)| u64::from(segments + u32::from(n == 0)) * ZONE);
            assert!(expected.is_empty() || shares == of_table.collect::<Vec<_>>(), "{name}: {shares:?}");
        }
    }

    #[test]
    fn a_flush_of_the_volume_leaves_the_journal_in_flight() {
        let setup = setup::chosen(Some("beside"), 0).unwrap();
        let recorded = Arc::new(segno_testkit::RecordDevice::new(MemDevice::from_snapshot(&setup.base)));
        let whole: Arc<dyn FlushRegion> = recorded.clone();
        let opened = setup.devices.open(&whole).unwrap();
        opened.volume.flush().unwrap();
        opened.journal.unwrap().flush().unwrap();
        let flushed = |n: usize| match &recorded.log()[n] {
            segno_testkit::Event::Flush { within, .. } => within.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!((flushed(0), flushed(1)), (0..setup.blocks, setup.blocks..setup.base.block_count()));
    }
}
