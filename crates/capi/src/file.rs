//! Open files.
use crate::args::{bytes, bytes_mut, check_place, path, put, shared};
use crate::attrs::segno_stat_t;
use crate::error::{EINVAL, Failure, call, done};
use crate::volume::segno_volume;
use segno::{File, OpenOptions, Volume};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// Of `segno_file_open`: allow reading.
pub const SEGNO_READ: u32 = 1;
/// Of `segno_file_open`: allow writing.
pub const SEGNO_WRITE: u32 = 2;
/// Of `segno_file_open`: allow writing at the end only.
pub const SEGNO_APPEND: u32 = 4;
/// Of `segno_file_open`: create the file if it is missing.
pub const SEGNO_CREATE: u32 = 8;
/// Of `segno_file_open`: create the file, and fail if there is anything of that name.
pub const SEGNO_CREATE_NEW: u32 = 16;
/// Of `segno_file_open`: empty the file.
pub const SEGNO_TRUNCATE: u32 = 32;

/// An open file. Threads may share it.
pub struct segno_file {
    file: File,
    volume: Arc<Volume>,
}

impl segno_file {
    fn run<T>(&self, f: impl FnOnce(&File) -> segno::Result<T>) -> Result<T, Failure> {
        Ok(self.volume.catch_panic(|| f(&self.file))?)
    }
}

/// Opens a regular file; `how` combines `SEGNO_READ` and others. `mode` has the permission bits of a file that is created.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_file_open(
    volume: *mut segno_volume,
    name: *const c_char,
    how: u32,
    mode: u32,
    file: *mut *mut segno_file,
) -> c_int {
    done(|| {
        check_place(file, "place for the file")?;
        // SAFETY: the caller's promise of segno.h.
        let (volume, name) = unsafe { (shared(volume, "volume")?, path(name)?) };
        let has = |flag| how & flag != 0;
        if how >= SEGNO_TRUNCATE << 1 {
            return Err(Failure::new(EINVAL, format!("unknown flags in {how:#x}")));
        }
        let options =
            OpenOptions::new().read(has(SEGNO_READ)).write(has(SEGNO_WRITE)).append(has(SEGNO_APPEND));
        let options = options.create(has(SEGNO_CREATE)).create_new(has(SEGNO_CREATE_NEW));
        let options = options.truncate(has(SEGNO_TRUNCATE)).mode(mode);
        let opened = volume.run(|v| v.open_file_with(name, &options))?;
        let handle = Box::into_raw(Box::new(segno_file { file: opened, volume: volume.share() }));
        // SAFETY: the caller's promise of segno.h.
        unsafe { put(file, handle, "place for the file") }
    })
}

/// Closes a file. Written data is durable after `segno_fsync`, `segno_sync` or `segno_close`. Null is
/// ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_file_close(file: *mut segno_file) -> c_int {
    done(|| {
        if file.is_null() {
            return Ok(());
        }
        // SAFETY: from `Box::into_raw` in `segno_file_open`, and the caller does not use it again.
        let segno_file { file, volume } = *unsafe { Box::from_raw(file) };
        Ok(volume.catch_panic(|| {
            drop(file);
            Ok(())
        })?)
    })
}

/// Reads from an offset; the result is the number of bytes, 0 at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_pread(
    file: *mut segno_file,
    into: *mut c_void,
    size: usize,
    offset: u64,
) -> i64 {
    call(|| {
        // SAFETY: the caller's promise of segno.h.
        let (file, into) = unsafe { (shared(file, "file")?, bytes_mut(into, size)?) };
        Ok(file.run(|f| f.read_at(into, offset))? as i64)
    })
}

/// Writes at an offset, or at the end with `SEGNO_APPEND`; the result is the number of bytes, fewer than given if space ends
/// midway.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_pwrite(
    file: *mut segno_file,
    from: *const c_void,
    size: usize,
    offset: u64,
) -> i64 {
    call(|| {
        // SAFETY: the caller's promise of segno.h.
        let (file, from) = unsafe { (shared(file, "file")?, bytes(from, size)?) };
        Ok(file.run(|f| f.write_at(from, offset))? as i64)
    })
}

/// Makes content and attributes durable, or with `data_only` the content alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_fsync(file: *mut segno_file, data_only: c_int) -> c_int {
    done(|| {
        // SAFETY: the caller's promise of segno.h.
        let file = unsafe { shared(file, "file") }?;
        file.run(|f| if data_only == 0 { f.sync_all() } else { f.sync_data() })
    })
}

/// Cuts the file, or extends it by a hole that reads as zeros.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_ftruncate(file: *mut segno_file, size: u64) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    done(|| unsafe { shared(file, "file") }?.run(|f| f.set_len(size)))
}

/// Attributes of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_fstat(file: *mut segno_file, into: *mut segno_stat_t) -> c_int {
    done(|| {
        // SAFETY: the caller's promise of segno.h.
        let found = unsafe { shared(file, "file") }?.run(File::metadata)?;
        // SAFETY: as above.
        unsafe { put(into, found.into(), "place for the result") }
    })
}
