//! Quota files: the kernel's "vfsv1" format, a radix tree over the id whose leaves are blocks of records.
use crate::{Corrupt, Structure};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// User, group and project: the order of the superblock.
pub const QUOTA_KINDS: usize = 3;
/// Bytes of a block of the file.
pub const QUOTA_BLOCK: usize = 1024;

/// Magic numbers, by kind.
pub const QUOTA_MAGICS: [u32; QUOTA_KINDS] = [0xD9C0_1F11, 0xD9C0_1927, 0xD9C0_3F14];
/// The only version there is.
pub const QUOTA_VERSION: u32 = 1;
const GRACE_SECONDS: u32 = 7 * 24 * 60 * 60;
/// Block of the tree's root.
pub const QUOTA_ROOT: u32 = 1;
/// Levels of references, one for each byte of the id.
pub const QUOTA_DEPTH: usize = 4;
/// Records of a leaf.
pub const QUOTA_RECORDS: usize = 14;
const LEAF_HEADER: usize = size_of::<RawQuotaLeafHeader>();

/// `struct v2_disk_dqheader` and `struct v2_disk_dqinfo`: block 0.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawQuotaHeader {
    /// One of [`QUOTA_MAGICS`].
    pub magic: U32,
    /// [`QUOTA_VERSION`].
    pub version: U32,
    /// Seconds that a soft limit on space may be exceeded.
    pub bgrace: U32,
    /// Seconds that a soft limit on inodes may be exceeded.
    pub igrace: U32,
    /// `dqi_flags`.
    pub flags: U32,
    /// Blocks of the file.
    pub blocks: U32,
    /// First free block, or 0.
    pub free_blk: U32,
    /// First block with free records, or 0.
    pub free_entry: U32,
}

/// `struct qt_disk_dqdbheader`: the start of a leaf.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawQuotaLeafHeader {
    /// Neighbours in the list of blocks with free records, or 0.
    pub next_free: U32,
    /// The other one.
    pub prev_free: U32,
    /// Records in use.
    pub entries: U16,
    /// Unused.
    pub pad: [U16; 3],
}

/// `struct v2r1_disk_dqblk`; all zeros when free.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawQuotaRecord {
    /// User, group or project.
    pub id: U32,
    /// Unused.
    pub pad: U32,
    /// Hard and soft limit on inodes; 0 means no limit.
    pub inode_limits: [U64; 2],
    /// Inodes in use.
    pub inodes: U64,
    /// Hard and soft limit in KiB; 0 means no limit.
    pub space_limits: [U64; 2],
    /// Space in use.
    pub bytes: U64,
    /// When the grace times of space and inodes end.
    pub times: [U64; 2],
}

/// A block of records.
#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawQuotaLeaf {
    /// The header before the records.
    pub header: RawQuotaLeafHeader,
    /// Usage and limits of an id each.
    pub records: [RawQuotaRecord; QUOTA_RECORDS],
}

impl RawQuotaRecord {
    /// Whether all of it is zero.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.as_bytes().iter().all(|&b| b == 0)
    }
}

const _: () = assert!(size_of::<RawQuotaHeader>() == 32);
const _: () = assert!(LEAF_HEADER == 16 && size_of::<RawQuotaRecord>() == 72);

/// Usage and limits of one id. The hard limit comes before the soft one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaEntry {
    /// Inodes in use.
    pub inodes: u64,
    /// Space in use.
    pub bytes: u64,
    /// Hard and soft limit on inodes; 0 means no limit.
    pub inode_limits: [u64; 2],
    /// In KiB.
    pub space_limits: [u64; 2],
    /// When the grace times of space and inodes end.
    pub times: [u64; 2],
}

impl QuotaEntry {
    /// Whether there is nothing to store.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        (self.inodes, self.bytes) == (0, 0) && (self.inode_limits, self.space_limits) == ([0; 2], [0; 2])
    }

    fn of(raw: &RawQuotaRecord) -> Self {
        Self {
            inodes: raw.inodes.get(),
            bytes: raw.bytes.get(),
            inode_limits: raw.inode_limits.map(U64::get),
            space_limits: raw.space_limits.map(U64::get),
            times: raw.times.map(U64::get),
        }
    }

    fn raw(&self, id: u32) -> RawQuotaRecord {
        RawQuotaRecord {
            id: U32::new(id),
            pad: U32::new(0),
            inode_limits: self.inode_limits.map(U64::new),
            inodes: U64::new(self.inodes),
            space_limits: self.space_limits.map(U64::new),
            bytes: U64::new(self.bytes),
            times: self.times.map(U64::new),
        }
    }
}

/// The content of a quota file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaTable {
    /// Seconds that a soft limit on space, on inodes may be exceeded.
    pub grace: [u32; 2],
    /// `dqi_flags`.
    pub flags: u32,
    /// Usage and limits by user, group or project id.
    pub entries: BTreeMap<u32, QuotaEntry>,
}

impl Default for QuotaTable {
    fn default() -> Self {
        Self { grace: [GRACE_SECONDS; 2], flags: 0, entries: BTreeMap::new() }
    }
}

impl QuotaTable {
    /// Bytes of the file in use, according to its first block.
    #[must_use]
    pub fn len_of(first: &[u8]) -> u64 {
        let header: RawQuotaHeader = at(first, 0, 0);
        u64::from(header.blocks.get()) * QUOTA_BLOCK as u64
    }

    /// Reads the file of inode `ino`, given its bytes in use.
    pub fn parse(bytes: &[u8], kind: usize, ino: u32) -> Result<Self, Corrupt> {
        let bad = |why, found: u32, expected: u32| {
            Corrupt::nid(Structure::Quota, ino, why, found.into(), expected.into())
        };
        let header: RawQuotaHeader = at(bytes, 0, 0);
        let magic = QUOTA_MAGICS.get(kind).copied().unwrap_or_default();
        if header.magic.get() != magic {
            return Err(bad("magic number", header.magic.get(), magic));
        }
        if header.version.get() != QUOTA_VERSION {
            return Err(bad("version", header.version.get(), QUOTA_VERSION));
        }
        let blocks = u32::try_from(bytes.len() / QUOTA_BLOCK).unwrap_or(u32::MAX);
        let mut entries = BTreeMap::new();
        let mut entered = vec![false; blocks as usize];
        let mut todo = vec![(QUOTA_ROOT, 0, 0u32)];
        while let Some((block, level, id)) = todo.pop() {
            let Some(entered) = entered.get_mut(block as usize) else {
                return Err(bad("reference past the last block", block, blocks));
            };
            if level == QUOTA_DEPTH {
                let entry = find(bytes, block, id)
                    .ok_or_else(|| bad("record is missing from its block", block, id))?;
                entries.insert(id, entry);
                continue;
            }
            if core::mem::replace(entered, true) {
                return Err(bad("tree block referred to twice", block, 0));
            }
            let children: [U32; 256] = at(bytes, block, 0);
            let used = (0u32..).zip(children).filter(|(_, c)| c.get() != 0);
            todo.extend(used.map(|(byte, c)| (c.get(), level + 1, id << 8 | byte)));
        }
        Ok(Self { grace: [header.bgrace.get(), header.igrace.get()], flags: header.flags.get(), entries })
    }

    /// The file's bytes: every leaf full but the last.
    #[must_use]
    pub fn to_bytes(&self, kind: usize) -> Vec<u8> {
        let mut out = Writer {
            bytes: vec![0; 2 * QUOTA_BLOCK],
            path: [QUOTA_ROOT, 0, 0, 0],
            last: None,
            leaf: 0,
            records: QUOTA_RECORDS,
        };
        for (&id, entry) in self.entries.iter().filter(|(_, e)| !e.is_empty()) {
            out.add(id, entry);
        }
        out.finish(self, kind)
    }
}

/// The record of an id in a leaf.
fn find(bytes: &[u8], block: u32, id: u32) -> Option<QuotaEntry> {
    let leaf: RawQuotaLeaf = at(bytes, block, 0);
    leaf.records.iter().find(|r| r.id.get() == id && !r.is_free()).map(QuotaEntry::of)
}

/// A structure in a block; zeros if it is not there.
fn at<T: FromBytes>(bytes: &[u8], block: u32, offset: usize) -> T {
    let start = block as usize * QUOTA_BLOCK + offset;
    let found = bytes.get(start..).and_then(|b| T::read_from_prefix(b).ok());
    found.map_or_else(T::new_zeroed, |(v, _)| v)
}

/// A file being written, ids ascending.
struct Writer {
    bytes: Vec<u8>,
    /// Tree blocks that lead to the last id.
    path: [u32; QUOTA_DEPTH],
    last: Option<[u8; QUOTA_DEPTH]>,
    /// The leaf being filled, and how full it is.
    leaf: u32,
    records: usize,
}

impl Writer {
    fn blocks(&self) -> u32 {
        (self.bytes.len() / QUOTA_BLOCK) as u32
    }

    fn new_block(&mut self) -> u32 {
        let block = self.blocks();
        self.bytes.resize(self.bytes.len() + QUOTA_BLOCK, 0);
        block
    }

    fn put(&mut self, block: u32, offset: usize, value: &[u8]) {
        let start = block as usize * QUOTA_BLOCK + offset;
        if let Some(dst) = self.bytes.get_mut(start..start + value.len()) {
            dst.copy_from_slice(value);
        }
    }

    fn add(&mut self, id: u32, entry: &QuotaEntry) {
        let key = id.to_be_bytes();
        let same = self.last.map_or(0, |last| last.iter().zip(&key).take_while(|(a, b)| a == b).count());
        self.last = Some(key);
        let mut parent = QUOTA_ROOT;
        for (level, byte) in key.into_iter().enumerate() {
            let next = level + 1;
            let child = match self.path.get(next) {
                Some(&old) if next <= same => old,
                Some(_) => self.new_block(),
                None => self.leaf_with_room(),
            };
            self.put(parent, usize::from(byte) * 4, &child.to_le_bytes());
            if let Some(slot) = self.path.get_mut(next) {
                *slot = child;
            }
            parent = child;
        }
        self.put(
            self.leaf,
            LEAF_HEADER + self.records * size_of::<RawQuotaRecord>(),
            entry.raw(id).as_bytes(),
        );
        self.records += 1;
        let header = RawQuotaLeafHeader { entries: U16::new(self.records as u16), ..FromZeros::new_zeroed() };
        self.put(self.leaf, 0, header.as_bytes());
    }

    fn leaf_with_room(&mut self) -> u32 {
        if self.records == QUOTA_RECORDS {
            (self.leaf, self.records) = (self.new_block(), 0);
        }
        self.leaf
    }

    fn finish(mut self, table: &QuotaTable, kind: usize) -> Vec<u8> {
        let [bgrace, igrace] = table.grace.map(U32::new);
        let header = RawQuotaHeader {
            magic: U32::new(QUOTA_MAGICS.get(kind).copied().unwrap_or_default()),
            version: U32::new(QUOTA_VERSION),
            bgrace,
            igrace,
            flags: U32::new(table.flags),
            blocks: U32::new(self.blocks()),
            free_blk: U32::new(0),
            free_entry: U32::new(if self.records == QUOTA_RECORDS { 0 } else { self.leaf }),
        };
        self.put(0, 0, header.as_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(ids: impl IntoIterator<Item = u32>) -> QuotaTable {
        let entry = |id: u32| QuotaEntry {
            inodes: u64::from(id) + 1,
            bytes: 4096,
            inode_limits: [9, 8],
            space_limits: [7, 6],
            times: [5, 4],
        };
        let entries = ids.into_iter().map(|id| (id, entry(id))).collect();
        QuotaTable { grace: [1, 2], flags: 3, entries }
    }

    #[test]
    fn what_is_written_is_read() {
        for ids in [
            vec![],
            vec![0],
            vec![u32::MAX],
            (0..14).collect(),
            (0..15).collect(),
            vec![0, 1, 255, 256, 65_535, 65_536, 0x0102_0304, 0x0102_0404, 0x0202_0404, u32::MAX],
            (0..5_000).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect(),
        ] {
            let table = table(ids);
            let bytes = table.to_bytes(1);
            assert_eq!(QuotaTable::len_of(&bytes), bytes.len() as u64);
            assert_eq!(QuotaTable::parse(&bytes, 1, 5).unwrap(), table);
            QuotaTable::parse(&bytes, 0, 5).unwrap_err();
        }
    }

    #[test]
    fn only_a_leaf_with_room_is_in_the_list() {
        let free_entry = |n: u32| {
            let bytes = table(0..n).to_bytes(0);
            (at::<RawQuotaHeader>(&bytes, 0, 0).free_entry.get(), (bytes.len() / QUOTA_BLOCK) as u32)
        };
        assert_eq!(free_entry(0), (0, 2));
        assert_eq!(free_entry(1), (5, 6));
        assert_eq!(free_entry(14), (0, 6));
        assert_eq!(free_entry(15), (6, 7));
    }

    #[test]
    fn an_id_without_anything_is_left_out() {
        let mut table = table([1, 2]);
        table.entries.insert(1, QuotaEntry { times: [0, 1], ..QuotaEntry::default() });
        let read = QuotaTable::parse(&table.to_bytes(2), 2, 6).unwrap();
        assert_eq!(read.entries.keys().copied().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn damage_is_named() {
        let good = table([0, 1 << 24]).to_bytes(0);
        let with = |at: usize, value: u32| {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            QuotaTable::parse(&bytes, 0, 4).unwrap_err().to_string()
        };
        assert!(with(4, 9).contains("version"));
        assert!(with(QUOTA_BLOCK, 99).contains("past the last"));
        assert!(with(QUOTA_BLOCK, 1).contains("twice"));
        assert!(with(5 * QUOTA_BLOCK + LEAF_HEADER, 77).contains("missing"));
        QuotaTable::parse(&[], 0, 4).unwrap_err();
    }
}
