//! A zoned block device on an object store. docs/design/store.md describes its objects, and why it loses
//! nothing.
//!
//! A flush returns when one new object, the commit, is stored, after everything it refers to. Conditional
//! creation of commits keeps a second writer out.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod device;
mod error;
mod fence;
mod ids;
mod local;
mod log;
mod notice;
mod stats;
#[cfg(test)]
mod tests;
mod wire;

pub use device::status::{Ending, ended, is_held, probe};
pub use device::{About, Options, StoreDevice};
pub use error::{Result, StoreError};
pub use local::cache::CacheOptions;
pub use log::map::Geometry;
pub use log::recovery::export::SpooledCommits;
pub use notice::{Notice, Observer};
pub use stats::{Cause, Count, Stats};
pub use wire::host_files::HostFiles;
pub use wire::url::Url;
