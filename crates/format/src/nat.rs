//! NAT: where each node block lives.
use crate::geometry::{NAT_ENTRY_BYTES, NAT_PER_BLOCK};
use crate::{BlockAddr, Ino, Nid};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Most entries of the NAT journal.
pub const NAT_JOURNAL_MAX: usize = 38;

/// `struct f2fs_nat_entry`, 9 bytes.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct RawNatEntry {
    /// Counts up each time the nid is freed.
    pub version: u8,
    /// Inode that the node belongs to; the nid itself for an inode.
    pub ino: U32,
    /// Where the node is; 0 if the nid is free.
    pub block_addr: U32,
}
const _: () = assert!(size_of::<RawNatEntry>() == NAT_ENTRY_BYTES as usize);

impl RawNatEntry {
    /// An entry from its parts.
    #[must_use]
    pub fn new(version: u8, ino: Ino, addr: BlockAddr) -> Self {
        Self { version, ino: U32::new(ino.0), block_addr: U32::new(addr.0) }
    }
    /// The entry of a nid without a node: zeros, except for the two virtual inodes, which are in use with an
    /// address that no node can have.
    #[must_use]
    pub fn without_node(nid: Nid) -> Self {
        let ino = nid.as_ino();
        if ino == Ino::NODE || ino == Ino::META { Self::new(0, ino, BlockAddr(1)) } else { Self::default() }
    }
    /// Owner of the node.
    #[must_use]
    pub fn owner(&self) -> Ino {
        Ino(self.ino.get())
    }
    /// Place of the node.
    #[must_use]
    pub fn addr(&self) -> BlockAddr {
        BlockAddr(self.block_addr.get())
    }
}

/// The entries of a NAT block of any size, of consecutive nids.
#[must_use]
pub fn nat_block_entries(block: &[u8]) -> &[RawNatEntry] {
    let count = block.len() / size_of::<RawNatEntry>();
    <[RawNatEntry]>::ref_from_prefix_with_elems(block, count).map_or(&[], |(entries, _)| entries)
}

/// A NAT block of 4096 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawNatBlock {
    /// Entries of consecutive nids.
    pub entries: [RawNatEntry; NAT_PER_BLOCK as usize],
    /// Unused.
    pub pad: u8,
}
const _: () = assert!(size_of::<RawNatBlock>() == 4096);

/// A journal entry: which nid, and its NAT entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawNatJournalEntry {
    /// The nid whose entry is newer than the NAT block.
    pub nid: U32,
    /// The entry.
    pub entry: RawNatEntry,
}

impl RawNatJournalEntry {
    /// An entry from its parts.
    #[must_use]
    pub fn new(nid: Nid, entry: RawNatEntry) -> Self {
        Self { nid: U32::new(nid.0), entry }
    }
}

/// The NAT journal area of the hot data summary, 507 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawNatJournal {
    /// Entries in use.
    pub count: U16,
    /// The entries; those from `count` on mean nothing.
    pub entries: [RawNatJournalEntry; NAT_JOURNAL_MAX],
    /// Unused.
    pub reserved: [u8; 11],
}
const _: () = assert!(size_of::<RawNatJournal>() == crate::summary::JOURNAL_BYTES);

/// NAT block and entry of a nid.
#[must_use]
pub fn nat_index(n: Nid) -> (u32, usize) {
    (n.0 / NAT_PER_BLOCK, (n.0 % NAT_PER_BLOCK) as usize)
}
