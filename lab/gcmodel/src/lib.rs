//! A model of a zoned volume in block counts: owner, validity and dirty state of each block, without contents
//! or time. Policies and the victim index are those of the engine (`segno-clean`), so a policy can be
//! measured at full scale in minutes. The foreground rounds are replicas of Linux's, or batches ([`rounds`]).
//! `docs/design/cleaning.md` lists what the model leaves out.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod counters;
mod directory;
mod experiment;
pub mod geometries;
mod journal;
mod log;
mod migrate;
pub mod oracle;
mod pace;
mod placement;
pub mod rounds;
mod run;
mod source;
mod space;
mod verify;
mod volume;
mod waits;
mod workload;

pub use counters::{Counters, Kind};
pub use experiment::{Experiment, Shape, Workload};
pub use placement::PER_SECOND;
pub use run::{Outcome, Setting, run};
pub use source::{Op, Source};
pub use volume::{Bits, Full, Model};
pub use waits::{Costs, Waits, WriteWaits};
pub use workload::LAYOUT_DIRTY;
