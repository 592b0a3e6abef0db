//! A model of a zoned volume in block counts: owner and validity of each block, and what is dirty, without contents or
//! time. Policies and the victim index are those of the engine (`segno-clean`), so a policy can be measured at full scale in
//! minutes. The foreground rounds are replicas of Linux's, or batches ([`rounds`]). `docs/design/cleaning.md`
//! lists what the model leaves out.
#![forbid(unsafe_code)]

mod counters;
mod experiment;
mod journal;
mod log;
mod migrate;
pub mod oracle;
mod placement;
mod pace;
pub mod rounds;
mod run;
mod space;
mod verify;
mod volume;
mod workload;

pub use counters::{Counters, Kind};
pub use experiment::{Experiment, Shape, Workload};
pub use run::{Outcome, Setting, run};
pub use volume::{Full, Model};
