//! Extended attributes. A symbolic link at the end of a path is not followed.
use crate::args::{bytes, bytes_mut, give, string};
use crate::error::{ENODATA, Failure, call, done};
use crate::volume::{on, segno_volume};
use std::ffi::{c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

/// Reads an extended attribute; the result is its length. With `size` 0 nothing is copied; a buffer that is too small is an
/// error (`-ERANGE`). This and the next three functions do not follow a symbolic link at the end of a path.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_getxattr(
    volume: *mut segno_volume,
    name: *const c_char,
    attribute: *const c_char,
    value: *mut c_void,
    size: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's promise of segno.h.
        let (attribute, into) = unsafe { (string(attribute, "attribute")?, bytes_mut(value, size)?) };
        // SAFETY: as above.
        let found = unsafe { on(volume, name, |v, name| v.xattr(name, attribute)) }?;
        give(&found.ok_or_else(|| Failure::new(ENODATA, "there is no such extended attribute"))?, into)
    })
}

/// The names of all extended attributes, each followed by a NUL; the result is their length. `size` as for
/// `segno_getxattr`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_listxattr(
    volume: *mut segno_volume,
    name: *const c_char,
    names: *mut c_char,
    size: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's promise of segno.h.
        let (found, into) =
            unsafe { (on(volume, name, |v, name| v.list_xattrs(name))?, bytes_mut(names, size)?) };
        let mut list = Vec::new();
        for attribute in found {
            list.extend_from_slice(attribute.as_bytes());
            list.push(0);
        }
        give(&list, into)
    })
}

/// Sets an extended attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_setxattr(
    volume: *mut segno_volume,
    name: *const c_char,
    attribute: *const c_char,
    value: *const c_void,
    size: usize,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise of segno.h.
        let (attribute, value) = unsafe { (string(attribute, "attribute")?, bytes(value, size)?) };
        // SAFETY: as above.
        unsafe { on(volume, name, |v, name| v.set_xattr(name, attribute, value)) }
    })
}

/// Removes an extended attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_removexattr(
    volume: *mut segno_volume,
    name: *const c_char,
    attribute: *const c_char,
) -> c_int {
    done(|| {
        // SAFETY: the caller's promise of segno.h.
        let attribute = unsafe { string(attribute, "attribute") }?;
        // SAFETY: as above.
        unsafe { on(volume, name, |v, name| v.remove_xattr(name, attribute)) }
    })
}
