//! The checker against volumes made by f2fs-tools: clean ones stay clean, damage is found and named.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

mod ahead;
mod clean;
mod damage;
mod damage_quota;
mod edit;
mod hostile;
mod image;
mod legal;
mod unsupported;

/// What else is done with each damaged volume of the table: the tests of crate `repair` repair it.
fn afterwards(name: &str, damaged: &segno_device::MemDevice) -> String {
    ahead::compare(name, damaged)
}
