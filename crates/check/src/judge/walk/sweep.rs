//! The sweep over all inode blocks in order of their addresses, on all processors, before a walk that proves.
//!
//! The sweep settles each inode that is consistent in its own block; the walk then has to find only its name.
//! All other inodes are left to the walk. Memory: some blocks in flight, and a bit for each nid and data
//! block.
use super::Found;
use super::simple::{self, Simple};
use crate::evidence::{Bitmap, Item, MultisetHash, NodeScan, Run, Volume, runs};
use crate::{Pass, Progress};
use segno_format::inode::RawInode;
use segno_format::summary::RawSummary;
use segno_format::{Block, BlockAddr, Features, Ino, Nid};
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Blocks between two inodes may be read, too, up to 64 KiB.
const GAP: u32 = 16;
/// Inodes that are worth a thread.
const INODES_PER_WORKER: usize = 1024;
/// More are of no use to a device, and each costs memory.
const MOST_WORKERS: usize = 8;

/// Settles inodes and adds them to `found`, except for the numbers of inodes and nodes, which the walk counts
/// when it finds the names. Returns the settled inodes; `None` if something is wrong.
pub(super) fn run(
    volume: &Volume<'_>,
    scan: &NodeScan,
    hash: &mut MultisetHash,
    found: &mut Found,
    progress: &mut dyn FnMut(Progress),
) -> Option<Bitmap> {
    let total = volume.pack.cp().valid_inode_count.get();
    let inodes = scan.inodes.iter().map(|i| BlockAddr(volume.geo.main_blkaddr.saturating_add(i as u32)));
    let runs = Mutex::new(runs::join(inodes, GAP));
    let settled = Bitmap::new(volume.geo.max_nid().into());
    let shared = Mutex::new(Settled { found, inodes: settled, seen: 0, intact: true });
    let cores = thread::available_parallelism().map_or(1, Into::into);
    let workers = (total as usize / INODES_PER_WORKER).clamp(1, cores.min(MOST_WORKERS));
    let work = |mut worker: Worker<'_, '_>, tell: &mut dyn FnMut(u64)| {
        runs::read(
            volume.reader,
            runs::IN_FLIGHT / workers as u32,
            || locked(&runs).next(),
            |run, blocks| tell(worker.judge(run, blocks)),
        );
        worker.hash
    };
    let worker = || Worker { volume, scan, shared: &shared, hash: hash.branch(), data: Vec::new() };
    let branches: Vec<MultisetHash> = thread::scope(|scope| {
        let spawn = |worker| scope.spawn(|| work(worker, &mut |_| {}));
        let others: Vec<_> = (1..workers).map(|_| spawn(worker())).collect();
        let own =
            work(worker(), &mut |done| progress(Progress { pass: Pass::Nodes, done, total: total.into() }));
        let others = others.into_iter().map(|worker| worker.join().unwrap_or_else(|e| resume_unwind(e)));
        others.chain([own]).collect()
    });
    branches.iter().for_each(|branch| hash.merge(branch));
    let settled = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    settled.intact.then_some(settled.inodes)
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state shared by all workers.
struct Settled<'f> {
    found: &'f mut Found,
    inodes: Bitmap,
    /// Inodes that were looked at.
    seen: u64,
    /// Whether each block was valid, and had one owner.
    intact: bool,
}

impl Settled<'_> {
    fn add(
        &mut self,
        volume: &Volume<'_>,
        scan: &NodeScan,
        ino: Ino,
        simple: &Simple,
        data: &[(BlockAddr, u16)],
    ) {
        self.inodes.insert(ino.0.into());
        for (addr, _) in data {
            let owned = volume.geo.seg_of(*addr).is_some_and(|(seg, off)| {
                let index = u64::from(addr.0 - volume.geo.main_blkaddr);
                volume.sit.is_valid(seg, off) && !scan.places.contains(index) && self.found.data.insert(index)
            });
            self.intact &= owned;
        }
        self.found.counts.data_blocks = self.found.counts.data_blocks.saturating_add(data.len() as u64);
        self.found.counts.reserved_blocks =
            self.found.counts.reserved_blocks.saturating_add(simple.reserved.into());
        if volume.sb.features.contains(Features::QUOTA_INO) {
            self.found.usage.add(simple.payers, simple.blocks);
        }
    }
}

struct Worker<'w, 'f> {
    volume: &'w Volume<'w>,
    scan: &'w NodeScan,
    shared: &'w Mutex<Settled<'f>>,
    hash: MultisetHash,
    /// Data blocks of the inode in hand.
    data: Vec<(BlockAddr, u16)>,
}

impl Worker<'_, '_> {
    /// Judges the inodes of a run; how many all workers have judged so far.
    fn judge(&mut self, run: Run, blocks: &[Block]) -> u64 {
        let mut inodes = 0;
        for (addr, block) in (run.start.0..).map(BlockAddr).zip(blocks) {
            if self.scan.inodes.contains(addr.0.saturating_sub(self.volume.geo.main_blkaddr).into()) {
                self.inode(addr, block);
                inodes += 1;
            }
        }
        let mut shared = locked(self.shared);
        shared.seen = shared.seen.saturating_add(inodes);
        shared.seen
    }

    fn inode(&mut self, addr: BlockAddr, block: &Block) {
        let nid = Nid(block.view::<RawInode>().footer.nid.get());
        let ino = nid.as_ino();
        self.data.clear();
        let Some(simple) = simple::judge(self.volume, ino, block, &mut self.data) else { return };
        let Some(name) = simple.named.only_name(ino.0) else { return };
        if self.volume.sb.quota_inos().contains(&Some(ino.0)) {
            return;
        }
        self.hash.find(Item::node(nid, ino.0, addr));
        self.hash.expect(name);
        let version = self.scan.version(nid);
        for &(addr, slot) in &self.data {
            self.hash.find_owner(addr, RawSummary::data(nid, version, slot));
        }
        locked(self.shared).add(self.volume, self.scan, ino, &simple, &self.data);
    }
}
