//! The devices as one range of blocks, and the clearing of old contents.
use crate::{Layout, MkfsError};
use segno_device::{BlockDevice, JOURNAL_MAGIC, MultiDevice, ZoneKind, unfinished_format};
use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Block, BlockAddr, F2FS_MAGIC};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Blocks at the start of a device where other file systems, volume managers and partition tables have their marks.
const SIGNATURE_BLOCKS: u64 = 512;
/// Blocks that are marked while a device is formatted: the superblocks.
const MARKED: u64 = SUPERBLOCK_COPIES.len() as u64;
/// Blocks that a journal begins with.
const JOURNAL_SUPERBLOCKS: usize = 2;
/// Blocks looked at in one read.
const BATCH: u64 = 1024;

static ZERO: Block = Block([0; BLOCK_SIZE]);

/// One device of the new volume.
pub struct Member {
    /// Where to write.
    pub device: Arc<dyn BlockDevice>,
    /// Its name: recorded in the superblock when there are several devices, and used in messages.
    pub path: String,
    /// Whether the whole device reads as zeros, as a fresh image file does. Nothing is looked for or cleared then.
    pub zeroed: bool,
}

/// The volume to be.
pub(crate) struct Target<'a> {
    members: &'a [Member],
    sizes: &'a [u64],
    volume: MultiDevice,
    /// First block of each member in the volume.
    starts: Vec<u64>,
    /// Zones that must be written in order, ascending: emptied as wholes, and read as anything then.
    sequential: Vec<Range<u64>>,
}

impl<'a> Target<'a> {
    pub(crate) fn new(members: &'a [Member], sizes: &'a [u64], layout: &Layout) -> Result<Self, MkfsError> {
        if let Some(m) = members.iter().find(|m| m.device.read_only()) {
            return Err(MkfsError::ReadOnly { path: m.path.clone() });
        }
        // Segments are counted from segment 0, which comes after the superblocks.
        let mut lead = u64::from(layout.geo.segment0_blkaddr);
        let (mut start, mut starts, mut shares) = (0, Vec::new(), Vec::new());
        for (member, &segments) in members.iter().zip(&layout.device_segments) {
            let share = u64::from(segments) * u64::from(BLOCKS_PER_SEG) + std::mem::take(&mut lead);
            starts.push(start);
            start += share;
            shares.push((Arc::clone(&member.device), share));
        }
        let volume = MultiDevice::new(shares).map_err(|e| io_error(members, "joining the devices", e))?;
        let zones = volume.zones().map_err(|e| io_error(members, "asking for zones", e))?;
        let sequential = zones.iter().filter(|z| z.kind == ZoneKind::Sequential);
        let sequential = sequential.map(|z| z.start..z.start + z.blocks).collect();
        Ok(Self { members, sizes, volume, starts, sequential })
    }

    /// Replaces the superblocks, or whatever is in their place, by the mark of a format that is under way. An
    /// old volume keeps its second copy until the mark is durable in the place of the first, and its other
    /// devices until both are gone.
    pub(crate) fn mark_unfinished(&self) -> Result<(), MkfsError> {
        if self.zeroed() {
            return Ok(());
        }
        let (doing, mark) = ("marking the device as being formatted", unfinished_format());
        let (mut volumes, mut others) = (Vec::new(), Vec::new());
        for &start in self.starts.iter().filter(|start| !self.is_sequential(**start)) {
            if self.has_superblock(start)? { volumes.push(start) } else { others.push(start) }
        }
        for starts in [volumes, others].iter().filter(|starts| !starts.is_empty()) {
            for copy in 0..MARKED {
                for start in starts {
                    self.on(doing, self.volume.write(start + copy, &[&mark]))?;
                }
                self.on(doing, self.volume.flush())?;
            }
        }
        Ok(())
    }

    fn has_superblock(&self, start: u64) -> Result<bool, MkfsError> {
        let mut copies = vec![ZERO.clone(); MARKED as usize];
        self.on("reading old contents", self.volume.read(start, &mut copies))?;
        Ok(copies.iter().any(|block| RawSuperblock::from_block(&block.0).magic.get() == F2FS_MAGIC))
    }

    /// Blocks at the start of the device that begins there which keep the mark.
    fn marked(&self, start: u64) -> u64 {
        if self.zeroed() || self.is_sequential(start) { 0 } else { MARKED }
    }

    pub(crate) fn discard(&self, wanted: impl Fn(&Member) -> bool) -> Result<(), MkfsError> {
        for ((member, &blocks), &start) in self.members.iter().zip(self.sizes).zip(&self.starts) {
            if member.zeroed || !wanted(member) {
                continue;
            }
            let marked = self.marked(start);
            member.device.discard(marked, blocks.saturating_sub(marked)).map_err(|source| MkfsError::Io {
                path: member.path.clone(),
                doing: "discarding (switch it off with -t 0)",
                source,
            })?;
        }
        Ok(())
    }

    /// Removes a journal of an old volume that would begin where one of this volume does: after the end.
    pub(crate) fn clear_journal(&self) -> Result<(), MkfsError> {
        let [only] = self.members else { return Ok(()) };
        let at = self.volume.block_count().next_multiple_of(BLOCKS_PER_SEG.into());
        let mut found = vec![ZERO.clone(); JOURNAL_SUPERBLOCKS];
        if only.zeroed || only.device.block_count() < at + JOURNAL_SUPERBLOCKS as u64 {
            return Ok(());
        }
        let doing = "removing an old journal";
        self.on(doing, only.device.read(at, &mut found))?;
        if found.iter().any(|block| block.0.starts_with(JOURNAL_MAGIC)) {
            self.on(doing, only.device.write(at, &[&ZERO; JOURNAL_SUPERBLOCKS]))?;
        }
        Ok(())
    }

    /// Removes the signatures of other file systems. Of several devices only the first, which gets the
    /// superblocks, keeps the mark.
    pub(crate) fn clear_signatures(&self) -> Result<(), MkfsError> {
        let ends = self.starts.iter().skip(1).copied().chain([self.volume.block_count()]);
        for (i, (&start, end)) in self.starts.iter().zip(ends).enumerate() {
            let marked = if i == 0 { self.marked(start) } else { 0 };
            self.clear(start + marked..end.min(start + SIGNATURE_BLOCKS))?;
        }
        Ok(())
    }

    /// Makes blocks read as zeros. They are read first, and zeros are written only over other contents: after
    /// a discard most devices return zeros, but few guarantee it.
    pub(crate) fn clear(&self, range: Range<u64>) -> Result<(), MkfsError> {
        if self.zeroed() {
            return Ok(());
        }
        let mut buffer = vec![ZERO.clone(); BATCH.min(range.end.saturating_sub(range.start)) as usize];
        let mut at = range.start;
        while at < range.end {
            let count = BATCH.min(range.end - at);
            let into = buffer.get_mut(..count as usize).unwrap_or_default();
            self.on("reading old contents", self.volume.read(at, into))?;
            let emptied = (at..).zip(into.iter_mut()).filter(|(at, _)| self.is_sequential(*at));
            emptied.for_each(|(_, block)| block.clone_from(&ZERO));
            self.clear_dirty(at, into)?;
            at += count;
        }
        Ok(())
    }

    /// Writes zeros over the runs of blocks that are not zero.
    fn clear_dirty(&self, at: u64, found: &[Block]) -> Result<(), MkfsError> {
        let mut at = at;
        for run in found.chunk_by(|a, b| a.is_zero() == b.is_zero()) {
            if !run.first().is_none_or(Block::is_zero) {
                self.on("clearing", self.volume.write(at, &vec![&ZERO; run.len()]))?;
            }
            at += run.len() as u64;
        }
        Ok(())
    }

    pub(crate) fn write<'b>(
        &self,
        at: BlockAddr,
        doing: &'static str,
        blocks: impl IntoIterator<Item = &'b Block>,
    ) -> Result<(), MkfsError> {
        let blocks: Vec<&Block> = blocks.into_iter().collect();
        self.on(doing, self.volume.write(at.0.into(), &blocks))
    }

    pub(crate) fn flush(&self, doing: &'static str) -> Result<(), MkfsError> {
        self.on(doing, self.volume.flush())
    }

    fn is_sequential(&self, at: u64) -> bool {
        let next = self.sequential.partition_point(|z| z.end <= at);
        self.sequential.get(next).is_some_and(|z| z.contains(&at))
    }

    fn zeroed(&self) -> bool {
        self.members.iter().all(|m| m.zeroed)
    }

    fn on<T>(&self, doing: &'static str, result: io::Result<T>) -> Result<T, MkfsError> {
        result.map_err(|e| io_error(self.members, doing, e))
    }
}

fn io_error(members: &[Member], doing: &'static str, source: io::Error) -> MkfsError {
    let paths: Vec<&str> = members.iter().map(|m| m.path.as_str()).collect();
    MkfsError::Io { path: paths.join(", "), doing, source }
}
