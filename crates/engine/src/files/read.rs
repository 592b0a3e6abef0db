//! Reading file data.
use super::access::check_readable;
use super::block::unused_block;
use super::{Files, Inode, SIZE};
use crate::block::SharedBlock;
use crate::error::{Error, Result};
use segno_format::inode::RawInode;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Corrupt, Ino, Structure};
use std::ops::Range;
use std::sync::Arc;
use zerocopy::FromBytes;

/// Blocks mapped and read at a time.
const CHUNK: u64 = 1024;
/// Size in bytes up to which reading a file triggers read-ahead of its surroundings.
const SMALL: u64 = 64 << 10;

/// Source of a block's bytes.
#[derive(Debug)]
enum Source {
    Zeros,
    Page(SharedBlock),
    Device(BlockAddr),
}

/// A part of a file to read, with its buffer.
pub(super) struct Window<'a> {
    /// Byte offset in the file.
    pub start: u64,
    pub bytes: &'a mut [u8],
}

impl Window<'_> {
    /// File blocks that the window overlaps.
    pub fn blocks(&self) -> Range<u64> {
        let end = self.start.saturating_add(self.bytes.len() as u64);
        self.start / SIZE..end.div_ceil(SIZE)
    }
    /// The part of the window covered by file blocks, and the offset in those blocks where it starts.
    pub fn slice(&mut self, blocks: Range<u64>) -> (&mut [u8], usize) {
        let (from, to) = (blocks.start.saturating_mul(SIZE), blocks.end.saturating_mul(SIZE));
        let len = self.bytes.len();
        let within = |pos: u64| (pos.saturating_sub(self.start) as usize).min(len);
        let skipped = self.start.saturating_sub(from) as usize;
        (self.bytes.get_mut(within(from)..within(to)).unwrap_or_default(), skipped)
    }
}

impl Files {
    /// Reads from a regular file; short only at its end. Bytes of `into` past the count returned may change.
    pub fn read(&self, ino: Ino, offset: u64, into: &mut [u8]) -> Result<usize> {
        let inode = self.inode(ino)?;
        let _shared = inode.lock.read();
        if inode.is_gone() {
            return Err(Error::NotFound);
        }
        check_readable(&inode)?;
        let left = inode.size().saturating_sub(offset);
        let len = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if len == 0 {
            return Ok(0);
        }
        if self.read_inline(&inode, offset, into.get_mut(..len).unwrap_or_default())? {
            return Ok(len);
        }
        // Whole blocks need no copy, so the last one is read whole if the buffer has room for it.
        let end = offset.saturating_add(len as u64);
        let whole = len + (end.next_multiple_of(SIZE) - end) as usize;
        let used = if whole <= into.len() { whole } else { len };
        let window = Window { start: offset, bytes: into.get_mut(..used).unwrap_or_default() };
        self.base.health.record_damage(self.read_extent(&inode, window))?;
        into.get_mut(len..used).unwrap_or_default().fill(0);
        Ok(len)
    }

    /// Reads bytes below the size. The caller holds the inode's lock.
    pub(super) fn read_locked(&self, inode: &Arc<Inode>, offset: u64, into: &mut [u8]) -> Result<()> {
        if self.read_inline(inode, offset, into)? {
            return Ok(());
        }
        self.base.health.record_damage(self.read_extent(inode, Window { start: offset, bytes: into }))
    }

    fn read_extent(&self, inode: &Arc<Inode>, mut window: Window<'_>) -> Result<()> {
        if inode.get(RawInode::is_compressed) {
            return self.read_clusters(inode, window);
        }
        let all = window.blocks();
        for start in all.clone().step_by(CHUNK as usize) {
            let blocks = start..start.saturating_add(CHUNK).min(all.end);
            self.read_blocks(inode, blocks, &mut window)?;
        }
        Ok(())
    }

    /// Reads the part of the window covered by some file blocks. The caller holds the inode's lock.
    fn read_blocks(&self, inode: &Arc<Inode>, blocks: Range<u64>, window: &mut Window<'_>) -> Result<()> {
        loop {
            // Pages before slots: a page that a flush drops after this line is either in `pages` or has an address.
            let pages = inode.pages.lock().cached_in(blocks.clone());
            let addrs = self.nodes.map_blocks(&inode.frame, blocks.clone())?;
            if self.read_mapped(inode, blocks.clone(), pages, &addrs, window)? {
                return Ok(());
            }
        }
    }

    /// Reads blocks from their pages and slots; false if they moved meanwhile.
    pub(super) fn read_mapped(
        &self,
        inode: &Arc<Inode>,
        blocks: Range<u64>,
        pages: Vec<(u64, SharedBlock)>,
        addrs: &[BlockAddr],
        window: &mut Window<'_>,
    ) -> Result<bool> {
        let sources = sources_of(inode, pages, addrs, blocks.start)?;
        if inode.size() <= SMALL {
            self.prefetch_cluster(&sources);
        }
        let done = self.read_sources(&sources, blocks.start, window);
        // A block that moved meanwhile may have been read after its old address was reused.
        if self.nodes.map_blocks(&inode.frame, blocks.clone())? != addrs {
            return Ok(false);
        }
        done?;
        self.check_all_in_use(addrs, inode, &blocks).map(|()| true)
    }

    /// Checks that blocks named by the index are valid.
    fn check_all_in_use(&self, addrs: &[BlockAddr], inode: &Inode, blocks: &Range<u64>) -> Result<()> {
        if self.space.first_unused(addrs).is_none() {
            return Ok(());
        }
        // Pages stay locked from a new address in the index to its bit in the SIT.
        drop(inode.pages.lock());
        match self.space.first_unused(addrs) {
            None => Ok(()),
            // Moved and freed between the two checks.
            Some(_) if self.nodes.map_blocks(&inode.frame, blocks.clone())? != addrs => Ok(()),
            Some(addr) => Err(unused_block(addr).into()),
        }
    }

    fn prefetch_cluster(&self, sources: &[Source]) {
        if let Some(Source::Device(addr)) = sources.first()
            && let Some((first, count)) = self.clusters.wanted(*addr)
        {
            self.base.dev.prefetch(first, count);
        }
    }

    fn read_sources(&self, sources: &[Source], first: u64, window: &mut Window<'_>) -> Result<()> {
        let mut at = first;
        for run in sources.chunk_by(same_run) {
            let blocks = at..at.saturating_add(run.len() as u64);
            at = blocks.end;
            let (into, skip) = window.slice(blocks);
            match run.first() {
                Some(Source::Device(addr)) => self.read_run(*addr, run.len(), into, skip)?,
                Some(Source::Page(block)) => {
                    into.copy_from_slice(block.0.get(skip..skip + into.len()).unwrap_or_default());
                }
                Some(Source::Zeros) | None => into.fill(0),
            }
        }
        Ok(())
    }

    /// Reads consecutive device blocks, completely or in part.
    fn read_run(&self, addr: BlockAddr, count: usize, into: &mut [u8], skip: usize) -> Result<()> {
        if into.len() == count * BLOCK_SIZE
            && let Ok(blocks) = <[Block]>::mut_from_bytes(into)
        {
            return self.base.dev.read_into(addr, blocks);
        }
        let mut scratch = vec![Block::zeroed(); count];
        self.base.dev.read_into(addr, &mut scratch)?;
        let mut rest = into;
        let mut skip = skip;
        for block in &scratch {
            let from = block.0.get(skip..).unwrap_or_default();
            let n = from.len().min(rest.len());
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(from.get(..n).unwrap_or_default());
            (rest, skip) = (later, 0);
        }
        Ok(())
    }

    /// The target of a symbolic link.
    pub fn read_all_link(&self, inode: &Arc<Inode>) -> Result<Vec<u8>> {
        let size = inode.size();
        if size == 0 || size >= SIZE {
            let why = "length of the target";
            return Err(Corrupt::nid(Structure::Symlink, inode.ino.0, why, size, SIZE - 1).into());
        }
        let mut target = vec![0; size as usize];
        if !self.read_inline(inode, 0, &mut target)?
            && let Some(block) = self.read_block(inode, 0)?
        {
            target.copy_from_slice(block.0.get(..size as usize).unwrap_or_default());
        }
        Ok(target)
    }
}

/// Whether one read, or one fill, covers both blocks.
fn same_run(a: &Source, b: &Source) -> bool {
    match (a, b) {
        (Source::Zeros, Source::Zeros) => true,
        (Source::Device(a), Source::Device(b)) => b.0 == a.0.saturating_add(1),
        _ => false,
    }
}

fn sources_of(
    inode: &Inode,
    pages: Vec<(u64, SharedBlock)>,
    addrs: &[BlockAddr],
    first: u64,
) -> Result<Vec<Source>> {
    let mut sources = Vec::with_capacity(addrs.len());
    let mut pages = pages.into_iter().peekable();
    for (index, &addr) in (first..).zip(addrs) {
        sources.push(match pages.next_if(|&(i, _)| i == index) {
            Some((_, block)) => Source::Page(block),
            None if addr == BlockAddr::NULL || addr == BlockAddr::NEW => Source::Zeros,
            None if addr.is_real() => Source::Device(addr),
            None => {
                let why =
                    "COMPRESS_ADDR outside the first slot of a cluster, or in a file that is not compressed";
                return Err(Corrupt::nid(Structure::Inode, inode.ino.0, why, index, 0).into());
            }
        });
    }
    Ok(sources)
}
