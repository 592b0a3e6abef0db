//! Simulation of the engine: comparison with a model file system, power cuts, device faults.
//!
//! Every run is a function of a seed. [`compare`] runs operation sequences on the engine and on [`model`] and requires equal
//! results. [`crash`] records what the engine writes, builds the device states that power cuts can leave, recovers and checks
//! them. [`fault`] fails device calls one by one. [`hostile`] damages volumes. `schedule`, with the feature `shuttle`, explores
//! schedules of several threads.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod behind;
pub mod capture;
pub mod compare;
pub mod crash;
mod devices;
pub mod fault;
pub mod fs;
pub mod guarded;
pub mod hostile;
pub mod model;
pub mod mounted;
pub mod notices;
pub mod op;
mod page_cache;
pub mod recovery;
#[cfg(feature = "shuttle")]
pub mod schedule;
pub mod setup;
pub mod stored;
pub mod suite;
mod zones;
