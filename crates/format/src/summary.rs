//! Segment summaries: who owns each block of a segment; and the journals that ride in them.
use crate::{Block, Corrupt, Nid, Structure};
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a journal area.
pub const JOURNAL_BYTES: usize = 507;
/// Bytes of the entries of a summary block.
pub const ENTRIES_BYTES: usize = 512 * 7;
/// Bytes of the footer.
pub const FOOTER_BYTES: usize = 5;
/// Entries that fit in the first block of the compacted form, after the two journals.
pub const COMPACT_FIRST: usize = (4096 - FOOTER_BYTES - 2 * JOURNAL_BYTES) / 7;
/// Entries that fit in a following block of the compacted form.
pub const COMPACT_NEXT: usize = (4096 - FOOTER_BYTES) / 7;
const _: () = assert!(COMPACT_FIRST == 439 && COMPACT_NEXT == 584);

/// `struct f2fs_summary`, 7 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RawSummary {
    /// Node that refers to the block; of a node block its own nid.
    pub nid: U32,
    /// Version of that node's NAT entry when the block was written.
    pub version: u8,
    /// Slot of the block in the node.
    pub ofs_in_node: U16,
}

impl RawSummary {
    /// Owner of a data block: slot `ofs` of node `nid` (of NAT version `version`).
    #[must_use]
    pub fn data(nid: Nid, version: u8, ofs: u16) -> Self {
        Self { nid: U32::new(nid.0), version, ofs_in_node: U16::new(ofs) }
    }
    /// A node block.
    #[must_use]
    pub fn node(nid: Nid) -> Self {
        Self::data(nid, 0, 0)
    }
    /// The owning (data) or own (node) nid.
    #[must_use]
    pub fn nid(&self) -> Nid {
        Nid(self.nid.get())
    }
}

/// What a segment's blocks are, by its summary footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummaryType {
    /// The segment holds data blocks.
    Data = 0,
    /// The segment holds node blocks.
    Node = 1,
}

/// `struct f2fs_summary_block`.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSummaryBlock {
    /// An entry for each block of the segment.
    pub entries: [RawSummary; 512],
    /// NAT or SIT entries, in the summaries of a checkpoint pack.
    pub journal: [u8; JOURNAL_BYTES],
    /// See [`SummaryType`].
    pub entry_type: u8,
    /// Checksum of the block, where it is stored.
    pub check_sum: U32,
}
const _: () = assert!(size_of::<RawSummaryBlock>() == 4096);

impl RawSummaryBlock {
    /// An empty summary of a type.
    #[must_use]
    pub const fn empty(t: SummaryType) -> Self {
        let none = RawSummary { nid: U32::ZERO, version: 0, ofs_in_node: U16::ZERO };
        Self { entries: [none; 512], journal: [0; JOURNAL_BYTES], entry_type: t as u8, check_sum: U32::ZERO }
    }
    /// The footer's type.
    pub fn parse_type(&self, at: u64) -> Result<SummaryType, Corrupt> {
        match self.entry_type {
            0 => Ok(SummaryType::Data),
            1 => Ok(SummaryType::Node),
            v => Err(Corrupt::block(Structure::Summary, at, "entry type", v.into(), 1)),
        }
    }
}

/// Journal area of the hot node summary: lifetime write statistics.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawExtraInfo {
    /// Unused.
    pub unused: U16,
    /// KiB written since the volume was formatted.
    pub kbytes_written: U64,
    /// Unused.
    pub reserved: [u8; 497],
}
const _: () = assert!(size_of::<RawExtraInfo>() == JOURNAL_BYTES);

/// Where entry number `i` of the compacted form is: (block of the form, byte offset).
#[must_use]
pub fn compact_position(i: usize) -> (usize, usize) {
    match i.checked_sub(COMPACT_FIRST) {
        None => (0, 2 * JOURNAL_BYTES + i * 7),
        Some(rest) => (1 + rest / COMPACT_NEXT, (rest % COMPACT_NEXT) * 7),
    }
}

/// Entry `i` of compacted summaries, if the blocks reach that far.
#[must_use]
pub fn compact_entry(blocks: &[Block], i: usize) -> Option<RawSummary> {
    let (block, offset) = compact_position(i);
    let bytes = blocks.get(block)?.0.get(offset..)?;
    RawSummary::read_from_prefix(bytes).ok().map(|(entry, _)| entry)
}
