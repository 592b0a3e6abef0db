//! The kernel's "vfsv1" quota file: a radix tree over the id whose leaves are blocks of records.
use crate::CheckError;
use crate::evidence::{Bitmap, Volume};
use segno_format::{BLOCK_SIZE, BlockAddr, Corrupt, Structure};
use std::collections::HashMap;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// User, group, project: the order of the superblock.
pub(crate) const TYPES: usize = 3;

const MAGICS: [u32; TYPES] = [0xD9C0_1F11, 0xD9C0_1927, 0xD9C0_3F14];
const VERSION: u32 = 1;
/// Bytes of a block of the tree.
const NODE_BYTES: usize = 1024;
/// Block of the tree's root, and levels of references below it.
const ROOT: u32 = 1;
const DEPTH: u32 = 4;
const RECORDS: usize = 14;

/// What one id owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Charge {
    pub inodes: u64,
    pub bytes: u64,
}

/// A quota file as the walk found it.
pub(crate) struct QuotaInode {
    pub ino: u32,
    pub size: u64,
    pub blocks: HashMap<u64, BlockAddr>,
}

/// Block 0.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: U32,
    version: U32,
    grace: [U32; 3],
    blocks: U32,
    free_block: U32,
    free_entry: U32,
    rest: [u8; NODE_BYTES - 32],
}

/// A block of references.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawTree {
    children: [U32; 256],
}

/// Usage and limits of one id; all zeros when free.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRecord {
    id: U32,
    pad: U32,
    inode_limits: [U64; 2],
    inodes: U64,
    space_limits: [U64; 2],
    bytes: U64,
    times: [U64; 2],
}

/// A block of records.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLeaf {
    next_free: U32,
    prev_free: U32,
    entries: U16,
    pad: [U16; 3],
    records: [RawRecord; RECORDS],
}
const _: () = assert!(size_of::<RawHeader>() == NODE_BYTES);
const _: () = assert!(size_of::<RawTree>() == NODE_BYTES);
const _: () = assert!(size_of::<RawLeaf>() == 16 + RECORDS * 72);

impl RawRecord {
    fn is_free(&self) -> bool {
        let limits = self.inode_limits.iter().chain(&self.space_limits).chain(&self.times);
        self.id.get() == 0
            && self.inodes.get() == 0
            && self.bytes.get() == 0
            && limits.into_iter().all(|v| v.get() == 0)
    }
}

pub(crate) struct QuotaFile<'a> {
    volume: &'a Volume<'a>,
    inode: &'a QuotaInode,
    blocks: u32,
    /// Tree blocks entered: each hangs in one place.
    entered: Bitmap,
    charges: HashMap<u32, Charge>,
}

impl<'a> QuotaFile<'a> {
    /// All records of the file of a type (0 user, 1 group, 2 project).
    pub(crate) fn read(
        volume: &'a Volume<'a>,
        inode: &'a QuotaInode,
        kind: usize,
    ) -> Result<Result<HashMap<u32, Charge>, Corrupt>, CheckError> {
        let mut file = Self { volume, inode, blocks: 0, entered: Bitmap::new(0), charges: HashMap::new() };
        let header: RawHeader = file.node(0)?;
        if let Err(e) = file.open(&header, kind) {
            return Ok(Err(e));
        }
        Ok(file.tree(ROOT, 0, 0)?.map(|()| file.charges))
    }

    fn bad(&self, why: &'static str, found: u32, expected: u32) -> Corrupt {
        Corrupt::nid(Structure::Quota, self.inode.ino, why, found.into(), expected.into())
    }

    fn open(&mut self, header: &RawHeader, kind: usize) -> Result<(), Corrupt> {
        let magic = MAGICS.get(kind).copied().unwrap_or_default();
        if header.magic.get() != magic {
            return Err(self.bad("magic number", header.magic.get(), magic));
        }
        if header.version.get() != VERSION {
            return Err(self.bad("version", header.version.get(), VERSION));
        }
        let fits = u32::try_from(self.inode.size / NODE_BYTES as u64).unwrap_or(u32::MAX);
        self.blocks = header.blocks.get();
        if self.blocks > fits {
            return Err(self.bad("blocks in the header against i_size", self.blocks, fits));
        }
        self.entered = Bitmap::new(self.blocks.into());
        self.link("free block in the header", header.free_block)?;
        self.link("block with free records in the header", header.free_entry)
    }

    /// A link of the lists of free blocks and of blocks with free records, without which Linux does not use the file.
    fn link(&self, why: &'static str, to: U32) -> Result<(), Corrupt> {
        let ends = to.get() == 0;
        if ends || (ROOT + 1..self.blocks).contains(&to.get()) {
            return Ok(());
        }
        Err(self.bad(why, to.get(), self.blocks))
    }

    /// A block of the tree; what has no place reads as zeros.
    fn node<T: FromBytes>(&self, n: u32) -> Result<T, CheckError> {
        let per_block = (BLOCK_SIZE / NODE_BYTES) as u32;
        let addr = self.inode.blocks.get(&u64::from(n / per_block)).copied().unwrap_or(BlockAddr::NULL);
        let block =
            if addr.is_real() { self.volume.reader.block(addr)? } else { segno_format::Block::zeroed() };
        let at = (n % per_block) as usize * NODE_BYTES;
        let found = block.0.get(at..).and_then(|b| T::read_from_prefix(b).ok());
        Ok(found.map_or_else(zerocopy::FromZeros::new_zeroed, |(v, _)| v))
    }

    /// Enters a tree block at a level. `id` has the bytes above it; the recursion ends at level 4.
    fn tree(&mut self, n: u32, level: u32, id: u32) -> Result<Result<(), Corrupt>, CheckError> {
        if n >= self.blocks {
            return Ok(Err(self.bad("reference past the last block", n, self.blocks)));
        }
        if level == DEPTH {
            return self.leaf(n, id);
        }
        if !self.entered.insert(n.into()) {
            return Ok(Err(self.bad("tree block referred to twice", n, 0)));
        }
        let node: RawTree = self.node(n)?;
        for (byte, child) in (0u32..).zip(&node.children) {
            if child.get() != 0
                && let Err(e) = self.tree(child.get(), level + 1, id << 8 | byte)?
            {
                return Ok(Err(e));
            }
        }
        Ok(Ok(()))
    }

    fn leaf(&mut self, n: u32, id: u32) -> Result<Result<(), Corrupt>, CheckError> {
        let leaf: RawLeaf = self.node(n)?;
        for to in [leaf.next_free, leaf.prev_free] {
            if let Err(e) = self.link("neighbour of a block with free records", to) {
                return Ok(Err(e));
            }
        }
        let used = leaf.records.iter().filter(|r| !r.is_free()).count() as u32;
        if used != leaf.entries.get().into() {
            return Ok(Err(self.bad(
                "records in a block against its header",
                used,
                leaf.entries.get().into(),
            )));
        }
        let Some(record) = leaf.records.iter().find(|r| r.id.get() == id && !r.is_free()) else {
            return Ok(Err(self.bad("record is missing from its block", n, id)));
        };
        self.charges.insert(id, Charge { inodes: record.inodes.get(), bytes: record.bytes.get() });
        Ok(Ok(()))
    }
}
