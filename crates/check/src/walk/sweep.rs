//! The sweep over all inode blocks in order of their addresses, on all processors, before the walk.
//!
//! It decides nothing about inodes: what it keeps spares the walk a read where there is nothing to report. Memory: 4 MiB of
//! blocks in flight, up to 4 MiB of summaries a worker, 8 bytes for each node of two windows, and what is kept.
use super::kept::{Shelf, Shelves};
use super::simple;
use crate::bitmap::Bitmap;
use crate::report::Sink;
use crate::runs::{self, Run};
use crate::ssa::{Expected, Ssa};
use crate::volume::Volume;
use crate::{CheckError, Pass, Progress};
use segno_format::summary::RawSummary;
use segno_format::{Block, BlockAddr, Nid};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Nodes of a window, and windows: each takes a pass over the NAT.
const WINDOW: usize = 1 << 16;
const WINDOWS: usize = 64;
/// Blocks between two inodes may be read, too, up to 64 KiB.
const GAP: u32 = 16;
/// Runs that are worth a thread.
const RUNS_PER_WORKER: usize = 8;
/// More are of no use to a device, and each costs memory.
const MOST_WORKERS: usize = 8;

/// Compares the summaries of all nodes, and judges all inodes; a window of the main area at a time, so that only the nodes of
/// two windows are listed: while one is read, the next one is prepared.
pub(super) fn run(
    volume: &Volume<'_>,
    ssa: &mut Ssa<'_>,
    places: &Bitmap,
    sink: &mut Sink,
    progress: &mut dyn FnMut(Progress),
) -> Result<Shelves, CheckError> {
    let total = volume.pack.cp().valid_node_count.get().into();
    let (mut shelves, mut done) = (Shelves::default(), 0u64);
    let mut prepare = |first| prepare(volume, ssa, places, first, sink);
    let mut next = prepare(0)?;
    while let Some(Window { end, nodes }) = next {
        let mut tell = |inside: u64| {
            progress(Progress { pass: Pass::Nodes, done: done.saturating_add(inside), total });
        };
        next = thread::scope(|scope| {
            let next = scope.spawn(|| prepare(end));
            sweep(volume, &nodes, &mut shelves, &mut tell);
            next.join().unwrap_or_else(|e| resume_unwind(e))
        })?;
        done = done.saturating_add(nodes.len() as u64);
    }
    Ok(shelves)
}

/// The nodes of some words of the bitmap.
struct Window {
    /// One past the last word.
    end: usize,
    nodes: Vec<(BlockAddr, Nid)>,
}

/// Lists the nodes from a word of the bitmap on, and compares their summaries.
fn prepare(
    volume: &Volume<'_>,
    ssa: &mut Ssa<'_>,
    places: &Bitmap,
    first: usize,
    sink: &mut Sink,
) -> Result<Option<Window>, CheckError> {
    let most = WINDOW.max(volume.pack.cp().valid_node_count.get() as usize / WINDOWS);
    let Some((end, count)) = window(places, first, most) else { return Ok(None) };
    let nodes = list(volume, first, end, count);
    for &(addr, nid) in &nodes {
        let ino = volume.nat.entry(nid).owner().0;
        ssa.compare(Expected { addr, ino, owner: RawSummary::node(nid), is_node: true }, sink)?;
    }
    ssa.forget();
    Ok(Some(Window { end, nodes }))
}

/// The words of the bitmap from `first` on that have at most `most` nodes, and the nodes; `None` at the end.
fn window(places: &Bitmap, first: usize, most: usize) -> Option<(usize, usize)> {
    let (mut end, mut count) = (first, 0usize);
    for n in places.counts(first) {
        if count + n > most {
            return Some((end, count));
        }
        (end, count) = (end + 1, count + n);
    }
    (count > 0).then_some((end, count))
}

/// Nodes in these words of the bitmap that are valid, ascending; of two in one block that of the lower nid.
fn list(volume: &Volume<'_>, first: usize, end: usize, count: usize) -> Vec<(BlockAddr, Nid)> {
    let geo = &volume.geo;
    let mut nodes = Vec::with_capacity(count);
    nodes.extend(volume.nat.in_use().map(|(nid, e)| (e.addr(), nid)).filter(|(addr, _)| {
        let valid = |(seg, off)| volume.sit.is_valid(seg, off);
        let word = addr.0.saturating_sub(geo.main_blkaddr) as usize / 64;
        (first..end).contains(&word) && geo.seg_of(*addr).is_some_and(valid)
    }));
    nodes.sort_unstable();
    nodes.dedup_by_key(|(addr, _)| *addr);
    nodes
}

/// Judges the inodes of a window.
fn sweep(volume: &Volume<'_>, nodes: &[(BlockAddr, Nid)], shelves: &mut Shelves, tell: &mut dyn FnMut(u64)) {
    let is_inode = |nid: Nid| volume.nat.entry(nid).owner() == nid;
    let inodes = nodes.iter().filter(|(_, nid)| is_inode(*nid)).map(|(addr, _)| *addr);
    let runs = runs::join(inodes, GAP);
    let cores = thread::available_parallelism().map_or(1, Into::into);
    let workers = (runs.len() / RUNS_PER_WORKER).clamp(1, cores.min(MOST_WORKERS));
    let (next, room) = (AtomicUsize::new(0), shelves.room() / workers);
    let work = |tell: &mut dyn FnMut(u64)| {
        let mut worker = Worker { volume, nodes, ssa: Ssa::new(volume), shelf: Shelf::new(room) };
        runs::read(
            volume.reader,
            runs::IN_FLIGHT / workers as u32,
            || {
                let run = runs.get(next.fetch_add(1, Ordering::Relaxed)).copied()?;
                tell(nodes.partition_point(|(addr, _)| *addr < run.start) as u64);
                Some(run)
            },
            |run, blocks| worker.judge(run, blocks),
        );
        worker.shelf
    };
    let filled: Vec<Shelf> = thread::scope(|scope| {
        let others: Vec<_> = (1..workers).map(|_| scope.spawn(|| work(&mut |_| {}))).collect();
        let own = work(tell);
        let others = others.into_iter().map(|worker| worker.join().unwrap_or_else(|e| resume_unwind(e)));
        others.chain([own]).collect()
    });
    filled.into_iter().for_each(|shelf| shelves.add(shelf));
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
