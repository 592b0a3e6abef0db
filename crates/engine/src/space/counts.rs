//! Counters of the checkpoint, and the ENOSPC decision. They are exact: all change under one lock.
use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use segno_format::checkpoint::RawCheckpoint;
use segno_format::{Corrupt, Structure};

/// Blocks, nodes and inodes in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    pub valid_blocks: u64,
    pub valid_nodes: u32,
    pub valid_inodes: u32,
    /// Blocks valid in the last checkpoint plus all reserved since, regardless of releases: roll-forward adds blocks
    /// before it frees others.
    pub roll_forward: u64,
}

/// Counters with their lock, and the limits.
#[derive(Debug)]
pub struct Counts {
    pub user_blocks: u64,
    /// Replay creates objects in another order than the original one, so it may exceed the limit for a while.
    unlimited: AtomicBool,
    /// Nodes that may exist.
    node_limit: AtomicU32,
    values: Mutex<Values, { rank::LEAF }>,
}

impl Counts {
    pub fn of(cp: &RawCheckpoint, max_nid: u32) -> Self {
        Self {
            user_blocks: cp.user_block_count.get(),
            unlimited: AtomicBool::new(false),
            node_limit: AtomicU32::new(max_nid.saturating_sub(3)),
            values: Mutex::new(Values {
                valid_blocks: cp.valid_block_count.get(),
                valid_nodes: cp.valid_node_count.get(),
                valid_inodes: cp.valid_inode_count.get(),
                roll_forward: cp.valid_block_count.get(),
            }),
        }
    }
    pub fn values(&self) -> Values {
        *self.values.lock()
    }
    /// A checkpoint includes all changes so far.
    pub fn committed(&self) {
        let mut v = self.values.lock();
        v.roll_forward = v.valid_blocks;
    }
    /// Whether replaying everything since the last checkpoint fits the volume.
    pub fn room_to_roll_forward(&self) -> bool {
        self.values().roll_forward <= self.user_blocks
    }
    /// Nodes that can still be created, regardless of free blocks.
    pub fn nodes_left(&self) -> u32 {
        self.node_limit().saturating_sub(self.values().valid_nodes)
    }
    /// Refuses nodes beyond this number. Those that exist stay, however many they are.
    pub fn limit_nodes(&self, most: u64) {
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        self.node_limit.store(self.node_limit().min(most), Ordering::Release);
    }
    /// Nodes that may exist.
    pub fn node_limit(&self) -> u32 {
        self.node_limit.load(Ordering::Acquire)
    }
    /// Sets whether reservations may exceed the space available to users.
    pub fn lift_limit(&self, lift: bool) {
        self.unlimited.store(lift, Ordering::Release);
    }
    fn limit(&self) -> u64 {
        if self.unlimited.load(Ordering::Acquire) { u64::MAX } else { self.user_blocks }
    }
    /// Reserves `n` data blocks or none.
    pub fn reserve_blocks(&self, n: u64) -> Result<()> {
        let mut v = self.values.lock();
        if v.valid_blocks + n > self.limit() {
            return Err(Error::NoSpace);
        }
        v.valid_blocks += n;
        v.roll_forward = v.roll_forward.saturating_add(n);
        Ok(())
    }
    /// Reserves up to `n` data blocks; returns how many.
    pub fn reserve_up_to(&self, n: u64) -> u64 {
        let mut v = self.values.lock();
        let got = n.min(self.limit().saturating_sub(v.valid_blocks));
        v.valid_blocks += got;
        v.roll_forward = v.roll_forward.saturating_add(got);
        got
    }
    /// Releases data blocks.
    pub fn release_blocks(&self, n: u64) -> Result<()> {
        let mut v = self.values.lock();
        v.valid_blocks = subtract("valid_block_count", v.valid_blocks, n)?;
        Ok(())
    }
    /// Reserves one node block.
    pub fn reserve_node(&self, is_inode: bool) -> Result<()> {
        let mut v = self.values.lock();
        if v.valid_blocks + 1 > self.limit() || v.valid_nodes >= self.node_limit() {
            return Err(Error::NoSpace);
        }
        v.valid_blocks += 1;
        v.roll_forward = v.roll_forward.saturating_add(1);
        v.valid_nodes += 1;
        // Mount does not verify the number of inodes, so the one on disk may be any.
        if is_inode {
            v.valid_inodes = v.valid_inodes.saturating_add(1);
        }
        Ok(())
    }
    /// Releases a node block.
    pub fn release_node(&self, is_inode: bool) -> Result<()> {
        let mut v = self.values.lock();
        let blocks = subtract("valid_block_count", v.valid_blocks, 1)?;
        v.valid_nodes = subtract("valid_node_count", v.valid_nodes.into(), 1)? as u32;
        v.valid_blocks = blocks;
        // Mount does not verify the number of inodes.
        if is_inode {
            v.valid_inodes = v.valid_inodes.saturating_sub(1);
        }
        Ok(())
    }
}

/// The counts come from the checkpoint and may be too low.
fn subtract(what: &'static str, count: u64, n: u64) -> Result<u64> {
    count.checked_sub(n).ok_or_else(|| Corrupt::block(Structure::Checkpoint, 0, what, count, n).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn any_number_of_inodes_on_disk_is_accepted() {
        let mut cp = RawCheckpoint::new_zeroed();
        cp.user_block_count.set(10);
        cp.valid_inode_count.set(u32::MAX);
        let counts = Counts::of(&cp, 100);
        counts.reserve_node(true).unwrap();
        counts.release_node(true).unwrap();
        assert_eq!(counts.values().valid_nodes, 0);
    }

    #[test]
    fn nodes_beyond_a_limit_are_refused_and_those_that_exist_stay() {
        let mut cp = RawCheckpoint::new_zeroed();
        cp.user_block_count.set(100);
        cp.valid_block_count.set(9);
        cp.valid_node_count.set(5);
        let counts = Counts::of(&cp, 100);
        counts.limit_nodes(4);
        assert_eq!((counts.node_limit(), counts.nodes_left()), (4, 0));
        assert!(matches!(counts.reserve_node(false), Err(Error::NoSpace)));
        counts.reserve_blocks(1).unwrap();
        counts.release_node(false).unwrap();
        assert!(matches!(counts.reserve_node(false), Err(Error::NoSpace)));
        counts.release_node(false).unwrap();
        counts.reserve_node(false).unwrap();
        counts.limit_nodes(u64::MAX);
        assert_eq!(counts.node_limit(), 4);
    }

    #[test]
    fn releasing_more_than_is_in_use_is_damage() {
        let cp = RawCheckpoint::new_zeroed();
        let counts = Counts::of(&cp, 100);
        assert!(matches!(counts.release_blocks(1), Err(Error::Corrupt(_))));
        assert!(matches!(counts.release_node(false), Err(Error::Corrupt(_))));
        assert_eq!(counts.values().valid_blocks, 0);
    }
}
