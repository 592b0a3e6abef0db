//! Results: 0 or more if done, else the negative errno, with a message for the thread.
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

pub(crate) const EFAULT: i32 = 14;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ERANGE: i32 = 34;
pub(crate) const ENODATA: i32 = 61;

/// Why a call failed.
pub(crate) struct Failure {
    errno: i32,
    message: String,
}

impl Failure {
    pub(crate) fn new(errno: i32, message: impl Into<String>) -> Self {
        Self { errno, message: message.into() }
    }
}

impl From<segno::Error> for Failure {
    fn from(e: segno::Error) -> Self {
        Self::new(e.errno(), e.to_string())
    }
}

/// A message for C.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default()
}

/// Runs a call, and keeps the message of a failure.
pub(crate) fn call(f: impl FnOnce() -> Result<i64, Failure>) -> i64 {
    f().unwrap_or_else(|Failure { errno, message }| {
        LAST.set(c_text(&message));
        -i64::from(errno)
    })
}

/// Runs a call whose result is a small number.
pub(crate) fn number(f: impl FnOnce() -> Result<c_int, Failure>) -> c_int {
    // That or a negative errno value.
    call(|| f().map(i64::from)) as c_int
}

/// Runs a call without a result.
pub(crate) fn done(f: impl FnOnce() -> Result<(), Failure>) -> c_int {
    number(|| f().map(|()| 0))
}

/// The message of the last call of this thread that failed: the action, the path, and the reason. It is valid
/// until the next call that fails, and empty if no call failed.
#[unsafe(no_mangle)]
pub extern "C" fn segno_last_error() -> *const c_char {
    LAST.with_borrow(|message| message.as_ptr())
}
