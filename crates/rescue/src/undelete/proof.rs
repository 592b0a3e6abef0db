//! Whether a block is still what a deleted file left there.
use super::{DeletedInode, Share};
use crate::file::Slot;
use crate::scan::Candidate;
use crate::volume::Volume;
use segno_format::checkpoint::CpFlags;
use segno_format::inode::{Inline, RawInode};
use segno_format::node::{NodeKind, RawNode, kind_of_offset};
use segno_format::summary::SummaryType;
use segno_format::{ADDRS_PER_BLOCK, BlockAddr, Nid};
use segno_layout::NatState;
use std::collections::HashSet;

/// A block that a deleted file would have back.
#[derive(Clone, Copy)]
struct Want {
    addr: u32,
    version: u32,
    nid: u32,
    ino: u32,
    slot: u16,
}

/// Which blocks were named by later nodes.
pub struct Proof {
    /// Address, nid and slot of the deleted file's node.
    reused: HashSet<(u32, u32, u16)>,
    /// Whether the volume was unmounted; data written after its last checkpoint would leave no trace.
    clean: bool,
}

/// The evidence for one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Proven,
    Unproven,
    Gone,
}

impl Proof {
    /// Compares the blocks of deleted files with all nodes, live or not.
    #[must_use]
    pub fn of(volume: &Volume<'_>, dead: &[DeletedInode], progress: &mut dyn FnMut(u64, u64)) -> Self {
        let mut wants = Vec::new();
        for d in dead {
            each_slot(volume, d, |s, node| {
                if is_unused(volume, s.addr) {
                    let version = volume.nodes.version(node.cp_ver);
                    wants.push(Want {
                        addr: s.addr.0,
                        version,
                        nid: s.nid,
                        ino: d.file.node.ino,
                        slot: s.slot,
                    });
                }
            });
        }
        wants.sort_unstable_by_key(|w| w.addr);
        let mut reused = HashSet::new();
        let total = volume.nodes.all().len() as u64;
        for (done, n) in (0u64..).zip(volume.nodes.all()) {
            progress(done, total);
            let version = volume.nodes.version(n.cp_ver);
            named_by(volume, n, |slot, addr| {
                let from = wants.partition_point(|w| w.addr < addr.0);
                let same = wants.get(from..).unwrap_or_default().iter().take_while(|w| w.addr == addr.0);
                for w in same {
                    let own = n.nid == w.nid && n.ino == w.ino && slot == w.slot;
                    if version >= w.version && !own {
                        reused.insert((w.addr, w.nid, w.slot));
                    }
                }
            });
        }
        let clean = volume.pack.as_ref().is_some_and(|p| p.flags().contains(CpFlags::UMOUNT));
        Self { reused, clean: clean && volume.chain.nodes.is_empty() }
    }

    /// Counts the blocks of a file.
    #[must_use]
    pub fn share(&self, volume: &Volume<'_>, dead: &DeletedInode) -> Share {
        let mut out = Share { nodes: dead.file.missing, ..Share::default() };
        let end = dead.file.blocks();
        each_slot(volume, dead, |s, _| {
            if s.file_block >= end {
                return;
            }
            match self.verdict(volume, dead, s) {
                Verdict::Proven if volume.reader.block(s.addr).is_some_and(|b| b.is_zero()) => out.zero += 1,
                Verdict::Proven => out.proven += 1,
                Verdict::Unproven => out.unproven += 1,
                Verdict::Gone => out.gone += 1,
            }
        });
        out
    }

    /// Whether a block may be shown.
    #[must_use]
    pub fn allows(&self, volume: &Volume<'_>, dead: &DeletedInode, s: &Slot, unproven: bool) -> bool {
        match self.verdict(volume, dead, s) {
            Verdict::Proven => true,
            Verdict::Unproven => unproven,
            Verdict::Gone => false,
        }
    }

    fn verdict(&self, volume: &Volume<'_>, dead: &DeletedInode, s: &Slot) -> Verdict {
        let readable = u64::try_from(i64::from(s.addr.0) + volume.reader.base())
            .is_ok_and(|at| !volume.bad.contains(at));
        if !is_unused(volume, s.addr) || !readable || self.reused.contains(&(s.addr.0, s.nid, s.slot)) {
            return Verdict::Gone;
        }
        match self.clean && names(volume, s) && newest(volume, dead, s.nid) {
            true => Verdict::Proven,
            false => Verdict::Unproven,
        }
    }
}

/// Whether no file has the block, and no node is in it.
fn is_unused(volume: &Volume<'_>, addr: BlockAddr) -> bool {
    volume.in_main(addr) && volume.is_free(addr) && volume.nodes.at_addr(addr).is_none()
}

/// Whether the summary names the slot, with the version that the nid had until it was freed the last time.
fn names(volume: &Volume<'_>, s: &Slot) -> bool {
    let Some(owner) = volume.owner(s.addr) else { return false };
    let entry = owner.entry;
    let same =
        owner.kind == SummaryType::Data && entry.nid() == Nid(s.nid) && entry.ofs_in_node.get() == s.slot;
    same && match volume.nat(s.nid) {
        NatState::Free(nat) => nat.version == entry.version.wrapping_add(1),
        // Used again, so the blocks of that node may be meant.
        NatState::Used(_) | NatState::Unknown => false,
    }
}

/// Whether no later node had the number.
fn newest(volume: &Volume<'_>, dead: &DeletedInode, nid: u32) -> bool {
    let first = volume.nodes.of(nid).next();
    first.is_some_and(|n| {
        n.ino == dead.file.node.ino
            && n.generation == if n.is_inode() { dead.file.node.generation } else { 0 }
    })
}

fn each_slot(volume: &Volume<'_>, dead: &DeletedInode, mut each: impl FnMut(&Slot, &Candidate)) {
    let by_nid: std::collections::HashMap<u32, &Candidate> =
        dead.file.dnodes.values().map(|n| (n.nid, n)).collect();
    dead.file.slots(volume, |slots| {
        for s in slots.iter().filter(|s| s.addr.is_real()) {
            each(s, by_nid.get(&s.nid).copied().unwrap_or(&dead.file.node));
        }
    });
}

/// Calls `each` for the addresses that a node names.
fn named_by(volume: &Volume<'_>, n: &Candidate, mut each: impl FnMut(u16, BlockAddr)) {
    let Some(kind) = kind_of_offset(n.offset()) else { return };
    if matches!(kind, NodeKind::Indirect | NodeKind::Xattr) {
        return;
    }
    let Some(block) = volume.reader.block(n.place()) else { return };
    let mut give = |slot: u32, addr: BlockAddr| {
        if addr.is_real() {
            each(slot as u16, addr);
        }
    };
    if kind == NodeKind::Inode {
        let inode: &RawInode = block.view();
        let Ok(layout) = inode.layout(volume.features) else { return };
        if !inode.inline().intersects(Inline::DATA | Inline::DENTRY) {
            (0..layout.slots).for_each(|i| give(i, inode.slot(&layout, i)));
        }
    } else {
        let node: &RawNode = block.view();
        (0..ADDRS_PER_BLOCK).for_each(|i| give(i, node.addr(i)));
    }
}
