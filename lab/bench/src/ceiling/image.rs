//! The image: addresses that a counter gives out, flushes that fsyncs share, and the inodes while nothing is mounted.
use super::inode::{Content, Dir, Inode};
use anyhow::{Context, Result, ensure};
use parking_lot::Mutex;
use rustix::io::Errno;
use segno_device::BlockDevice;
use segno_format::{BLOCK_SIZE, Block, Ino};
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The superblocks stay, by which the image is found to be a volume.
const FIRST: u32 = 512;
/// Behind the contents: a copy of the first superblock, the length of the inodes, then the inodes.
const SAVED: u32 = 32 << 10;
/// Blocks for the record of an fsync, used in turn. Before `SAVED`.
const RECORDS: u32 = 256;
/// Blocks ahead of the counter that a mount prepares, as in an image that has been in use.
const AHEAD: u32 = 64 << 10;

pub struct Image {
    device: Arc<dyn BlockDevice>,
    /// The next block that no file had yet.
    next: AtomicU64,
    /// Behind the last block for contents.
    end: u32,
    /// Blocks of files that were removed, for use when the counter has reached the end.
    free: Mutex<Vec<u32>>,
    /// Fsyncs that have begun.
    begun: AtomicU64,
    /// Number of fsyncs that a flush has covered.
    flushed: Mutex<u64>,
    flushes: AtomicU64,
}

/// Everything but contents.
#[derive(Debug, Serialize, Deserialize)]
pub struct Saved {
    next: u64,
    free: Vec<u32>,
    pub next_ino: u32,
    pub inodes: Vec<(u32, Inode)>,
}

impl Saved {
    fn empty() -> Self {
        let root = Inode::new(0o40755, (0, 0), Content::Dir(Dir::below(Ino::ROOT)));
        let inodes = vec![(Ino::ROOT.0, root)];
        Self { next: FIRST.into(), free: Vec::new(), next_ino: Ino::ROOT.0 + 1, inodes }
    }
}

impl Image {
    pub fn open(device: Arc<dyn BlockDevice>) -> Result<(Self, Saved)> {
        let blocks = u32::try_from(device.block_count()).context("the image is too large")?;
        let end = blocks.checked_sub(SAVED + RECORDS).filter(|end| *end > FIRST);
        let end = end.context("the image is too small: it takes 256 MiB")?;
        let mut saved = read_saved(&*device)?.unwrap_or_else(Saved::empty);
        let image = Self {
            next: AtomicU64::new(saved.next),
            end,
            free: Mutex::new(std::mem::take(&mut saved.free)),
            begun: AtomicU64::new(0),
            flushed: Mutex::new(0),
            flushes: AtomicU64::new(0),
            device,
        };
        image.device.prepare(saved.next, u64::from(end).saturating_sub(saved.next).min(AHEAD.into()))?;
        image.device.prepare(end.into(), RECORDS.into())?;
        Ok((image, saved))
    }

    pub fn save(&self, next_ino: u32, inodes: Vec<(u32, Inode)>) -> Result<()> {
        let (next, free) = (self.next.load(Ordering::Relaxed), self.free.lock().clone());
        let bytes = serde_json::to_vec(&Saved { next, free, next_ino, inodes })?;
        let blocks: Vec<Block> = bytes.chunks(BLOCK_SIZE).map(block_of).collect();
        ensure!(blocks.len() + 2 <= SAVED as usize, "there are too many inodes");
        let mut head = [Block::zeroed(), block_of(&(bytes.len() as u64).to_le_bytes())];
        let at = self.device.block_count() - u64::from(SAVED);
        let [superblock, _] = &mut head;
        self.device.read(0, std::slice::from_mut(superblock))?;
        self.device.write(at, &head.iter().chain(&blocks).collect::<Vec<_>>())?;
        Ok(self.device.flush()?)
    }

    pub fn bytes(&self) -> u64 {
        self.blocks() * BLOCK_SIZE as u64
    }

    pub fn blocks(&self) -> u64 {
        u64::from(self.end - FIRST)
    }

    pub fn free_blocks(&self) -> u64 {
        u64::from(self.end).saturating_sub(self.next.load(Ordering::Relaxed)) + self.free.lock().len() as u64
    }

    pub fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Addresses for this number of blocks.
    pub fn allocate(&self, count: usize) -> Result<Vec<u32>, Errno> {
        let (count64, end) = (count as u64, u64::from(self.end));
        let taken = self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
            next.checked_add(count64).filter(|next| *next <= end)
        });
        if let Ok(first) = taken {
            return Ok((first..first + count64).map(|addr| addr as u32).collect());
        }
        let mut free = self.free.lock();
        let keep = free.len().checked_sub(count).ok_or(Errno::NOSPC)?;
        Ok(free.split_off(keep))
    }

    /// Frees blocks that no file refers to; 0 stands for a hole.
    pub fn give_back(&self, blocks: impl IntoIterator<Item = u32>) {
        self.free.lock().extend(blocks.into_iter().filter(|addr| *addr != 0));
    }

    /// Reads blocks at these addresses; 0 is a hole.
    pub fn read(&self, mut addrs: &[u32], mut into: &mut [Block]) -> Result<(), Errno> {
        while let Some(&first) = addrs.first() {
            let count = run(addrs);
            let (these, rest) = std::mem::take(&mut into).split_at_mut_checked(count).ok_or(Errno::IO)?;
            if first == 0 {
                these.fill(Block::zeroed());
            } else {
                self.device.read(first.into(), these).map_err(errno)?;
            }
            (into, addrs) = (rest, addrs.get(count..).unwrap_or_default());
        }
        Ok(())
    }

    /// Writes blocks to these addresses.
    pub fn write(&self, mut addrs: &[u32], mut blocks: &[Block]) -> Result<(), Errno> {
        while let Some(&first) = addrs.first() {
            let (these, rest) = blocks.split_at_checked(run(addrs)).ok_or(Errno::IO)?;
            self.device.write(first.into(), &these.iter().collect::<Vec<_>>()).map_err(errno)?;
            (blocks, addrs) = (rest, addrs.get(these.len()..).unwrap_or_default());
        }
        Ok(())
    }

    /// Makes durable what was written before: a record and a flush. Calls that wait for another's flush share the next one.
    pub fn commit(&self) -> Result<(), Errno> {
        let own = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let mut flushed = self.flushed.lock();
        if *flushed >= own {
            return Ok(());
        }
        let covered = self.begun.load(Ordering::Acquire);
        let place = self.flushes.fetch_add(1, Ordering::Relaxed) % u64::from(RECORDS);
        let record = block_of(&covered.to_le_bytes());
        self.device.write(u64::from(self.end) + place, &[&record]).map_err(errno)?;
        self.device.flush().map_err(errno)?;
        *flushed = covered;
        Ok(())
    }
}

/// How many addresses follow each other, or are holes.
fn run(addrs: &[u32]) -> usize {
    let Some(&first) = addrs.first() else { return 0 };
    let follows = |(at, addr): &(u32, &u32)| if first == 0 { **addr == 0 } else { first + at == **addr };
    (0..).zip(addrs).take_while(follows).count()
}

/// The inodes of an earlier mount of this image.
fn read_saved(device: &dyn BlockDevice) -> Result<Option<Saved>> {
    let at = device.block_count().saturating_sub(SAVED.into());
    let (mut superblock, mut head) = (vec![Block::zeroed()], vec![Block::zeroed(); 2]);
    device.read(0, &mut superblock)?;
    device.read(at, &mut head)?;
    let ([superblock], [copy, length]) = (superblock.as_slice(), head.as_slice()) else { return Ok(None) };
    let length = length.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)) as usize;
    if superblock.0 != copy.0 || length == 0 {
        return Ok(None);
    }
    ensure!(length.div_ceil(BLOCK_SIZE) + 2 <= SAVED as usize, "the inodes in the image are damaged");
    let mut blocks = vec![Block::zeroed(); length.div_ceil(BLOCK_SIZE)];
    device.read(at + 2, &mut blocks)?;
    let bytes: Vec<u8> = blocks.iter().flat_map(|block| block.0).take(length).collect();
    serde_json::from_slice(&bytes).context("the inodes in the image are damaged").map(Some)
}

/// Up to a block of bytes, and zeros.
fn block_of(bytes: &[u8]) -> Block {
    let mut block = Block::zeroed();
    block.0.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    block
}

fn errno(e: io::Error) -> Errno {
    Errno::from_io_error(&e).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::MemDevice;
    use std::thread;

    const BLOCKS: u64 = 40_000;

    fn image() -> (Arc<MemDevice>, Image) {
        let device = Arc::new(MemDevice::new(BLOCKS));
        let (image, saved) = Image::open(device.clone()).unwrap();
        assert_eq!((saved.next_ino, saved.inodes.len()), (Ino::ROOT.0 + 1, 1));
        (device, image)
    }

    #[test]
    fn addresses_follow_each_other_until_the_image_is_full_and_are_then_those_of_removed_files() {
        let (_, image) = image();
        assert_eq!(image.allocate(3), Ok(vec![FIRST, FIRST + 1, FIRST + 2]));
        let rest = image.free_blocks() as usize;
        let all = image.allocate(rest).unwrap();
        assert_eq!((all.first(), all.last()), (Some(&(FIRST + 3)), Some(&(image.end - 1))));
        assert_eq!((image.free_blocks(), image.allocate(1)), (0, Err(Errno::NOSPC)));
        image.give_back([FIRST, 0, FIRST + 2]);
        assert_eq!(image.allocate(2), Ok(vec![FIRST, FIRST + 2]));
        assert_eq!(image.allocate(1), Err(Errno::NOSPC));
    }

    #[test]
    fn runs_are_of_addresses_that_follow_each_other_and_of_holes() {
        for (addrs, length) in [(&[][..], 0), (&[7], 1), (&[7, 8, 10], 2), (&[0, 0, 1], 2), (&[9, 8], 1)] {
            assert_eq!(run(addrs), length, "{addrs:?}");
        }
    }

    #[test]
    fn fsyncs_that_wait_for_another_share_a_flush() {
        let (_, image) = image();
        image.commit().unwrap();
        image.commit().unwrap();
        assert_eq!(image.flushes(), 2);
        let running = image.flushed.lock();
        thread::scope(|s| {
            let waiting: Vec<_> = (0..8).map(|_| s.spawn(|| image.commit())).collect();
            while image.begun.load(Ordering::Acquire) < 10 {
                thread::yield_now();
            }
            drop(running);
            waiting.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
        assert_eq!(image.flushes(), 3);
    }

    #[test]
    fn inodes_are_those_of_the_last_mount_until_the_image_is_formatted() {
        let (device, image) = image();
        let taken = image.allocate(5).unwrap();
        image.give_back(taken.iter().copied().take(2));
        let file = Inode::new(0o100_644, (1, 2), Content::File(taken));
        image.save(99, vec![(50, file)]).unwrap();
        let (again, saved) = Image::open(device.clone()).unwrap();
        assert_eq!((saved.next_ino, saved.inodes.len(), saved.inodes[0].0), (99, 1, 50));
        assert_eq!(again.free_blocks(), image.free_blocks());
        device.write(0, &[&block_of(b"another superblock")]).unwrap();
        assert_eq!(Image::open(device).unwrap().1.inodes[0].0, Ino::ROOT.0);
    }
}
