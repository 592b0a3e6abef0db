//! The checkpoint's counters, and the rule that decides ENOSPC.
use crate::error::{Error, Result};
use crate::lock::{Mutex, rank};
use crate::sync::atomic::{AtomicBool, Ordering};
use segno_format::checkpoint::RawCheckpoint;

/// Blocks, nodes and inodes in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    pub valid_blocks: u64,
    pub valid_nodes: u32,
    pub valid_inodes: u32,
    /// Blocks valid in the last checkpoint, and those reserved since, whatever was given back meanwhile: roll-forward
    /// adds blocks before it frees others.
    pub roll_forward: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Counts {
    pub user_blocks: u64,
    /// Replay makes things in another order than they were made in, and so may pass the limit on its way.
    unlimited: AtomicBool,
    max_nodes: u32,
    values: Mutex<Values, { rank::LEAF }>,
}

impl Counts {
    pub fn of(cp: &RawCheckpoint, max_nid: u32) -> Self {
        Self {
            user_blocks: cp.user_block_count.get(),
            unlimited: AtomicBool::new(false),
            max_nodes: max_nid.saturating_sub(3),
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
    /// A checkpoint takes everything so far.
    pub fn committed(&self) {
        let mut v = self.values.lock();
        v.roll_forward = v.valid_blocks;
    }
    /// Whether replaying everything since the last checkpoint would stay within the volume.
    pub fn room_to_roll_forward(&self) -> bool {
        self.values().roll_forward <= self.user_blocks
    }
    /// Nodes that can still be made, whatever the blocks allow.
    pub fn nodes_left(&self) -> u32 {
        self.max_nodes.saturating_sub(self.values().valid_nodes)
    }
    /// Whether reserving may pass what users may have.
    pub fn lift_limit(&self, lift: bool) {
        self.unlimited.store(lift, Ordering::Release);
    }
    fn limit(&self) -> u64 {
        if self.unlimited.load(Ordering::Acquire) { u64::MAX } else { self.user_blocks }
    }
    /// Reserves data blocks; all or nothing.
    pub fn reserve_blocks(&self, n: u64) -> Result<()> {
        let mut v = self.values.lock();
        if v.valid_blocks + n > self.limit() {
            return Err(Error::NoSpace);
        }
        v.valid_blocks += n;
        v.roll_forward = v.roll_forward.saturating_add(n);
        Ok(())
    }
    /// Reserves as many of `n` data blocks as there is room for; returns how many.
    pub fn reserve_up_to(&self, n: u64) -> u64 {
        let mut v = self.values.lock();
        let got = n.min(self.limit().saturating_sub(v.valid_blocks));
        v.valid_blocks += got;
        v.roll_forward = v.roll_forward.saturating_add(got);
        got
    }
    /// Gives data blocks back.
    pub fn release_blocks(&self, n: u64) {
        let mut v = self.values.lock();
        v.valid_blocks = v.valid_blocks.saturating_sub(n);
    }
    /// Reserves one node block.
    pub fn reserve_node(&self, is_inode: bool) -> Result<()> {
        let mut v = self.values.lock();
        if v.valid_blocks + 1 > self.limit() || v.valid_nodes >= self.max_nodes {
            return Err(Error::NoSpace);
        }
        v.valid_blocks += 1;
        v.roll_forward = v.roll_forward.saturating_add(1);
        v.valid_nodes += 1;
        // Nothing at mount says how many inodes there are, so the number on disk may be any.
        if is_inode {
            v.valid_inodes = v.valid_inodes.saturating_add(1);
        }
        Ok(())
    }
    /// Gives a node block back.
    pub fn release_node(&self, is_inode: bool) {
        let mut v = self.values.lock();
        v.valid_blocks = v.valid_blocks.saturating_sub(1);
        v.valid_nodes = v.valid_nodes.saturating_sub(1);
        if is_inode {
            v.valid_inodes = v.valid_inodes.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn any_number_of_inodes_on_disk_is_counted_on() {
        let mut cp = RawCheckpoint::new_zeroed();
        cp.user_block_count.set(10);
        cp.valid_inode_count.set(u32::MAX);
        let counts = Counts::of(&cp, 100);
        counts.reserve_node(true).unwrap();
        counts.release_node(true);
        assert_eq!(counts.values().valid_nodes, 0);
    }
}
