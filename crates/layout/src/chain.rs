//! The roll-forward chain: the nodes that fsync wrote after a checkpoint, each naming the address of the next
//! one.
use crate::reader::read_volume_block;
use crate::{Pack, Reader, Stamp};
use alloc::collections::BTreeSet;
use segno_format::node::RawNodeFooter;
use segno_format::sit::LogType;
use segno_format::{Block, BlockAddr, Geometry};
use zerocopy::FromBytes;

/// Iterates over a roll-forward chain.
pub struct Chain<'a> {
    geo: &'a Geometry,
    stamp: Stamp,
    at: Option<BlockAddr>,
    seen: BTreeSet<BlockAddr>,
}

/// Why a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainEnd {
    /// The next address is outside the main area, or the source omits its block.
    Missing,
    /// The next block was not written after the checkpoint.
    Stamp,
    /// The block at this address is already part of the chain.
    Circle(BlockAddr),
}

/// A node of a chain, as far as the chain depends on it.
pub struct Link<N> {
    /// The node.
    pub node: N,
    /// `cp_ver` in its footer.
    pub cp_ver: u64,
    /// `next_blkaddr` in its footer.
    pub next: BlockAddr,
}

impl<N> Link<N> {
    /// The link of a node; `block` is its block on the volume.
    #[must_use]
    pub fn of(node: N, block: &[u8]) -> Option<Self> {
        let (_, footer) = RawNodeFooter::ref_from_suffix(block).ok()?;
        let next = BlockAddr(footer.next_blkaddr.get());
        Some(Self { node, cp_ver: footer.cp_ver.get(), next })
    }
}

impl<'a> Chain<'a> {
    /// The chain of nodes with a stamp that begins at an address.
    #[must_use]
    pub fn new(geo: &'a Geometry, stamp: Stamp, start: Option<BlockAddr>) -> Self {
        Self { geo, stamp, at: start, seen: BTreeSet::new() }
    }

    /// The chain after a pack. Volumes without summaries are never written, so they have none.
    #[must_use]
    pub fn after(pack: &Pack, geo: &'a Geometry) -> Self {
        let start = pack.next_of(LogType::WarmNode, geo).filter(|_| geo.has_ssa);
        Self::new(geo, pack.stamp(), start)
    }

    /// The next node and its address. `find` supplies the node at an address.
    pub fn step<N, E>(
        &mut self,
        find: impl FnOnce(BlockAddr) -> Result<Option<Link<N>>, E>,
    ) -> Result<Result<(BlockAddr, N), ChainEnd>, E> {
        let Some(at) = self.at.filter(|at| self.geo.in_main(*at)) else { return Ok(Err(ChainEnd::Missing)) };
        let Some(link) = find(at)? else { return Ok(Err(ChainEnd::Missing)) };
        if !self.stamp.is_of(link.cp_ver) {
            return Ok(Err(ChainEnd::Stamp));
        }
        if !self.seen.insert(at) {
            return Ok(Err(ChainEnd::Circle(at)));
        }
        self.at = Some(link.next);
        Ok(Ok((at, link.node)))
    }

    /// The first 4096 bytes of the next node, and its address.
    pub fn next<R: Reader + ?Sized>(
        &mut self,
        reader: &R,
    ) -> Result<Result<(BlockAddr, Block), ChainEnd>, R::Error> {
        self.step(|at| {
            let block = read_volume_block(reader, self.geo, at)?;
            Ok(block.and_then(|block| Link::of(Block::first_of(block.as_ref()), block.as_ref())))
        })
    }
}
