//! Reading directories.
use crate::args::{check_place, path, put, shared};
use crate::error::{EFAULT, Failure, done, number};
use crate::volume::segno_volume;
use segno::{ReadDir, Volume};
use std::ffi::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// An open directory, for one thread at a time.
pub struct segno_dir {
    names: ReadDir,
    volume: Arc<Volume>,
}

/// A name in a directory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct segno_dirent {
    /// Inode number.
    pub ino: u32,
    /// The type of the file, as the `DT_` constants of readdir(3); 0 if only `segno_stat` returns it.
    pub kind: u8,
    /// Length of the name in bytes.
    pub name_len: u8,
    /// The name, followed by a NUL.
    pub name: [c_char; 256],
}

/// Opens a directory for reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_dir_open(
    volume: *mut segno_volume,
    name: *const c_char,
    dir: *mut *mut segno_dir,
) -> c_int {
    done(|| {
        check_place(dir, "place for the directory")?;
        // SAFETY: the caller's promise of segno.h.
        let (volume, name) = unsafe { (shared(volume, "volume")?, path(name)?) };
        let names = volume.run(|v| v.read_dir(name))?;
        let handle = Box::into_raw(Box::new(segno_dir { names, volume: volume.share() }));
        // SAFETY: the caller's promise of segno.h.
        unsafe { put(dir, handle, "place for the directory") }
    })
}

/// The next name, without `.` and `..`. The result is 1, and 0 at the end; after an error it is at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_dir_next(dir: *mut segno_dir, into: *mut segno_dirent) -> c_int {
    number(|| {
        // SAFETY: the caller's promise of segno.h: valid, and used by this thread alone.
        let segno_dir { names, volume } =
            unsafe { dir.as_mut() }.ok_or_else(|| Failure::new(EFAULT, "the directory is a null pointer"))?;
        let Some(entry) = volume.catch_panic(|| names.next().transpose())? else { return Ok(0) };
        let name = entry.file_name();
        let mut found = segno_dirent {
            ino: entry.ino(),
            kind: entry.file_type().dirent_type(),
            name_len: 0,
            name: [0; 256],
        };
        // Names have up to 255 bytes.
        for (to, from) in found.name.iter_mut().zip(name.as_bytes().iter().take(255)) {
            *to = from.cast_signed() as c_char;
            found.name_len += 1;
        }
        // SAFETY: the caller's promise of segno.h.
        unsafe { put(into, found, "place for the entry") }?;
        Ok(1)
    })
}

/// Closes a directory. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_dir_close(dir: *mut segno_dir) -> c_int {
    done(|| {
        if dir.is_null() {
            return Ok(());
        }
        // SAFETY: from `Box::into_raw` in `segno_dir_open`, and the caller does not use it again.
        let segno_dir { names, volume } = *unsafe { Box::from_raw(dir) };
        Ok(volume.catch_panic(|| {
            drop(names);
            Ok(())
        })?)
    })
}
