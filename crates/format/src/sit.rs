//! SIT: which blocks of a segment are valid, what kind it is, how old.
use crate::geometry::{SIT_ENTRY_BYTES, SIT_PER_BLOCK};
use crate::summary::SummaryType;
use crate::{Corrupt, SegNo, Structure, bits};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most entries of the SIT journal.
pub const SIT_JOURNAL_MAX: usize = 6;
/// Bytes of a valid map.
pub const SIT_MAP_BYTES: usize = 64;

/// The six logs, numbered as in the SIT type and the checkpoint's `alloc_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum LogType {
    /// Directory entries.
    HotData = 0,
    /// Data of files.
    WarmData = 1,
    /// Data that is seldom rewritten, and data that cleaning moved.
    ColdData = 2,
    /// Direct nodes of directories.
    HotNode = 3,
    /// Direct nodes of files.
    WarmNode = 4,
    /// Indirect nodes.
    ColdNode = 5,
}

impl LogType {
    /// All logs in numeric order.
    pub const ALL: [Self; 6] =
        [Self::HotData, Self::WarmData, Self::ColdData, Self::HotNode, Self::WarmNode, Self::ColdNode];

    /// The log of a stored number.
    #[must_use]
    pub fn from_disk(v: u8) -> Option<Self> {
        Self::ALL.get(usize::from(v)).copied()
    }
    /// Whether its blocks are nodes.
    #[must_use]
    pub fn is_node(self) -> bool {
        self >= Self::HotNode
    }
    /// The type of the summaries of its segments.
    #[must_use]
    pub fn summary_type(self) -> SummaryType {
        if self.is_node() { SummaryType::Node } else { SummaryType::Data }
    }
    /// As an index.
    #[must_use]
    pub fn idx(self) -> usize {
        self as usize
    }
}

/// `struct f2fs_sit_entry`, 74 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSitEntry {
    /// Number of valid blocks, and the log type in the upper six bits.
    pub vblocks: U16,
    /// A bit for each block, the highest bit of a byte first.
    pub valid_map: [u8; SIT_MAP_BYTES],
    /// Mean time of modification, in seconds of `elapsed_time`.
    pub mtime: U64,
}
const _: () = assert!(size_of::<RawSitEntry>() == SIT_ENTRY_BYTES as usize);

impl RawSitEntry {
    /// An entry from its parts.
    #[must_use]
    pub fn new(log: LogType, valid: u16, map: &[u8; SIT_MAP_BYTES], mtime: u64) -> Self {
        Self {
            vblocks: U16::new((log as u16) << 10 | (valid & 0x3ff)),
            valid_map: *map,
            mtime: U64::new(mtime),
        }
    }
    /// Valid blocks, as stored.
    #[must_use]
    pub fn valid(&self) -> u16 {
        self.vblocks.get() & 0x3ff
    }
    /// Checks count, map and type.
    pub fn parse(&self, seg: SegNo) -> Result<LogType, Corrupt> {
        let pop = bits::popcount(&self.valid_map);
        if pop != u32::from(self.valid()) {
            return Err(Corrupt::seg(
                Structure::SitBlock,
                seg.0,
                "valid block count differs from the bitmap",
                self.valid().into(),
                pop.into(),
            ));
        }
        let t = self.vblocks.get() >> 10;
        u8::try_from(t)
            .ok()
            .and_then(LogType::from_disk)
            .ok_or_else(|| Corrupt::seg(Structure::SitBlock, seg.0, "segment type", t.into(), 5))
    }
}

/// The entries of a SIT block of any size, of consecutive segments.
#[must_use]
pub fn sit_block_entries(block: &[u8]) -> &[RawSitEntry] {
    let count = block.len() / size_of::<RawSitEntry>();
    <[RawSitEntry]>::ref_from_prefix_with_elems(block, count).map_or(&[], |(entries, _)| entries)
}

/// A SIT block of 4096 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSitBlock {
    /// Entries of consecutive segments.
    pub entries: [RawSitEntry; SIT_PER_BLOCK as usize],
    /// Unused.
    pub pad: [u8; 26],
}
const _: () = assert!(size_of::<RawSitBlock>() == 4096);

/// A journal entry: which segment, and its SIT entry.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSitJournalEntry {
    /// The segment whose entry is newer than the SIT block.
    pub segno: U32,
    /// The entry.
    pub entry: RawSitEntry,
}

impl RawSitJournalEntry {
    /// An entry from its parts.
    #[must_use]
    pub fn new(seg: SegNo, entry: RawSitEntry) -> Self {
        Self { segno: U32::new(seg.0), entry }
    }
}

/// The SIT journal area of the cold data summary, 507 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSitJournal {
    /// Entries in use.
    pub count: U16,
    /// The entries; those from `count` on mean nothing.
    pub entries: [RawSitJournalEntry; SIT_JOURNAL_MAX],
    /// Unused.
    pub reserved: [u8; 37],
}
const _: () = assert!(size_of::<RawSitJournal>() == crate::summary::JOURNAL_BYTES);
