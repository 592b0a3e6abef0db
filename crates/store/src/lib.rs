//! A zoned block device on an object store. docs/design/store.md describes its objects, and why it loses
//! nothing.
//!
//! A flush returns when one new object, the commit, is stored, after everything it refers to. Conditional
//! creation of commits keeps a second writer out.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod ahead;
mod answer;
mod answer_body;
mod backing;
mod cache;
mod cachedir;
mod claim;
mod commit;
mod compact;
mod core;
mod credentials;
mod device;
mod disk;
mod endpoint;
mod error;
mod extents;
mod garbage;
mod holder;
mod keeper;
mod left;
mod local;
mod map;
mod memory;
mod merge;
mod names;
mod notice;
mod pieces;
mod private_dir;
mod profile;
mod queue;
mod reader;
mod records;
mod recover;
mod remote;
mod shelf;
mod stage;
mod state;
mod stats;
mod surroundings;
mod tail;
#[cfg(test)]
mod tests;
mod transport;
mod url;
mod wire;

pub use device::{About, Options, StoreDevice};
pub use error::{Result, StoreError};
pub use holder::{Ending, ended, is_held, probe};
pub use left::Left;
pub use local::CacheOptions;
pub use map::Geometry;
pub use notice::{Notice, Observer};
pub use stats::{Cause, Count, Stats};
pub use surroundings::Surroundings;
pub use url::Url;
