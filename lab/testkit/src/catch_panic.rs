//! Turns panics into errors.
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static WHERE: Cell<Option<String>> = const { Cell::new(None) };
}

/// Runs `f`. A panic in it becomes an error with its location, and nothing is printed.
pub fn caught<T>(f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let other = take_hook();
        set_hook(Box::new(move |info| {
            if INSIDE.get() {
                WHERE.set(Some(info.to_string().replace('\n', ": ")));
            } else {
                other(info);
            }
        }));
    });
    let outer = INSIDE.replace(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    INSIDE.set(outer);
    result.unwrap_or_else(|_| Err(WHERE.take().unwrap_or_else(|| "panicked".into())))
}
