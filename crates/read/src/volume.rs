//! The volume: its checkpoint, and where nodes are.
use crate::source::Blocks;
use crate::{Error, Inode, ReadAt};
use segno_format::checkpoint::CpFlags;
use segno_format::nat::{RawNatEntry, nat_block_entries};
use segno_format::node::RawNode;
use segno_format::superblock::Superblock;
use segno_format::{Block, BlockAddr, Corrupt, Ino, Nid, Structure};
use segno_layout::{Pack, Reader, Summaries, superblock_in_force};

/// A volume that was unmounted cleanly.
pub struct Volume<R> {
    source: Blocks<R>,
    pub(crate) superblock: Superblock,
    pack: Pack,
    summaries: Summaries,
}

impl<R: ReadAt> Volume<R> {
    /// Reads the superblock and the checkpoint in force.
    pub fn open(source: R) -> Result<Self, Error<R::Error>> {
        let source = Blocks(source);
        let superblock = superblock_in_force(&source).map_err(Error::Source)??;
        superblock.check_support()?;
        if !superblock.devices.is_empty() {
            return Err(Error::SeveralDevices);
        }
        let pack = Pack::in_force(&source, &superblock.geo).map_err(Error::Source)??;
        if !pack.flags().contains(CpFlags::UMOUNT) {
            return Err(Error::NotClean);
        }
        let summaries = Summaries::load(&pack);
        summaries.check(&pack)?;
        Ok(Self { source, superblock, pack, summaries })
    }

    /// The root directory.
    pub fn root(&self) -> Result<Inode, Error<R::Error>> {
        self.inode(Ino::ROOT)
    }

    /// The inode that a path leads to, from the root. Names are separated by `/`; `.` and `..` are names that no entry has, and symbolic links
    /// are not followed.
    pub fn lookup(&self, path: &[u8]) -> Result<Inode, Error<R::Error>> {
        let mut at = self.root()?;
        for name in path.split(|&b| b == b'/').filter(|name| !name.is_empty()) {
            at = self.inode(self.find(&at, name)?.ok_or(Error::NotFound)?)?;
        }
        Ok(at)
    }

    /// An inode by its number, as directory entries have it.
    pub fn inode(&self, ino: Ino) -> Result<Inode, Error<R::Error>> {
        let block = self.node(ino.nid(), ino, 0)?;
        Ok(Inode::new(block, ino, &self.superblock)?)
    }

    /// A node of an inode, with the offset that it has in its tree.
    pub(crate) fn node(&self, nid: Nid, ino: Ino, offset: u32) -> Result<Block, Error<R::Error>> {
        let entry = self.nat(nid)?;
        let block = self.main_block(entry.addr(), Structure::NatBlock, nid)?;
        let footer = &block.view::<RawNode>().footer;
        footer.check(nid, ino)?;
        if footer.node_offset() != offset {
            let (found, expected) = (footer.node_offset().into(), offset.into());
            let why = "node offset in the footer";
            return Err(Corrupt::nid(Structure::NodeFooter, nid.0, why, found, expected).into());
        }
        Ok(block)
    }

    fn nat(&self, nid: Nid) -> Result<RawNatEntry, Error<R::Error>> {
        let geo = &self.superblock.geo;
        if !geo.nid_ok(nid) {
            let (why, most) = ("number of a node", geo.max_nid().into());
            return Err(Corrupt::nid(Structure::Volume, nid.0, why, nid.0.into(), most).into());
        }
        if let Some(newer) = self.summaries.nat_journal().iter().find(|e| e.nid.get() == nid.0) {
            return Ok(newer.entry);
        }
        let (b, i) = (nid.0 / geo.nat_per_block(), nid.0 % geo.nat_per_block());
        let block = self.block(geo.nat_addr(b, self.pack.nat_copy(b)))?;
        Ok(nat_block_entries(&block.0).get(i as usize).copied().unwrap_or_default())
    }

    /// A block of the main area that a structure of a node names.
    pub(crate) fn main_block(
        &self,
        at: BlockAddr,
        of: Structure,
        nid: Nid,
    ) -> Result<Block, Error<R::Error>> {
        let geo = &self.superblock.geo;
        if !geo.in_main(at) {
            let why = "block address outside the main area";
            return Err(Corrupt::nid(of, nid.0, why, at.0.into(), geo.main_end().into()).into());
        }
        self.block(at)
    }

    fn block(&self, at: BlockAddr) -> Result<Block, Error<R::Error>> {
        Ok(self.source.read_block(at).map_err(Error::Source)?.unwrap_or_else(Block::zeroed))
    }
}
