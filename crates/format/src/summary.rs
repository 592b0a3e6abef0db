//! Segment summaries, with the owner of each block of a segment, and the summary journals in them.
use crate::{BLOCK_SIZE, Corrupt, Nid, Structure};
use alloc::vec::Vec;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a journal area.
pub const JOURNAL_BYTES: usize = 507;
/// Bytes of the entries of a summary block.
pub const ENTRIES_BYTES: usize = 512 * 7;
/// Bytes of the footer.
pub const FOOTER_BYTES: usize = 5;
/// Where the parts of a summary are in the blocks of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryLayout {
    /// Bytes of a block.
    pub block: usize,
    /// Bytes of a summary: a block, or 4096 with `packed_ssa`.
    pub summary: usize,
}

impl SummaryLayout {
    /// That of a volume with blocks of 4096 bytes.
    pub const SMALL: Self = Self { block: BLOCK_SIZE, summary: BLOCK_SIZE };

    /// First byte of the journal.
    #[must_use]
    pub fn journal_at(self) -> usize {
        self.summary / 8 * 7
    }

    /// Bytes of the journal.
    #[must_use]
    pub fn journal_bytes(self) -> usize {
        self.type_at().saturating_sub(self.journal_at())
    }

    /// The byte with the type.
    #[must_use]
    pub fn type_at(self) -> usize {
        self.summary.saturating_sub(FOOTER_BYTES)
    }

    /// A summary: entries, type, and of the journal what one of 4096 bytes has.
    #[must_use]
    pub fn decode(self, summary: &[u8]) -> RawSummaryBlock {
        let mut block = RawSummaryBlock::empty(SummaryType::Data);
        let copy = |from: usize, into: &mut [u8]| {
            let bytes = summary.get(from..).and_then(|rest| rest.get(..into.len()));
            if let Some(bytes) = bytes {
                into.copy_from_slice(bytes);
            }
        };
        copy(0, block.entries.as_mut_bytes());
        copy(self.journal_at(), &mut block.journal);
        block.entry_type = summary.get(self.type_at()).copied().unwrap_or(u8::MAX);
        block
    }

    /// Entries of the compacted form in its first block, after the two journals, and in each one that follows.
    #[must_use]
    pub fn compact_entries(self) -> (usize, usize) {
        let bytes = self.block.saturating_sub(FOOTER_BYTES);
        (bytes.saturating_sub(2 * self.journal_bytes()) / ENTRY_BYTES, bytes / ENTRY_BYTES)
    }

    /// First byte of entry `i` of the compacted form, counted from its start.
    #[must_use]
    pub fn compact_at(self, i: usize) -> usize {
        let (first, next) = self.compact_entries();
        match i.checked_sub(first) {
            None => 2 * self.journal_bytes() + i * ENTRY_BYTES,
            Some(rest) => {
                let next = next.max(1);
                (1 + rest / next) * self.block + rest % next * ENTRY_BYTES
            }
        }
    }

    /// Entry `i` of compacted summaries, if their blocks reach that far.
    #[must_use]
    pub fn compact_entry(self, blocks: &[u8], i: usize) -> Option<RawSummary> {
        RawSummary::read_from_prefix(blocks.get(self.compact_at(i)..)?).ok().map(|(entry, _)| entry)
    }
}

const ENTRY_BYTES: usize = size_of::<RawSummary>();

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

/// The type of a segment's blocks, in its summary footer.
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

/// A NAT or SIT journal: entries that are newer than the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal<E> {
    /// Entries in use, as stored.
    pub count: u16,
    /// As many entries as there is room for; those from `count` on mean nothing.
    pub entries: Vec<E>,
}

impl<E: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned> Journal<E> {
    /// Reads a journal area.
    #[must_use]
    pub fn decode(area: &[u8]) -> Self {
        let Ok((count, rest)) = U16::read_from_prefix(area) else {
            return Self { count: 0, entries: Vec::new() };
        };
        let entries = rest.chunks_exact(size_of::<E>()).filter_map(|entry| E::read_from_bytes(entry).ok());
        Self { count: count.get(), entries: entries.collect() }
    }

    /// Stores entries into a journal area of zeros, if they fit.
    #[must_use]
    pub fn encode(entries: &[E], area: &mut [u8]) -> bool {
        let (Ok(count), Some((head, rest))) = (u16::try_from(entries.len()), area.split_first_chunk_mut())
        else {
            return false;
        };
        *head = count.to_le_bytes();
        entries.write_to_prefix(rest).is_ok()
    }
}

impl<E> Journal<E> {
    /// The entries in use; `None` if the count is too large.
    #[must_use]
    pub fn used(&self) -> Option<&[E]> {
        self.entries.get(..self.count.into())
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
