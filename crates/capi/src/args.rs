//! Arguments from C, checked as far as they can be.
use crate::error::{EFAULT, EINVAL, ERANGE, Failure};
use std::ffi::{CStr, OsStr, c_char};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

fn null(what: &str) -> Failure {
    Failure::new(EFAULT, format!("the {what} is a null pointer"))
}

/// A string of the caller.
///
/// # Safety
/// It is null, or ends with a NUL and does not change during the call.
pub(crate) unsafe fn string<'a>(given: *const c_char, what: &str) -> Result<&'a OsStr, Failure> {
    if given.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and so a string, as the caller of this function guarantees.
    Ok(OsStr::from_bytes(unsafe { CStr::from_ptr(given) }.to_bytes()))
}

/// A string of the caller that is text, unless it is null.
///
/// # Safety
/// As [`string`].
pub(crate) unsafe fn text<'a>(given: *const c_char, what: &str) -> Result<Option<&'a str>, Failure> {
    if given.is_null() {
        return Ok(None);
    }
    // SAFETY: the requirements of this function.
    let text = unsafe { string(given, what) }?.to_str();
    text.map(Some).ok_or_else(|| Failure::new(EINVAL, format!("the {what} is not UTF-8")))
}

/// A path of the caller.
///
/// # Safety
/// As [`string`].
pub(crate) unsafe fn path<'a>(given: *const c_char) -> Result<&'a Path, Failure> {
    // SAFETY: the caller passes null, which is excluded, or a string.
    unsafe { string(given, "path") }.map(Path::new)
}

/// A path of the caller, unless it is null.
///
/// # Safety
/// As [`string`].
pub(crate) unsafe fn optional_path<'a>(given: *const c_char) -> Result<Option<&'a Path>, Failure> {
    // SAFETY: the caller passes null, which is excluded, or a string.
    if given.is_null() { Ok(None) } else { unsafe { path(given) }.map(Some) }
}

/// Paths of the caller, up to a null pointer; none if the pointer to them is null.
///
/// # Safety
/// It is null, or the last of the pointers that it leads to is null and the others are as for [`string`].
pub(crate) unsafe fn paths<'a>(given: *const *const c_char) -> Result<Vec<&'a Path>, Failure> {
    let mut all = Vec::new();
    if given.is_null() {
        return Ok(all);
    }
    loop {
        // SAFETY: none of the pointers before was null, so there is another.
        let next = unsafe { given.add(all.len()).read() };
        // SAFETY: the requirements of this function.
        match unsafe { optional_path(next) }? {
            Some(path) => all.push(path),
            None => return Ok(all),
        }
    }
}

/// A path of the caller to keep, unless it is null.
///
/// # Safety
/// As [`string`].
pub(crate) unsafe fn owned_path(given: *const c_char) -> Result<Option<PathBuf>, Failure> {
    // SAFETY: the requirements of this function.
    Ok(unsafe { optional_path(given) }?.map(Path::to_owned))
}

/// Paths of the caller to keep.
///
/// # Safety
/// As [`paths`].
pub(crate) unsafe fn owned_paths(given: *const *const c_char) -> Result<Vec<PathBuf>, Failure> {
    // SAFETY: the requirements of this function.
    Ok(unsafe { paths(given) }?.into_iter().map(Path::to_owned).collect())
}

/// The value at a pointer of the caller.
///
/// # Safety
/// It is null, or valid and not changed during the call.
pub(crate) unsafe fn shared<'a, T>(given: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: null or valid, as the caller of this function guarantees.
    unsafe { given.as_ref() }.ok_or_else(|| null(what))
}

/// Options of the caller, which begin with their size in a `u32`: that of `T` or of an earlier version, which
/// lacks the last fields. Missing fields are zeros. `None` if the pointer is null.
///
/// # Safety
/// It is null, or valid for the number of bytes in its first field. `T` consists of integers and pointers.
pub(crate) unsafe fn versioned<T: Copy>(
    given: *const T,
    name: &str,
    earlier: &[usize],
) -> Result<Option<T>, Failure> {
    if given.is_null() {
        return Ok(None);
    }
    // SAFETY: the first field exists in every version.
    let size = unsafe { given.cast::<u32>().read() } as usize;
    if size != size_of::<T>() && !earlier.contains(&size) {
        return Err(Failure::new(EINVAL, format!("{name}.size is {size}: no known version")));
    }
    let mut options = MaybeUninit::<T>::zeroed();
    let len = size.min(size_of::<T>());
    // SAFETY: the source has at least `len` bytes, from its size field, and the target holds `len` bytes.
    unsafe { given.cast::<u8>().copy_to_nonoverlapping(options.as_mut_ptr().cast(), len) };
    // SAFETY: zeros are a value of integers and pointers.
    Ok(Some(unsafe { options.assume_init() }))
}

/// Writes a result to the place that the caller named.
///
/// # Safety
/// It is null, or valid for writing; it need not be initialised.
pub(crate) unsafe fn put<T>(place: *mut T, value: T, what: &str) -> Result<(), Failure> {
    check_place(place, what)?;
    // SAFETY: not null, and so valid, as the caller of this function guarantees.
    unsafe { place.write(value) };
    Ok(())
}

/// Whether there is a place for a result.
pub(crate) fn check_place<T>(place: *mut T, what: &str) -> Result<(), Failure> {
    if place.is_null() { Err(null(what)) } else { Ok(()) }
}

/// Memory to read from.
///
/// # Safety
/// It is null, or has `len` bytes that are not changed during the call.
pub(crate) unsafe fn bytes<'a, T>(given: *const T, len: usize) -> Result<&'a [u8], Failure> {
    check_len(len)?;
    match (given.is_null(), len) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(null("buffer")),
        // SAFETY: not null, and so `len` bytes long, as the caller of this function guarantees.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts(given.cast(), len) }),
    }
}

/// Memory to write to.
///
/// # Safety
/// It is null, or has `len` bytes that are not used by others during the call.
pub(crate) unsafe fn bytes_mut<'a, T>(given: *mut T, len: usize) -> Result<&'a mut [u8], Failure> {
    check_len(len)?;
    match (given.is_null(), len) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(null("buffer")),
        // SAFETY: not null, and so `len` bytes long, as the caller of this function guarantees. Any byte is a
        // `u8`, and the caller's memory is initialised as far as Rust is concerned, since C passed it in.
        (false, len) => Ok(unsafe { std::slice::from_raw_parts_mut(given.cast(), len) }),
    }
}

fn check_len(len: usize) -> Result<(), Failure> {
    match isize::try_from(len) {
        Ok(_) => Ok(()),
        Err(_) => Err(Failure::new(EINVAL, "the buffer is larger than memory can be")),
    }
}

/// Copies bytes into the caller's buffer as getxattr(2): the result is their number; with `size` 0 nothing is copied; a buffer
/// that is too small is an error.
pub(crate) fn give(bytes: &[u8], into: &mut [u8]) -> Result<i64, Failure> {
    if !into.is_empty() {
        let place = into.get_mut(..bytes.len());
        let short = || Failure::new(ERANGE, format!("the buffer is too small for {} bytes", bytes.len()));
        place.ok_or_else(short)?.copy_from_slice(bytes);
    }
    Ok(bytes.len() as i64)
}
