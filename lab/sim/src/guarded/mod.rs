//! Space accounting on random geometries: full volumes within their guaranteed number of nodes are overwritten, cut and
//! recovered. No write may run out of space, and the checkpoint must fit at every step.
pub mod busy;
mod device;
mod draw;
mod drive;
mod files;
mod pages;
mod pauses;
mod room;
mod write_observer;

pub use device::{Geometry, judge};
pub use draw::{Case, Pattern};
pub use drive::{Totals, run};
