//! The journal in front of checkpoints: see docs/design/journal.md.
mod commit;
mod epochs;
mod fields;
mod log;
mod open;
mod recorder;
mod replay;
mod state;
mod turns;

pub(crate) use epochs::Epochs;
pub(crate) use fields::unpack_rdev;
pub(crate) use log::{Mapped, Target};
pub(crate) use open::Found;
pub(crate) use recorder::Recorder;
pub(crate) use state::{Commits, Log};
