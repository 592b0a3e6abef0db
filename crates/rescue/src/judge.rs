//! How sure it is that the content of a file is its own: every block against the summaries and against other files.
use crate::file::{Opened, Slot};
use crate::tree::Tree;
use crate::volume::{Checked, Volume};
use segno_format::BlockAddr;
use segno_format::summary::SummaryType;
use segno_layout::Owner;
use serde::Serialize;
use std::collections::HashMap;

/// How sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Class {
    /// The inode is proven by its checksum or the NAT, and every block by its summary.
    A,
    /// Nothing speaks against it.
    B,
    /// Something is missing or contradicts.
    C,
}

/// Evidence about the content of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Data blocks with an address.
    pub data: u64,
    /// Those whose summary names this slot.
    pub proven: u64,
    /// Those whose summary names another slot that exists.
    pub denied: u64,
    /// Those that another file owns; they become holes.
    pub foreign: u64,
    /// Those that cannot be read or lie outside the volume; they become holes.
    pub lost: u64,
    /// Those that read as zeros and are free by now, perhaps discarded.
    pub zero: u64,
    /// Nodes of the index that are lost.
    pub nodes: u64,
    /// Nodes, the inode among them, of which it is not known that they belong to the checkpoint.
    pub unranked: u64,
}

/// Judgements of all placed inodes.
pub struct Verdicts {
    blocks: HashMap<u32, Blocks>,
    /// Owner of each block that several slots name: nid and slot.
    pub(crate) owners: HashMap<u32, (u32, u16)>,
}

impl Verdicts {
    /// Reads the index of every inode that has a place in the tree.
    #[must_use]
    pub fn of(volume: &Volume<'_>, tree: &Tree, progress: &mut dyn FnMut(u64, u64)) -> Self {
        let mut placed: Vec<u32> = tree.entries.iter().filter_map(|e| e.record).collect();
        placed.sort_unstable_by_key(|&r| tree.record(r).map(|r| r.node.addr));
        placed.dedup();
        let mut out = Self { blocks: HashMap::new(), owners: HashMap::new() };
        let mut refs = BlockRefs::new(volume);
        for (done, &r) in (0u64..).zip(&placed) {
            progress(done, placed.len() as u64);
            let Some(file) = open(volume, tree, r) else { continue };
            let mut unranked = 0;
            for n in std::iter::once(&file.node).chain(file.dnodes.values()) {
                refs.add(n.place());
                unranked += u64::from(volume.is_unranked(n));
            }
            let mut blocks = Blocks { nodes: file.missing, unranked, ..Blocks::default() };
            blocks.nodes += file.slots(volume, |slots| {
                slots.iter().filter(|s| s.addr.is_real()).for_each(|s| {
                    judge(volume, s, &mut blocks);
                    refs.add(s.addr);
                });
            });
            out.blocks.insert(file.node.nid, blocks);
        }
        if !refs.twice.is_empty() {
            out.settle(volume, tree, &placed, refs.twice);
        }
        out
    }

    /// Decides who owns blocks that are referred to twice, and counts them for the others.
    fn settle(&mut self, volume: &Volume<'_>, tree: &Tree, placed: &[u32], twice: HashMap<u32, LikelyOwner>) {
        let mut best = twice;
        for &r in placed {
            let Some(file) = open(volume, tree, r) else { continue };
            for n in std::iter::once(&file.node).chain(file.dnodes.values()) {
                // A node is at the place its footer names, so the slot that names its block is wrong.
                if let Some(likely) = best.get_mut(&n.addr) {
                    *likely = LikelyOwner { proven: true, version: u32::MAX, owner: (n.nid, u16::MAX) };
                }
            }
            file.slots(volume, |slots| {
                for s in slots.iter().filter(|s| s.addr.is_real()) {
                    let Some(likely) = best.get_mut(&s.addr.0) else { continue };
                    let node = file.dnodes.values().find(|n| n.nid == s.nid).unwrap_or(&file.node);
                    let (proven, version) =
                        (proves(volume, s) == Some(true), volume.nodes.version(node.cp_ver));
                    if (proven, version) > (likely.proven, likely.version) || likely.owner == (0, 0) {
                        *likely = LikelyOwner { proven, version, owner: (s.nid, s.slot) };
                    }
                }
            });
        }
        self.owners = best.into_iter().map(|(addr, c)| (addr, c.owner)).collect();
        for &r in placed {
            let Some(file) = open(volume, tree, r) else { continue };
            let mut foreign = 0;
            file.slots(volume, |slots| {
                foreign += slots.iter().filter(|s| self.is_foreign(s)).count() as u64;
            });
            if let Some(b) = self.blocks.get_mut(&file.node.nid) {
                b.foreign = foreign;
            }
        }
    }

    /// Whether another file owns the block of a slot.
    #[must_use]
    pub fn is_foreign(&self, s: &Slot) -> bool {
        s.addr.is_real() && self.owners.get(&s.addr.0).is_some_and(|&owner| owner != (s.nid, s.slot))
    }

    /// The evidence about the content of an inode.
    #[must_use]
    pub fn blocks(&self, ino: u32) -> Blocks {
        self.blocks.get(&ino).copied().unwrap_or_default()
    }

    /// Class of an entry of the tree, with the reasons.
    #[must_use]
    pub fn class(&self, tree: &Tree, entry: u32) -> (Class, Vec<&'static str>) {
        let Some(e) = tree.entries.get(entry as usize) else { return (Class::C, Vec::new()) };
        let Some((at, r)) = e.record.and_then(|at| Some((at, tree.record(at)?))) else {
            return (Class::C, vec!["made for what has no place"]);
        };
        let b = self.blocks(r.node.nid);
        let faults = [
            (e.guessed, "no directory has its name"),
            (r.old, "an older version, as the newest is damaged"),
            (r.checked == Checked::Wrong, "the checksum of the inode is wrong"),
            (tree.incomplete.contains(&at), "a part of the directory is lost"),
            (b.nodes > 0, "nodes of its index are lost"),
            (b.unranked > 0, "its nodes may be newer than the checkpoint"),
            (b.lost > 0, "blocks are lost"),
            (b.zero > 0, "free blocks read as zeros, perhaps discarded"),
            (b.foreign > 0, "blocks belong to another file"),
            (b.denied > 0, "the summary of a block names another owner"),
        ];
        let reasons: Vec<_> = faults.into_iter().filter(|(is, _)| *is).map(|(_, why)| why).collect();
        if !reasons.is_empty() {
            return (Class::C, reasons);
        }
        let inode = match (r.checked, r.named) {
            (Checked::Right, _) => Some("the checksum of the inode is right"),
            (_, true) => Some("the NAT names the inode"),
            _ => None,
        };
        match inode {
            Some(why) if b.proven == b.data => (Class::A, vec![why]),
            _ => (Class::B, Vec::new()),
        }
    }
}

pub(crate) fn open(volume: &Volume<'_>, tree: &Tree, record: u32) -> Option<Opened> {
    Opened::live(volume, &tree.record(record)?.node)
}

fn judge(volume: &Volume<'_>, s: &Slot, blocks: &mut Blocks) {
    blocks.data += 1;
    let at = u64::try_from(i64::from(s.addr.0) + volume.reader.base()).ok();
    if !volume.in_main(s.addr) || at.is_none_or(|at| volume.bad.contains(at)) {
        blocks.lost += 1;
        return;
    }
    // Blocks that fsync wrote after the checkpoint are not in the SIT.
    let free = volume.is_free(s.addr) && !volume.chain.overlay.contains_key(&s.nid);
    if free && volume.reader.block(s.addr).is_some_and(|b| b.is_zero()) {
        blocks.zero += 1;
    }
    match proves(volume, s) {
        Some(true) => blocks.proven += 1,
        Some(false) => blocks.denied += 1,
        None => {}
    }
}

/// Whether the summary of a block names this slot (`true`) or a node that exists (`false`); `None` if it
/// proves nothing.
pub(crate) fn proves(volume: &Volume<'_>, s: &Slot) -> Option<bool> {
    let Owner { kind, entry } = volume.owner(s.addr)?;
    if kind == SummaryType::Data && entry.nid.get() == s.nid && entry.ofs_in_node.get() == s.slot {
        return Some(true);
    }
    volume.nodes.of(entry.nid.get()).next().map(|_| false)
}

/// The most likely owner of a block to which several slots refer.
#[derive(Clone, Copy)]
struct LikelyOwner {
    proven: bool,
    version: u32,
    owner: (u32, u16),
}

/// References to blocks: a bit for each block of the volume.
struct BlockRefs {
    once: Vec<u64>,
    twice: HashMap<u32, LikelyOwner>,
}

impl BlockRefs {
    fn new(volume: &Volume<'_>) -> Self {
        Self { once: vec![0; volume.reader.end().div_ceil(64) as usize], twice: HashMap::new() }
    }

    fn add(&mut self, addr: BlockAddr) {
        let Some(word) = self.once.get_mut(addr.0 as usize / 64) else { return };
        let mask = 1 << (addr.0 % 64);
        if *word & mask != 0 {
            self.twice.insert(addr.0, LikelyOwner { proven: false, version: 0, owner: (0, 0) });
        }
        *word |= mask;
    }
}
