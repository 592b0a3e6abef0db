//! The mounted journal: epochs, commits, and its relation to checkpoints.
mod epoch;
mod mounted;
mod open;
mod queue;

pub use mounted::{Commits, MountedJournal};
pub use open::Found;
