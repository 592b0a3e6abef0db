//! Repairs of volumes made by mkfs.f2fs and sload.f2fs: each damage of the checker's tests, and its results.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

mod cuts;
#[path = "../../../check/tests/it/damage.rs"]
mod damage;
#[path = "../../../check/tests/it/damage_quota.rs"]
mod damage_quota;
#[path = "../../../check/tests/it/edit.rs"]
#[allow(dead_code, reason = "shared with the tests of the checker")]
mod edit;
#[path = "../../../check/tests/it/image.rs"]
#[allow(dead_code, reason = "shared with the tests of the checker")]
mod image;
mod lost;
mod outcome;
mod refused;
mod rig;

/// Repairs a damaged volume of the table: then the checker finds nothing, and fsck.f2fs neither.
fn afterwards(name: &str, damaged: &segno_device::MemDevice) -> String {
    rig::repaired_or_refused(name, damaged)
}
