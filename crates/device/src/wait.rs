//! A hook that runs before a thread blocks on a device.
use std::cell::Cell;

thread_local! {
    static BEFORE: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Sets the function that this thread calls each time before it blocks on a file or block device; `None` removes it.
pub fn before_waits(f: Option<fn()>) {
    BEFORE.set(f);
}

pub(crate) fn begins() {
    if let Some(f) = BEFORE.get() {
        f();
    }
}
