//! The library `segno` for C. include/segno.h is made from these sources; its introduction has the rules for callers.
//!
//! Handles are pointers from `Box::into_raw`, given back by the function that closes them. Work runs inside
//! [`segno::Volume::catch_panic`], so that a bug becomes `-EIO`, and the volume stops.
#![warn(unreachable_pub, clippy::indexing_slicing)]
#![allow(non_camel_case_types, reason = "the names of C")]
#![allow(clippy::missing_safety_doc, reason = "segno.h states the rules for callers, once")]

mod args;
mod attrs;
mod checker;
mod dir;
mod error;
mod file;
mod formatting;
mod image;
mod names;
mod storage;
mod volume;
mod xattr;

pub use attrs::*;
pub use checker::*;
pub use dir::*;
pub use error::segno_last_error;
pub use file::*;
pub use formatting::*;
pub use image::*;
pub use names::*;
pub use volume::*;
pub use xattr::*;
