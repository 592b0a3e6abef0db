//! The SIT: valid blocks and type of every segment.
use crate::CheckError;
use crate::evidence::journal::Journal;
use crate::evidence::{Pack, Reader};
use crate::report::{Kind, Sink};
use segno_format::bits::{msb, popcount};
use segno_format::geometry::SIT_PER_BLOCK;
use segno_format::sit::{LogType, RawSitBlock, RawSitEntry, RawSitJournal, SIT_MAP_BYTES};
use segno_format::{Geometry, SegNo, Structure};

const JOURNAL: Journal = Journal {
    kind: Kind::SitJournal,
    structure: Structure::SitJournal,
    out_of_range: "segment out of range",
    second: "second entry for a segment",
};

/// Marks a type that is not one.
const BAD_TYPE: u8 = u8::MAX;

const PER_BLOCK: usize = SIT_PER_BLOCK as usize;
/// Valid blocks of the segments of one SIT block.
type Bitmaps = [[u8; SIT_MAP_BYTES]; PER_BLOCK];

/// The SIT as of a checkpoint. Segments without a valid block take 3 bytes and a share of a pointer.
///
/// Entries of a damaged block are as stored.
pub(crate) struct Sit {
    /// By SIT block; none where no block is valid.
    bitmaps: Vec<Option<Box<Bitmaps>>>,
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
        let mut bitmaps = Vec::new();
        bitmaps.resize_with(geo.sit_blocks() as usize, || None);
        let mut sit = Self { bitmaps, counts: vec![0; segments], types: vec![0; segments] };
        let addr = |b| geo.sit_addr(b, pack.sit_copy(b));
        reader.scan(geo.sit_blocks(), addr, |b, block| {
            let first = b.saturating_mul(SIT_PER_BLOCK);
            for (seg, entry) in (first..geo.segment_count_main).zip(&block.view::<RawSitBlock>().entries) {
                sit.put(SegNo(seg), entry, sink);
            }
        })?;
        let entries = journal.entries.iter().map(|e| (e.segno.get(), &e.entry));
        let segments = 0..geo.segment_count_main;
        for (seg, entry) in JOURNAL.entries(entries, journal.count.get(), &segments, pack, sink) {
            sit.put(SegNo(seg), entry, sink);
        }
        Ok(sit)
    }

    fn put(&mut self, seg: SegNo, entry: &RawSitEntry, sink: &mut Sink) {
        // The valid map is kept even if the entry is invalid: blocks are compared with it.
        if let Err(e) = entry.parse(seg) {
            sink.add(Kind::SitEntry, e);
        }
        let typed = u8::try_from(entry.vblocks.get() >> 10).ok().and_then(LogType::from_disk);
        let valid = entry.valid_map.iter().any(|&bits| bits != 0);
        if let Some(bitmaps) =
            self.bitmaps.get_mut(seg.idx() / PER_BLOCK).filter(|bitmaps| valid || bitmaps.is_some())
        {
            let bitmaps = bitmaps.get_or_insert_with(|| Box::new([[0; SIT_MAP_BYTES]; PER_BLOCK]));
            if let Some(bitmap) = bitmaps.get_mut(seg.idx() % PER_BLOCK) {
                *bitmap = entry.valid_map;
            }
        }
        if let (Some(count), Some(t)) = (self.counts.get_mut(seg.idx()), self.types.get_mut(seg.idx())) {
            *count = popcount(&entry.valid_map) as u16;
            *t = typed.map_or(BAD_TYPE, |t| t as u8);
        }
    }

    /// Type of a segment; `None` when it is invalid or the segment does not exist.
    pub(crate) fn log_type(&self, seg: SegNo) -> Option<LogType> {
        self.types.get(seg.idx()).copied().and_then(LogType::from_disk)
    }

    /// Valid blocks of a segment.
    pub(crate) fn count(&self, seg: SegNo) -> u16 {
        self.counts.get(seg.idx()).copied().unwrap_or_default()
    }

    /// Whether a block is valid.
    pub(crate) fn is_valid(&self, seg: SegNo, off: u32) -> bool {
        let bitmaps = self.bitmaps.get(seg.idx() / PER_BLOCK).and_then(Option::as_deref);
        bitmaps
            .and_then(|bitmaps| bitmaps.get(seg.idx() % PER_BLOCK))
            .is_some_and(|map| msb::test(map, off as usize))
    }

    /// Segments with valid blocks.
    pub(crate) fn used(&self) -> impl Iterator<Item = (SegNo, u16)> + '_ {
        (0..).map(SegNo).zip(self.counts.iter().copied()).filter(|&(_, n)| n != 0)
    }
}
