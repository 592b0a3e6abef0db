//! The sweep over all inode blocks in order of their addresses, on all processors, before the walk.
//!
//! It decides nothing: what it keeps spares the walk a read where there is nothing to report. Memory: 4 MiB of blocks in
//! flight and 8 MiB of summaries a worker, and [`kept::LIMIT`] for what is kept.
use super::kept::{self, Shelf, Shelves};
use super::simple;
use crate::runs::{self, Run};
use crate::ssa::Ssa;
use crate::volume::Volume;
use crate::{Pass, Progress};
use segno_format::{Block, BlockAddr, Nid};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Runs that are worth a thread.
const RUNS_PER_WORKER: usize = 8;
/// More are of no use to a device, and each costs memory.
const MOST_WORKERS: usize = 8;
const _: () = assert!(MOST_WORKERS <= kept::WORKERS);

/// Judges all inodes among nodes that are in order of their addresses.
pub(super) fn run(
    volume: &Volume<'_>,
    nodes: &[(BlockAddr, Nid)],
    progress: &mut dyn FnMut(Progress),
) -> Shelves {
    let is_inode = |nid: Nid| volume.nat.entry(nid).owner() == nid;
    let runs = runs::join(nodes.iter().filter(|(_, nid)| is_inode(*nid)).map(|(addr, _)| *addr));
    let cores = thread::available_parallelism().map_or(1, Into::into);
    let workers = (runs.len() / RUNS_PER_WORKER).clamp(1, cores.min(MOST_WORKERS));
    let next = AtomicUsize::new(0);
    let work = |tell: &mut dyn FnMut(u64)| {
        let mut worker =
            Worker { volume, nodes, ssa: Ssa::new(volume), shelf: Shelf::new(kept::LIMIT / workers) };
        runs::read(
            volume.reader,
            || {
                let run = runs.get(next.fetch_add(1, Ordering::Relaxed)).copied()?;
                tell(run.start.0.into());
                Some(run)
            },
            |run, blocks| worker.judge(run, blocks),
        );
        worker.shelf
    };
    let total = nodes.len() as u64;
    let mut tell = |start: u64| {
        let done = nodes.partition_point(|(addr, _)| u64::from(addr.0) < start) as u64;
        progress(Progress { pass: Pass::Nodes, done, total });
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(|| work(&mut |_| {}))).collect();
        let own = work(&mut tell);
        let others = others.into_iter().map(|worker| worker.join().unwrap_or_else(|e| resume_unwind(e)));
        Shelves::new(others.chain([own]))
    })
}

struct Worker<'v> {
    volume: &'v Volume<'v>,
    nodes: &'v [(BlockAddr, Nid)],
    ssa: Ssa<'v>,
    shelf: Shelf,
}

impl Worker<'_> {
    fn judge(&mut self, run: Run, blocks: &[Block]) {
        let first = self.nodes.partition_point(|(addr, _)| *addr < run.start);
        let inside = self.nodes.iter().skip(first).take_while(|(addr, _)| *addr < run.end());
        for &(addr, nid) in inside.filter(|(_, nid)| self.volume.nat.entry(*nid).owner() == *nid) {
            let block = blocks.get((addr.0 - run.start.0) as usize);
            let kept = block.and_then(|b| simple::judge(self.volume, &mut self.ssa, nid, b));
            if let Some(kept) = kept {
                self.shelf.add(nid, &kept);
            }
        }
    }
}
