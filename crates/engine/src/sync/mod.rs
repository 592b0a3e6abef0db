//! Locks, condition variables and atomics: `parking_lot` and the standard library in production. Under the feature
//! `loom` or `shuttle` they are the tool's own, so that it explores the code that ships.
//!
//! Counters that only steer policy or statistics use the standard library directly: they need no exploration.
#[cfg(any(feature = "loom", feature = "shuttle"))]
mod explored;

#[cfg(any(feature = "loom", feature = "shuttle"))]
pub use explored::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, atomic};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
pub use std::sync::atomic;
