//! The space of a volume by its last checkpoint.
use segno_format::BLOCK_SIZE;
use segno_format::checkpoint::RawCheckpoint;
use segno_format::superblock::Superblock;

/// Bytes of the volume.
pub struct Usage {
    pub device: u64,
    /// Blocks available to users.
    pub user: u64,
    pub used: u64,
}

impl Usage {
    pub fn of(sb: &Superblock, cp: &RawCheckpoint) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(BLOCK_SIZE as u64);
        Self {
            device: bytes(sb.geo.block_count),
            user: bytes(cp.user_block_count.get()),
            used: bytes(cp.valid_block_count.get()),
        }
    }

    pub fn percent(&self) -> u64 {
        self.used.saturating_mul(100).checked_div(self.user).unwrap_or(0)
    }
}
