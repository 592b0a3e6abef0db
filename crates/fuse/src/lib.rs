//! FUSE front end: the only crate that knows FUSE. It translates requests into calls of the engine and back, and decides
//! nothing that the engine could decide.
#![forbid(unsafe_code)]

mod attr;
mod control;
mod fs;
mod ioctl;
mod session;

pub use control::{EXTENTS_XATTR, STATS_XATTR};
pub use session::{FuseOptions, serve};
