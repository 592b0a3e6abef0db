//! A zoned volume reduced to counts: which block belongs to what, how many are valid where, what is dirty. No bytes, no
//! time. Policies, the order of a round and the victim index are the engine's own (`segno-clean`), so a policy can be
//! measured at full scale in minutes. What it leaves out is said in `docs/design/cleaning.md`.
#![forbid(unsafe_code)]

mod counters;
mod experiment;
mod journal;
mod log;
mod migrate;
mod rng;
mod run;
mod space;
mod verify;
mod volume;
mod workload;

pub use counters::{Counters, Kind};
pub use experiment::{Experiment, Shape, Workload};
pub use run::{Outcome, Setting, run};
pub use volume::{Full, Model};
