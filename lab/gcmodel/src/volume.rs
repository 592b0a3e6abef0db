//! The volume: addresses of file blocks and nodes, dirty state, checkpoints.
use crate::counters::{Counters, Kind};
use crate::directory;
use crate::experiment::{Experiment, Shape};
use crate::journal::Journal;
use crate::log::LogKind;
use crate::placement::Placement;
use crate::rounds::{self, Dirty, Host, Loop, Need};
use crate::space::{NONE, Space};
use segno_clean::lifetime::DataLog;
use segno_clean::need::{Figures, Request, UNCOUNTED};
use segno_clean::pace::{Host as PaceHost, Pacer, Room};
use segno_clean::policy::{self, Facts, Situation, Victim, VictimPolicy};
use std::collections::VecDeque;

/// Data blocks mapped by an inode and by a direct node.
const IN_INODE: u64 = 923;
const IN_NODE: u64 = 1018;
/// Flags of an owner: a node, a directory block.
pub const NODE: u32 = 1 << 31;
pub const DENT: u32 = 1 << 30;
/// Compact summary entries that fit into the first and second block.
const COMPACT: [u32; 2] = [439, 584];

/// No section is left for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The model.
#[derive(Debug)]
pub struct Model {
    pub e: Experiment,
    pub how: Loop,
    pub count_data: bool,
    pub policy: Box<dyn VictimPolicy>,
    policy_name: String,
    pub space: Space,
    pub counts: Counters,
    /// Address of each data block, node and directory block; owner of each address.
    pub place: Vec<u32>,
    pub node_place: Vec<u32>,
    pub dent_place: Vec<u32>,
    pub owner: Vec<u32>,
    pub dirty: Bits,
    pub dirty_nodes: Bits,
    pub dirty_dents: Bits,
    changed_nids: Vec<u32>,
    nat: Journal,
    sit: Journal,
    /// Moved nodes are only made dirty, as in the engine; the next checkpoint writes them.
    pub lazy_nodes: bool,
    pub aside: Vec<u32>,
    pacer: Pacer,
    /// Addresses that paced cleaning has still to move, and whether each is the first of its node; how many are.
    pub moving: VecDeque<(u32, bool)>,
    pub moving_nodes: u64,
    /// Nodes written by fsyncs since the last checkpoint.
    pub logged: u64,
    /// User blocks written when cleaning was last paced.
    pub paced: u64,
    /// Blocks that the engine keeps for blocks that are not counted yet. The model has none of those, so it
    /// only costs room.
    pub uncounted: u64,
    node_moved: Bits,
    pub placement: Placement,
    /// User blocks written back.
    pub user_written: u64,
}

/// A bitmap with its population count.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    words: Vec<u64>,
    pub len: u64,
}

impl Bits {
    pub fn new(n: usize) -> Self {
        Self { words: vec![0; n.div_ceil(64)], len: 0 }
    }
    pub fn has(&self, i: u32) -> bool {
        self.words[i as usize / 64] >> (i % 64) & 1 == 1
    }
    /// Inserts; true if it was absent.
    pub fn add(&mut self, i: u32) -> bool {
        let (w, bit) = (&mut self.words[i as usize / 64], 1u64 << (i % 64));
        // Not `len += u64::from(new)`: rustc 1.95 loses that from opt-level 2 on, where a caller branches on the result.
        if *w & bit != 0 {
            return false;
        }
        *w |= bit;
        self.len += 1;
        true
    }
    /// Removes; true if it was present.
    pub fn remove(&mut self, i: u32) -> bool {
        let (w, bit) = (&mut self.words[i as usize / 64], 1u64 << (i % 64));
        if *w & bit == 0 {
            return false;
        }
        *w &= !bit;
        self.len -= 1;
        true
    }
    /// Whether the count agrees with the bitmap.
    pub fn is_sound(&self) -> bool {
        self.words.iter().map(|w| u64::from(w.count_ones())).sum::<u64>() == self.len
    }
    pub fn next(&self, from: u32) -> Option<u32> {
        let mut i = from as usize / 64;
        let mut hit = self.words.get(i)? & (u64::MAX << (from % 64));
        while hit == 0 {
            i += 1;
            hit = *self.words.get(i)?;
        }
        Some(i as u32 * 64 + hit.trailing_zeros())
    }
}

impl Model {
    /// The policy is one of `segno_clean::policy`.
    pub fn new(e: Experiment, policy_name: &str, how: Loop) -> Result<Self, String> {
        let policy = policy::parse(policy_name)?;
        let (data, nodes, dents) = sizes(&e);
        let space = Space::new(e.zones, e.blocks_per_zone, &*policy);
        let blocks = e.zones as usize * e.blocks_per_zone as usize;
        Ok(Self {
            e,
            how,
            count_data: false,
            policy,
            policy_name: policy_name.to_owned(),
            space,
            counts: Counters::default(),
            place: vec![NONE; data],
            node_place: vec![NONE; nodes],
            dent_place: vec![NONE; dents],
            owner: vec![NONE; blocks],
            dirty: Bits::new(data),
            dirty_nodes: Bits::new(nodes),
            dirty_dents: Bits::new(dents),
            changed_nids: Vec::new(),
            nat: Journal::new(455, 38),
            sit: Journal::new(55, 6),
            lazy_nodes: matches!(how, Loop::Batch | Loop::Paced),
            aside: Vec::new(),
            pacer: Pacer::default(),
            moving: VecDeque::new(),
            moving_nodes: 0,
            logged: 0,
            paced: 0,
            uncounted: UNCOUNTED,
            node_moved: Bits::new(nodes),
            placement: Placement::default(),
            user_written: 0,
        })
    }

    /// The node that maps a data block.
    pub fn node_of(&self, page: u32) -> u32 {
        match self.e.shape {
            Shape::File { stride } => {
                let block = u64::from(page) * stride;
                if block < IN_INODE { 0 } else { (1 + (block - IN_INODE) / IN_NODE) as u32 }
            }
            Shape::Small { blocks } => page / blocks as u32,
        }
    }
    /// The inode of a file.
    pub fn inode_of(&self, page: u32) -> u32 {
        match self.e.shape {
            Shape::File { .. } => 0,
            Shape::Small { .. } => self.node_of(page),
        }
    }
    /// The directory block with the name of an inode.
    pub fn dent_of(&self, node: u32) -> u32 {
        directory::block_of(node.into()) as u32
    }
    /// Number of small files. The inode of their directory is the node after their nodes.
    pub fn small_files(&self) -> u32 {
        match self.e.shape {
            Shape::File { .. } => 0,
            Shape::Small { .. } => self.node_place.len() as u32 - 1,
        }
    }
    /// The inode of the directory.
    fn directory(&self) -> Option<u32> {
        matches!(self.e.shape, Shape::Small { .. }).then(|| self.small_files())
    }

    /// The log itself, or another data log with room, if nodes may need the section that it would open.
    fn shared(&self, log: LogKind) -> LogKind {
        let free = self.space.free_sections();
        let opens = self.how == Loop::Paced && self.space.room_in(log) == 0;
        if !opens || free > PaceHost::figures(self).for_nodes(self.moving_nodes) {
            return log;
        }
        let left = DataLog::ALL.map(|log| u64::from(self.space.room_in(log.into())));
        log.data().shared(left).map_or(log, LogKind::from)
    }

    /// Writes a data block to a log; its node is dirty then.
    pub fn write_data(&mut self, page: u32, log: LogKind, kind: Kind) -> Result<(), Full> {
        let log = self.shared(log);
        let addr = self.space.append(log).ok_or(Full)?;
        let old = std::mem::replace(&mut self.place[page as usize], addr);
        self.owner[addr as usize] = page;
        if old != NONE {
            self.space.invalidate(old);
        }
        let node = self.node_of(page);
        self.dirty_nodes.add(node);
        self.counts.wrote(kind, 1);
        Ok(())
    }

    pub fn write_node(&mut self, node: u32, kind: Kind) -> Result<(), Full> {
        let log = if Some(node) == self.directory() { LogKind::HotNode } else { LogKind::WarmNode };
        let addr = self.space.append(log).ok_or(Full)?;
        let old = std::mem::replace(&mut self.node_place[node as usize], addr);
        self.owner[addr as usize] = node | NODE;
        if old != NONE {
            self.space.invalidate(old);
        }
        self.dirty_nodes.remove(node);
        let moved = self.node_moved.remove(node);
        self.changed_nids.push(node);
        self.counts.wrote(if moved { Kind::MovedNodes } else { kind }, 1);
        Ok(())
    }

    /// Has the next checkpoint write a node that cleaning moves.
    pub fn defer_node(&mut self, node: u32) {
        if self.dirty_nodes.add(node) {
            self.node_moved.add(node);
        }
    }

    fn write_dent(&mut self, dent: u32, log: LogKind, kind: Kind) -> Result<(), Full> {
        let log = self.shared(log);
        let addr = self.space.append(log).ok_or(Full)?;
        let old = std::mem::replace(&mut self.dent_place[dent as usize], addr);
        self.owner[addr as usize] = dent | DENT;
        if old != NONE {
            self.space.invalidate(old);
        }
        self.dirty_nodes.add(self.small_files());
        self.counts.wrote(kind, 1);
        Ok(())
    }
    pub fn move_dent(&mut self, dent: u32) -> Result<(), Full> {
        self.dirty_dents.remove(dent);
        let log = self.log_of_moved(self.dent_place[dent as usize]);
        self.write_dent(dent, log, Kind::MovedData)
    }

    /// Cleans in proportion to the data blocks placed since the last call.
    fn pace(&mut self) -> Result<(), Full> {
        let before = self.counts.moved();
        let mut pacer = std::mem::take(&mut self.pacer);
        let placed = self.counts.of(Kind::UserData)
            - std::mem::replace(&mut self.paced, self.counts.of(Kind::UserData));
        let done = pacer.pace(self, placed).and_then(|()| {
            if Figures::floor(&PaceHost::figures(self)) >= 0
                || pacer.make_room(self, Request::default())? != Room::Spent
            {
                Ok(())
            } else {
                Err(Full)
            }
        });
        self.pacer = pacer;
        if self.counts.moved() != before {
            self.counts.rounds += 1;
            self.counts.stalled(self.counts.moved() - before);
        }
        done
    }

    /// Whether an fsync may write the dirty nodes ahead of the checkpoint.
    pub fn has_room_for_chain(&self) -> bool {
        self.how != Loop::Paced || PaceHost::figures(self).has_room_for_chain(self.dirty_nodes.len)
    }

    /// Writes all dirty nodes.
    pub fn flush_nodes(&mut self) -> Result<(), Full> {
        let mut at = 0;
        while let Some(node) = self.dirty_nodes.next(at) {
            self.write_node(node, Kind::Nodes)?;
            at = node + 1;
        }
        Ok(())
    }

    pub fn write_checkpoint(&mut self) -> Result<(), Full> {
        let mut at = 0;
        while let Some(dent) = self.dirty_dents.next(at) {
            self.dirty_dents.remove(dent);
            self.write_dent(dent, LogKind::HotData, Kind::Dents)?;
            at = dent + 1;
        }
        self.flush_nodes()?;
        self.counts.wrote(Kind::Nat, self.nat.flush(&mut self.changed_nids));
        self.changed_nids.clear();
        self.counts.wrote(Kind::Sit, self.sit.flush(&mut self.space.changed));
        let used: u32 = [LogKind::HotData, LogKind::WarmData, LogKind::ColdData]
            .into_iter()
            .map(|k| self.space.logs[k.slot()].next % 512)
            .sum();
        let summaries = 1 + u64::from(used > COMPACT[0]) + u64::from(used > COMPACT[0] + COMPACT[1]);
        self.counts.wrote(Kind::Pack, 2 + summaries);
        let filled = std::mem::take(&mut self.space.filled);
        self.counts.wrote(Kind::Ssa, filled);
        self.counts.checkpoints += 1;
        self.logged = 0;
        self.space.committed();
        Ok(())
    }

    /// Cleans if needed; called after each block written back and each change of metadata.
    pub fn balance(&mut self) -> Result<(), Full> {
        if self.how == Loop::Paced {
            return self.pace();
        }
        if !rounds::must_clean(self, self.how) {
            return Ok(());
        }
        let (before, sections) = (self.counts.moved(), self.counts.sections);
        rounds::foreground(self, self.how)?;
        for sec in std::mem::take(&mut self.aside) {
            self.space.set_aside(sec, false);
        }
        if self.counts.sections != sections {
            self.counts.rounds += 1;
        }
        self.counts.stalled(self.counts.moved() - before);
        Ok(())
    }
}

/// Numbers of data blocks, nodes and directory blocks that fill the user space.
pub(crate) fn sizes(e: &Experiment) -> (usize, usize, usize) {
    let user = e.user_blocks();
    // Directories and indirect nodes.
    let spare = 8 + user / IN_NODE / IN_NODE;
    match e.shape {
        Shape::File { stride } => {
            // One node for 1018 positions of the file, of which one in `stride` holds a block.
            let most = (user - spare) * IN_NODE / (IN_NODE + stride) - 2;
            let data = e.file_blocks.unwrap_or(most).min(most);
            let nodes = 2 + (data * stride).saturating_sub(IN_INODE) / IN_NODE;
            (data as usize, nodes as usize, 0)
        }
        Shape::Small { blocks } => {
            let files = match blocks {
                4 => 100_000u64.min((user - spare) * 10 / 36),
                // Random lengths add up to more than their average at times.
                _ => (user - spare) * 9 / (blocks * 10 / 2 + 10),
            };
            ((files * blocks) as usize, files as usize + 1, directory::blocks(files) as usize)
        }
    }
}

impl Host for Model {
    type Error = Full;

    fn need(&self) -> Need {
        let dents = self.dirty_dents.len;
        // Each write changes the file's times, so its inode is always dirty.
        let nodes = self.dirty_nodes.len + dents + 1;
        let data = if self.count_data { self.dirty.len } else { 0 };
        let dirty = Dirty { nodes, dents, data };
        Need::of(dirty, self.e.blocks_per_zone.into(), self.space.log_room(), self.e.reserved.into())
    }
    fn reserve(&self) -> u64 {
        self.e.reserved.into()
    }
    fn free_sections(&self) -> u64 {
        self.space.free_sections()
    }
    fn prefree(&self) -> (u64, u64) {
        (self.space.prefree_segments(), self.space.prefree_sections())
    }
    fn checkpoint(&mut self) -> Result<(), Full> {
        self.write_checkpoint()
    }
    fn facts(&self) -> Facts {
        let all = self.node_place.len() as u64;
        let blocks = u64::from(self.e.zones) * u64::from(self.e.blocks_per_zone);
        Facts {
            now: self.space.now,
            nodes: all,
            spare: blocks.saturating_sub(self.space.valid_total),
            written: self.space.written,
            even: matches!(self.placement, Placement::Lifetimes) && self.space.is_even(),
        }
    }
    fn policy(&mut self) -> &mut dyn VictimPolicy {
        &mut *self.policy
    }
    fn policy_name(&self) -> &str {
        &self.policy_name
    }
    fn pick(&mut self, situation: Situation) -> Option<Victim> {
        self.policy.pick(&self.space.index, &situation)
    }
    fn migrate(&mut self, victim: Victim) -> Result<bool, Full> {
        self.clean(&[victim])?;
        Ok(self.space.sec_valid[victim.sec as usize] == 0)
    }
    fn migrate_batch(&mut self, victims: &[Victim]) -> Result<u64, Full> {
        self.clean(victims)?;
        Ok(victims.len() as u64)
    }
    fn section_blocks(&self) -> u64 {
        self.e.blocks_per_zone.into()
    }
    fn cost(&self, victim: Victim) -> u64 {
        self.space.sec_valid[victim.sec as usize].into()
    }
    fn set_aside(&mut self, victim: Victim) {
        self.aside.push(victim.sec);
        self.space.set_aside(victim.sec, true);
    }
}
