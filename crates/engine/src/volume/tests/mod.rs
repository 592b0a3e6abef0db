//! Volume tests with access to internals.
mod access;
mod after_read;
mod ages;
mod chain;
mod compress;
mod discards;
mod invariants;
mod large;
mod lifetime;
mod nat;
mod node_write;
mod promises;
mod references;
mod rig;
mod rounds;
mod share;
mod tree;
