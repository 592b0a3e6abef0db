//! The engine under simulation: against a model file system, through power cuts, with a failing device.
//!
//! Everything is a function of a seed. [`compare`] runs operation sequences on the engine and on [`model`] and demands
//! equal results. [`crash`] records what the engine writes, builds the devices that power cuts would leave, and judges
//! what recovery makes of them. [`fault`] fails one device call after the other. [`hostile`] damages volumes.
//! `schedule`, with the feature `shuttle`, has several threads meet.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

pub mod capture;
pub mod compare;
pub mod crash;
pub mod fault;
pub mod fs;
pub mod hostile;
pub mod model;
pub mod mounted;
pub mod op;
pub mod quiet;
pub mod rng;
#[cfg(feature = "shuttle")]
pub mod schedule;
pub mod setup;
pub mod suite;
mod zones;
