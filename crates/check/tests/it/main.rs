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

/// A further check of each damaged volume of the table. The tests of crate `repair` repair the volume
/// instead.
fn afterwards(name: &str, damaged: &segno_device::MemDevice) -> String {
    ahead::compare(name, damaged)
}
