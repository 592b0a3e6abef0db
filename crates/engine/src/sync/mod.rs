//! Locks, condition variables and atomics. `parking_lot` and the standard library in the product; under the feature
//! `loom` or `shuttle` those of the tool that tries schedules, so that what it explores is the code that ships.
//!
//! Counters that only steer policy or statistics stay with the standard library: they decide nothing worth a schedule.
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod explored;

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use explored::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use std::sync::atomic;
