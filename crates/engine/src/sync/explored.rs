//! Wraps the exploration tool's types in the subset of the `parking_lot` API that the engine uses.
#[cfg(feature = "loom")]
use loom::sync as tool;
#[cfg(not(feature = "loom"))]
use shuttle::sync as tool;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

pub use tool::atomic;
pub use tool::{RwLockReadGuard, RwLockWriteGuard};

/// See `parking_lot::Mutex`.
#[derive(Debug, Default)]
pub struct Mutex<T>(tool::Mutex<T>);
/// `None` only while a condition variable holds the guard.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<tool::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    pub fn new(v: T) -> Self {
        Self(tool::Mutex::new(v))
    }
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok().map(|g| MutexGuard(Some(g)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &self.0 {
            Some(guard) => guard,
            None => unreachable!("the guard is back when wait returns"),
        }
    }
}
impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.0 {
            Some(guard) => guard,
            None => unreachable!("the guard is back when wait returns"),
        }
    }
}

/// See `parking_lot::RwLock`.
#[derive(Debug, Default)]
pub struct RwLock<T>(tool::RwLock<T>);

impl<T> RwLock<T> {
    pub fn new(v: T) -> Self {
        Self(tool::RwLock::new(v))
    }
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write().ok()
    }
}

/// See `parking_lot::Condvar`.
#[derive(Debug, Default)]
pub struct Condvar(tool::Condvar);

impl Condvar {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(inner) = guard.0.take() {
            guard.0 = Some(self.0.wait(inner).unwrap_or_else(PoisonError::into_inner));
        }
    }
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) {
        if let Some(inner) = guard.0.take() {
            let (inner, _) = self.0.wait_timeout(inner, timeout).unwrap_or_else(PoisonError::into_inner);
            guard.0 = Some(inner);
        }
    }
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
