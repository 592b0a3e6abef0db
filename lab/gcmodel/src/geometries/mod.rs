//! Space accounting on random geometries: on a volume that `segno_clean::guard` guards, no write runs out of
//! sections, and a quantum of writeback with the checkpoint that follows it fits at every step.
mod draw;
mod drive;
mod planted_bug;
mod watch;

pub use draw::{Case, Pattern};
pub use drive::Totals;
pub use planted_bug::PlantedBug;
