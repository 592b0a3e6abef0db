//! The SIT: valid blocks and type of every segment.
use crate::CheckError;
use crate::pack::Pack;
use crate::reader::Reader;
use crate::report::{Kind, Sink};
use segno_format::bits::{msb, popcount};
use segno_format::geometry::SIT_PER_BLOCK;
use segno_format::sit::{LogType, RawSitBlock, RawSitEntry, RawSitJournal, SIT_JOURNAL_MAX, SIT_MAP_BYTES};
use segno_format::{Corrupt, Geometry, SegNo, Structure};

/// Marks a type that is not one.
const BAD_TYPE: u8 = u8::MAX;

/// The SIT as of a checkpoint: flat tables, so that a volume whose segments are empty costs no memory.
///
/// Entries of a damaged block are as stored.
pub struct Sit {
    maps: Vec<u8>,
    counts: Vec<u16>,
    types: Vec<u8>,
}

impl Sit {
    pub(crate) fn load(
        reader: &Reader<'_>,
        geo: &Geometry,
        pack: &Pack,
        journal: &RawSitJournal,
        sink: &mut Sink,
    ) -> Result<Self, CheckError> {
        let segments = geo.segment_count_main as usize;
        let mut sit = Self {
            maps: vec![0; segments * SIT_MAP_BYTES],
            counts: vec![0; segments],
            types: vec![0; segments],
        };
        let addr = |b| geo.sit_addr(b, pack.sit_copy(b));
        reader.scan(geo.sit_blocks(), addr, |b, block| {
            let first = b.saturating_mul(SIT_PER_BLOCK);
            for (seg, entry) in (first..geo.segment_count_main).zip(&block.view::<RawSitBlock>().entries) {
                sit.put(SegNo(seg), entry, sink);
            }
        })?;
        sit.apply(journal, pack, sink);
        Ok(sit)
    }

    fn apply(&mut self, journal: &RawSitJournal, pack: &Pack, sink: &mut Sink) {
        let count = usize::from(journal.count.get());
        let bad = |why, found: u64, expected: u64| {
            Corrupt::block(
                Structure::SitJournal,
                pack.addr(pack.cp().cp_pack_start_sum.get()),
                why,
                found,
                expected,
            )
        };
        if count > SIT_JOURNAL_MAX {
            sink.add(Kind::SitJournal, bad("number of entries", count as u64, SIT_JOURNAL_MAX as u64));
            return;
        }
        let mut seen = Vec::new();
        for e in journal.entries.iter().take(count) {
            let seg = e.segno.get();
            if seg as usize >= self.counts.len() {
                sink.add(Kind::SitJournal, bad("segment out of range", seg.into(), self.counts.len() as u64));
            } else if seen.contains(&seg) {
                sink.add(Kind::SitJournal, bad("second entry for a segment", seg.into(), 0));
            } else {
                self.put(SegNo(seg), &e.entry, sink);
                seen.push(seg);
            }
        }
    }

    fn put(&mut self, seg: SegNo, entry: &RawSitEntry, sink: &mut Sink) {
        // The map is what the blocks are compared with, whatever else is wrong.
        if let Err(e) = entry.parse(seg) {
            sink.add(Kind::SitEntry, e);
        }
        let typed = u8::try_from(entry.vblocks.get() >> 10).ok().and_then(LogType::from_disk);
        let at = seg.idx() * SIT_MAP_BYTES;
        if let Some(map) = self.maps.get_mut(at..at + SIT_MAP_BYTES)
            && map != entry.valid_map
        {
            map.copy_from_slice(&entry.valid_map);
        }
        if let (Some(count), Some(t)) = (self.counts.get_mut(seg.idx()), self.types.get_mut(seg.idx())) {
            *count = popcount(&entry.valid_map) as u16;
            *t = typed.map_or(BAD_TYPE, |t| t as u8);
        }
    }

    /// Type of a segment; `None` when it is invalid or the segment does not exist.
    pub fn log_type(&self, seg: SegNo) -> Option<LogType> {
        self.types.get(seg.idx()).copied().and_then(LogType::from_disk)
    }

    /// Valid blocks of a segment.
    pub fn count(&self, seg: SegNo) -> u16 {
        self.counts.get(seg.idx()).copied().unwrap_or_default()
    }

    /// Whether a block is valid.
    pub fn is_valid(&self, seg: SegNo, off: u32) -> bool {
        let at = seg.idx() * SIT_MAP_BYTES;
        msb::test(self.maps.get(at..at + SIT_MAP_BYTES).unwrap_or_default(), off as usize)
    }

    /// Segments with valid blocks.
    pub fn used(&self) -> impl Iterator<Item = (SegNo, u16)> + '_ {
        (0..).map(SegNo).zip(self.counts.iter().copied()).filter(|&(_, n)| n != 0)
    }
}
