//! Node blocks: cached frames, their dirty registry by owner, and writing them.
mod cache;
mod dirty;
mod frame;
mod free;
mod global;
mod write;

pub use cache::{NodeCache, NodeTables};
pub use dirty::{DirtyNodes, FrozenNodes};
pub use frame::{NodeFrame, State};
pub use write::{Marks, NodeWrite};
