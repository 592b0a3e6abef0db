//! A share of what `segno crashtest` tries.
#![allow(clippy::unwrap_used, clippy::panic)]
mod share;
