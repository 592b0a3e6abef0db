//! Blocks in memory: in caches, and on their way to the device.
use segno_format::Block;
use std::sync::Arc;

/// A block that a cache shares with the I/O that reads it. [`Arc::make_mut`] changes a shared one in a copy.
///
/// The bytes are an allocation of exactly 4096 bytes: with the reference count in front of them, an allocator with size
/// classes would need 5120.
pub type SharedBlock = Arc<Box<Block>>;

pub fn shared(block: Block) -> SharedBlock {
    Arc::new(Box::new(block))
}
