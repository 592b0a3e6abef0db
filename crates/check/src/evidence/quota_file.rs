//! The kernel's "vfsv1" quota file: a radix tree over the id whose leaves are blocks of records.
use crate::CheckError;
use crate::evidence::Bitmap;
use segno_format::quota::{
    QUOTA_BLOCK, QUOTA_DEPTH, QUOTA_MAGICS, QUOTA_ROOT, QUOTA_VERSION, RawQuotaHeader, RawQuotaLeaf,
};
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Corrupt, Structure};
use std::collections::HashMap;
use zerocopy::FromBytes;
use zerocopy::little_endian::U32;

/// Usage of one id.
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

/// A quota file: number, size, and its blocks. A hole reads as zeros.
pub(crate) struct QuotaFile<'a> {
    pub ino: u32,
    pub size: u64,
    pub block: &'a dyn Fn(u64) -> Result<Block, CheckError>,
}

struct Reading<'a> {
    file: &'a QuotaFile<'a>,
    blocks: u32,
    /// Tree blocks entered: each hangs in one place.
    entered: Bitmap,
    charges: HashMap<u32, Charge>,
}

impl QuotaFile<'_> {
    /// All records of the file of a kind (0 user, 1 group, 2 project).
    pub(crate) fn read(&self, kind: usize) -> Result<Result<HashMap<u32, Charge>, Corrupt>, CheckError> {
        let mut reading = Reading { file: self, blocks: 0, entered: Bitmap::new(0), charges: HashMap::new() };
        let header: RawQuotaHeader = self.node(0)?;
        if let Err(e) = reading.open(&header, kind) {
            return Ok(Err(e));
        }
        Ok(reading.tree(QUOTA_ROOT, 0, 0)?.map(|()| reading.charges))
    }

    /// A block of the tree.
    fn node<T: FromBytes>(&self, n: u32) -> Result<T, CheckError> {
        let per_block = (BLOCK_SIZE / QUOTA_BLOCK) as u32;
        let block = (self.block)((n / per_block).into())?;
        let at = (n % per_block) as usize * QUOTA_BLOCK;
        let found = block.0.get(at..).and_then(|b| T::read_from_prefix(b).ok());
        Ok(found.map_or_else(zerocopy::FromZeros::new_zeroed, |(v, _)| v))
    }
}

impl Reading<'_> {
    fn bad(&self, why: &'static str, found: u32, expected: u32) -> Corrupt {
        Corrupt::nid(Structure::Quota, self.file.ino, why, found.into(), expected.into())
    }

    fn open(&mut self, header: &RawQuotaHeader, kind: usize) -> Result<(), Corrupt> {
        let magic = QUOTA_MAGICS.get(kind).copied().unwrap_or_default();
        if header.magic.get() != magic {
            return Err(self.bad("magic number", header.magic.get(), magic));
        }
        if header.version.get() != QUOTA_VERSION {
            return Err(self.bad("version", header.version.get(), QUOTA_VERSION));
        }
        let fits = u32::try_from(self.file.size / QUOTA_BLOCK as u64).unwrap_or(u32::MAX);
        self.blocks = header.blocks.get();
        if self.blocks > fits {
            return Err(self.bad("blocks in the header against i_size", self.blocks, fits));
        }
        self.entered = Bitmap::new(self.blocks.into());
        self.link("free block in the header", header.free_blk)?;
        self.link("block with free records in the header", header.free_entry)
    }

    /// A link of the lists of free blocks and of blocks with free records, without which Linux does not use the file.
    fn link(&self, why: &'static str, to: U32) -> Result<(), Corrupt> {
        let ends = to.get() == 0;
        if ends || (QUOTA_ROOT + 1..self.blocks).contains(&to.get()) {
            return Ok(());
        }
        Err(self.bad(why, to.get(), self.blocks))
    }

    /// Enters a tree block at a level. `id` has the bytes above it; the recursion ends at level 4.
    fn tree(&mut self, n: u32, level: usize, id: u32) -> Result<Result<(), Corrupt>, CheckError> {
        if n >= self.blocks {
            return Ok(Err(self.bad("reference past the last block", n, self.blocks)));
        }
        if level == QUOTA_DEPTH {
            return self.leaf(n, id);
        }
        if !self.entered.insert(n.into()) {
            return Ok(Err(self.bad("tree block referred to twice", n, 0)));
        }
        let children: [U32; 256] = self.file.node(n)?;
        for (byte, child) in (0u32..).zip(children) {
            if child.get() != 0
                && let Err(e) = self.tree(child.get(), level + 1, id << 8 | byte)?
            {
                return Ok(Err(e));
            }
        }
        Ok(Ok(()))
    }

    fn leaf(&mut self, n: u32, id: u32) -> Result<Result<(), Corrupt>, CheckError> {
        let RawQuotaLeaf { header, records } = self.file.node(n)?;
        for to in [header.next_free, header.prev_free] {
            if let Err(e) = self.link("neighbour of a block with free records", to) {
                return Ok(Err(e));
            }
        }
        let used = records.iter().filter(|r| !r.is_free()).count() as u32;
        let entries = u32::from(header.entries.get());
        if used != entries {
            return Ok(Err(self.bad("records in a block against its header", used, entries)));
        }
        let Some(record) = records.iter().find(|r| r.id.get() == id && !r.is_free()) else {
            return Ok(Err(self.bad("record is missing from its block", n, id)));
        };
        self.charges.insert(id, Charge { inodes: record.inodes.get(), bytes: record.bytes.get() });
        Ok(Ok(()))
    }
}
