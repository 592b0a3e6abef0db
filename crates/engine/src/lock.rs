//! Locks with ranks. In debug builds taking a lock of a lower rank than one already held panics, so the first test
//! that takes a wrong order finds it, without the need for an actual deadlock.
//!
//! ARCHITECTURE.md lists the ranks, and the data that each lock guards.
use std::ops::{Deref, DerefMut};

/// Ranks, outermost first.
pub mod rank {
    pub const CLEANER: u8 = 1;
    pub const CHECKPOINT: u8 = 2;
    pub const COMMIT: u8 = 3;
    pub const RENAME: u8 = 4;
    /// Several may be held, in ascending ino order.
    pub const INODE: u8 = 5;
    /// Several may be held, in ascending ino order.
    pub const FLUSH: u8 = 7;
    pub const GATE: u8 = 8;
    pub const CHAIN: u8 = 9;
    pub const PAGES: u8 = 10;
    /// Several may be held, parent node first.
    pub const FRAME: u8 = 11;
    pub const INODE_CACHE: u8 = 12;
    pub const NODE_CACHE: u8 = 13;
    pub const DIRTY_NODES: u8 = 14;
    pub const NAT: u8 = 15;
    pub const LOG: u8 = 16;
    pub const SIT: u8 = 17;
    pub const SEGMENT: u8 = 18;
    pub const META: u8 = 19;
    pub const LEAF: u8 = 20;
}

/// Ranks of which a thread may hold several locks.
#[cfg(all(debug_assertions, not(any(feature = "loom", feature = "shuttle"))))]
const SHARED: [u8; 3] = [rank::INODE, rank::FLUSH, rank::FRAME];

#[cfg(all(debug_assertions, not(any(feature = "loom", feature = "shuttle"))))]
thread_local! {
    static HELD: std::cell::RefCell<Vec<u8>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[cfg(all(debug_assertions, not(any(feature = "loom", feature = "shuttle"))))]
fn enter(rank: u8) {
    HELD.with_borrow_mut(|held| {
        if let Some(&top) = held.iter().max() {
            let fine = rank > top || (rank == top && SHARED.contains(&rank));
            assert!(fine, "lock of rank {rank} taken while rank {top} is held ({held:?})");
        }
        held.push(rank);
    });
}

#[cfg(all(debug_assertions, not(any(feature = "loom", feature = "shuttle"))))]
fn leave(rank: u8) {
    HELD.with_borrow_mut(|held| {
        if let Some(i) = held.iter().rposition(|&r| r == rank) {
            held.remove(i);
        }
    });
}

#[cfg(any(not(debug_assertions), feature = "loom", feature = "shuttle"))]
fn enter(_rank: u8) {}
#[cfg(any(not(debug_assertions), feature = "loom", feature = "shuttle"))]
fn leave(_rank: u8) {}

/// A guard that releases its rank on drop.
#[derive(Debug)]
pub struct Ranked<G, const R: u8>(G);

impl<G, const R: u8> Drop for Ranked<G, R> {
    fn drop(&mut self) {
        leave(R);
    }
}
impl<G: Deref, const R: u8> Deref for Ranked<G, R> {
    type Target = G::Target;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
impl<G: DerefMut, const R: u8> DerefMut for Ranked<G, R> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// A mutex of rank `R`.
#[derive(Debug, Default)]
pub struct Mutex<T, const R: u8>(crate::sync::Mutex<T>);
/// Guard of [`Mutex`].
pub type MutexGuard<'a, T, const R: u8> = Ranked<crate::sync::MutexGuard<'a, T>, R>;

impl<T, const R: u8> Mutex<T, R> {
    pub fn new(v: T) -> Self {
        Self(crate::sync::Mutex::new(v))
    }
    pub fn lock(&self) -> MutexGuard<'_, T, R> {
        enter(R);
        Ranked(self.0.lock())
    }
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, R>> {
        let g = self.0.try_lock()?;
        enter(R);
        Some(Ranked(g))
    }
}

/// A reader-writer lock of rank `R`.
#[derive(Debug, Default)]
pub struct RwLock<T, const R: u8>(crate::sync::RwLock<T>);
/// Shared guard of [`RwLock`].
pub type ReadGuard<'a, T, const R: u8> = Ranked<crate::sync::RwLockReadGuard<'a, T>, R>;
/// Exclusive guard of [`RwLock`].
pub type WriteGuard<'a, T, const R: u8> = Ranked<crate::sync::RwLockWriteGuard<'a, T>, R>;

impl<T, const R: u8> RwLock<T, R> {
    pub fn new(v: T) -> Self {
        Self(crate::sync::RwLock::new(v))
    }
    pub fn read(&self) -> ReadGuard<'_, T, R> {
        enter(R);
        Ranked(self.0.read())
    }
    pub fn write(&self) -> WriteGuard<'_, T, R> {
        enter(R);
        Ranked(self.0.write())
    }
    pub fn try_write(&self) -> Option<WriteGuard<'_, T, R>> {
        let g = self.0.try_write()?;
        enter(R);
        Some(Ranked(g))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "lock of rank 4 taken while rank 6 is held")]
    fn falling_rank_is_found() {
        let (inode, gate) = (Mutex::<(), 4>::new(()), Mutex::<(), 6>::new(()));
        let _g = gate.lock();
        let _i = inode.lock();
    }

    #[test]
    fn ranks_are_released() {
        let (inode, gate) = (Mutex::<(), 4>::new(()), Mutex::<(), 6>::new(()));
        drop(gate.lock());
        let _i = inode.lock();
        let _g = gate.lock();
    }
}
