//! What a thread does before it waits for a device.
use std::cell::Cell;

thread_local! {
    static BEFORE: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// From now on this thread calls `f` each time before a file or block device makes it wait, or nothing.
pub fn before_waits(f: Option<fn()>) {
    BEFORE.set(f);
}

pub(crate) fn begins() {
    if let Some(f) = BEFORE.get() {
        f();
    }
}
