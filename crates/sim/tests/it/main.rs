//! A share of what `segno crashtest` tries.
#![allow(clippy::unwrap_used, clippy::panic)]
#[cfg(feature = "planted-bugs")]
mod planted;
mod share;
