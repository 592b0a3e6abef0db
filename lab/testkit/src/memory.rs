//! Memory that a thread holds, counted by the allocator of a test program: `#[global_allocator] static ALLOCATOR: Counting = Counting;`
#![allow(unsafe_code)]
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes allocated less those freed, and the largest value since [`watch`].
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, which counts.
pub struct Counting;

fn count(bytes: isize) {
    // A thread that ends has no counts any more.
    let _ended = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        let _ended = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call is passed to the system's allocator unchanged; the counts are cells without destructors, and do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the rules of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size().cast_signed());
        // SAFETY: the caller keeps the rules of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-layout.size().cast_signed());
        // SAFETY: the caller keeps the rules of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller keeps the rules of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// The memory of this thread from now on.
pub struct Watched {
    before: isize,
}

/// Begins to watch this thread. Without [`Counting`] nothing is counted.
pub fn watch() -> Watched {
    let before = HELD.get();
    PEAK.set(before);
    Watched { before }
}

impl Watched {
    /// Most bytes that were held at a time, beyond those at the beginning.
    #[must_use]
    pub fn peak(&self) -> usize {
        PEAK.get().saturating_sub(self.before).max(0).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: Counting = Counting;

    #[test]
    fn the_peak_is_that_of_this_thread_alone() {
        let watched = watch();
        drop(vec![0u8; 3 << 20]);
        let own = vec![0u8; 1 << 20];
        std::thread::spawn(|| drop(vec![0u8; 9 << 20])).join().unwrap();
        let peak = watched.peak();
        assert!((3 << 20..4 << 20).contains(&peak), "{peak}");
        drop(own);
    }
}
