//! The operations: each is admitted, performed by its subsystem, and committed if required.
mod compress;
mod control;
mod copy;
mod data;
mod inodes;
mod names;
mod visit;
