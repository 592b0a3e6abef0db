//! A share of the tests of `segno crashtest`.
#![allow(clippy::unwrap_used, clippy::panic)]
mod share;
