//! Creating, renaming and removing names.
use crate::args::{bytes_mut, give, path, shared};
use crate::error::{call, done};
use crate::volume::{on, segno_volume};
use segno::{Dir, SetMetadata, Volume};
use std::ffi::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// # Safety
/// As the functions of segno.h.
unsafe fn on_two(
    volume: *mut segno_volume,
    one: *const c_char,
    other: *const c_char,
    f: impl FnOnce(&Dir, &Path, &Path) -> segno::Result<()>,
) -> c_int {
    done(|| {
        // SAFETY: the requirements of this function.
        let (volume, one, other) = unsafe { (shared(volume, "volume")?, path(one)?, path(other)?) };
        volume.run(|v| f(v, one, other))
    })
}

/// Creates a directory. It belongs to user and group 0, like everything that is created.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_mkdir(volume: *mut segno_volume, name: *const c_char, mode: u32) -> c_int {
    let make = |v: &Volume, name: &Path| {
        v.create_dir(name)?;
        v.set_metadata(name, &SetMetadata::new().mode(mode))
    };
    // SAFETY: the caller's promise of segno.h.
    done(|| unsafe { on(volume, name, make) })
}

/// Removes an empty directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_rmdir(volume: *mut segno_volume, name: *const c_char) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    done(|| unsafe { on(volume, name, |v, name| v.remove_dir(name)) })
}

/// Removes a name of anything but a directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_unlink(volume: *mut segno_volume, name: *const c_char) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    done(|| unsafe { on(volume, name, |v, name| v.remove_file(name)) })
}

/// Renames a file or directory. An existing one of the new name is replaced atomically, even if the power is
/// cut.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_rename(
    volume: *mut segno_volume,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    unsafe { on_two(volume, from, to, |v, from, to| v.rename(from, to)) }
}

/// Gives a file another name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_link(
    volume: *mut segno_volume,
    original: *const c_char,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    unsafe { on_two(volume, original, name, |v, original, name| v.hard_link(original, name)) }
}

/// Creates a symbolic link.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_symlink(
    volume: *mut segno_volume,
    target: *const c_char,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    unsafe { on_two(volume, target, name, |v, target, name| v.symlink(target, name)) }
}

/// Reads the target of a symbolic link; the result is its length. The target is not followed by a NUL. With
/// `size` 0 nothing is copied; a buffer that is too small is an error (`-ERANGE`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_readlink(
    volume: *mut segno_volume,
    name: *const c_char,
    target: *mut c_char,
    size: usize,
) -> i64 {
    call(|| {
        // SAFETY: the caller's promise of segno.h.
        let (found, into) =
            unsafe { (on(volume, name, |v, name| v.read_link(name))?, bytes_mut(target, size)?) };
        give(found.as_os_str().as_bytes(), into)
    })
}
