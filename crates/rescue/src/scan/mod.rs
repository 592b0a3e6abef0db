//! One pass over the source: node blocks by their footers, superblocks and checkpoint blocks by their checksums.
mod candidate;
mod mapfile;
mod nested;
mod read;
mod saved;

pub use candidate::Candidate;
pub(crate) use candidate::OF_MKFS;
pub use mapfile::BadBlocks;

use crate::RescueError;
use segno_device::BlockDevice;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;

/// Blocks before the main area of the smallest volume.
const FRONT: i64 = 3584;
/// A base with a fiftieth of the votes of another may be chance.
const FEW: u32 = 50;

/// Addresses that a block can have; the next one is `NEW_ADDR`.
const ADDRESSES: u64 = u32::MAX as u64;

/// How to scan.
#[derive(Clone, Copy)]
pub struct ScanOptions<'a> {
    /// Threads that read and parse.
    pub threads: usize,
    /// Blocks not to be tried, known as unreadable from an earlier run.
    pub known_bad: &'a BadBlocks,
    /// Block of the source that block 0 of the volume is at, if that is known.
    pub base: Option<i64>,
    /// Ends the scan when set.
    pub stop: &'a AtomicBool,
}

/// The result of a scan.
#[derive(Debug, Default)]
pub struct Found {
    /// Node blocks of the volume; [`Candidate::addr`] counts from `base`.
    pub nodes: Vec<Candidate>,
    /// Block of the source that block 0 of the volume is at.
    pub base: i64,
    /// Blocks of the source that hold a valid superblock.
    pub superblocks: Vec<u32>,
    /// Sectors of the source that begin as a superblock does, at any multiple of 512 bytes. A scan that was
    /// kept has none.
    pub marks: Vec<u64>,
    /// Blocks of the source that hold a valid checkpoint block.
    pub checkpoints: Vec<u32>,
    /// Blocks that could not be read.
    pub bad: BadBlocks,
    /// Node blocks that belong to other volumes, such as images in files.
    pub foreign: usize,
}

/// Scans the source. `progress` is called with the block up to which it was read.
pub fn scan(
    device: &dyn BlockDevice,
    options: &ScanOptions<'_>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Found, RescueError> {
    let blocks = device.block_count();
    if blocks > ADDRESSES + 1 {
        return Err(RescueError::TooLarge { blocks });
    }
    let mut found = read::all(device, options, progress)?;
    found.nodes.sort_unstable_by_key(|n| n.addr);
    found.superblocks.sort_unstable();
    found.marks.sort_unstable();
    found.checkpoints.sort_unstable();
    found.settle(options.base);
    if !found.is_volume() {
        return Err(RescueError::NothingFound);
    }
    Ok(found)
}

impl Found {
    /// Finds the base, and makes addresses of the places in the source.
    fn settle(&mut self, known: Option<i64>) {
        let at_start = self.superblocks.first().is_some_and(|&b| b < 2).then_some(0);
        let known = known.or(at_start);
        self.base = known.or_else(|| self.majority()).or_else(|| self.first_superblock()).unwrap_or(0);
        let before = self.nodes.len();
        nested::drop_foreign(&mut self.nodes, self.base);
        self.foreign = before.saturating_sub(self.nodes.len());
        let base = self.base;
        self.nodes.retain_mut(|n| match u32::try_from(i64::from(n.addr) - base) {
            Ok(addr) => {
                n.addr = addr;
                true
            }
            Err(_) => false,
        });
    }

    /// A single block can look like a node by chance.
    fn is_volume(&self) -> bool {
        let root = |n: &Candidate| n.nid == segno_format::Nid::ROOT.0;
        !self.superblocks.is_empty() || self.nodes.len() > 1 || self.nodes.iter().any(root)
    }

    /// A log is written in sequence, so most nodes name the block after their own, and neighbours agree on
    /// the base. An image in a file starts after the volume that has the file, so of several bases the lowest
    /// is taken.
    fn majority(&self) -> Option<i64> {
        let mut votes: HashMap<i64, u32> = HashMap::new();
        for (n, next) in self.nodes.iter().zip(self.nodes.iter().skip(1)) {
            if let Some(base) = n.vote().filter(|_| next.addr == n.addr + 1 && next.vote() == n.vote()) {
                *votes.entry(base).or_default() += 1;
            }
        }
        if votes.is_empty() {
            self.nodes
                .iter()
                .filter_map(Candidate::vote)
                .for_each(|base| *votes.entry(base).or_default() += 1);
        }
        let most = |range: &dyn Fn(i64) -> bool| {
            let inside = votes.iter().filter(|(base, _)| range(**base));
            inside.map(|(&base, &n)| (n, Reverse(base))).max()
        };
        let (all, Reverse(best)) = most(&|_| true)?;
        // Room for the smallest metadata lies between a volume and an image in one of its files.
        let before = |base: i64| base >= 0 && base.saturating_add(FRONT) <= best;
        let lowest =
            votes.iter().filter(|&(&base, &n)| before(base) && n > all / FEW).map(|(&base, _)| base).min();
        let Some(lowest) = lowest else { return Some(best) };
        most(&|base| base >= 0 && base.abs_diff(lowest) < FRONT.unsigned_abs()).map(|(_, Reverse(base))| base)
    }

    fn first_superblock(&self) -> Option<i64> {
        self.superblocks.first().map(|&b| i64::from(b))
    }
}
