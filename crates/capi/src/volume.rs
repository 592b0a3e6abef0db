//! Opening and closing volumes.
use crate::args::{check_place, path, put, shared, versioned};
use crate::error::{EBUSY, EINVAL, Failure, done};
use crate::storage::Storage;
use segno::{MountOptions, Volume};
use std::ffi::{c_char, c_int};
use std::mem::offset_of;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

/// Of `segno_open_options.flags`: allow changes. Without it, several processes may read one image.
pub const SEGNO_WRITABLE: u32 = 1;
/// Of `segno_open_options.flags`: show the volume as of its last checkpoint, without data that was fsynced
/// later and is to be recovered. Not together with `SEGNO_WRITABLE`.
pub const SEGNO_SKIP_RECOVERY: u32 = 2;

/// An open volume. Threads may share it.
pub struct segno_volume {
    volume: Arc<Volume>,
}

impl segno_volume {
    /// For a handle on it.
    pub(crate) fn share(&self) -> Arc<Volume> {
        Arc::clone(&self.volume)
    }

    /// Runs work on the volume.
    pub(crate) fn run<T>(&self, f: impl FnOnce(&Volume) -> segno::Result<T>) -> Result<T, Failure> {
        Ok(self.volume.catch_panic(|| f(&self.volume))?)
    }
}

/// Runs work on the file at a path.
///
/// # Safety
/// As the functions of segno.h.
pub(crate) unsafe fn on<T>(
    volume: *mut segno_volume,
    name: *const c_char,
    f: impl FnOnce(&Volume, &Path) -> segno::Result<T>,
) -> Result<T, Failure> {
    // SAFETY: the requirements of this function.
    let (volume, name) = unsafe { (shared(volume, "volume")?, path(name)?) };
    volume.run(|v| f(v, name))
}

/// How to open a volume. Zeros are the defaults.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct segno_open_options {
    /// `sizeof(segno_open_options)`: later versions may add fields.
    pub size: u32,
    /// `SEGNO_WRITABLE` and others.
    pub flags: u32,
    /// Memory for cached data and metadata, in bytes; 0 for 256 MiB.
    pub cache_bytes: u64,
    /// File or device of the external journal; null for none. A volume that was mounted with one and not unmounted is not opened
    /// without it: the result is `-ENODEV`. With `SEGNO_WRITABLE`, a file of zeros becomes a journal; `segno journal create`
    /// also allocates storage for its holes, for which commits otherwise wait.
    pub journal: *const c_char,
    /// Paths of the further devices of a volume of several, in order, ended by a null pointer; null for none. Paths that the volume
    /// records are not opened: without its devices the result is `-EINVAL`.
    pub devices: *const *const c_char,
}

/// Space and inodes of a volume.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct segno_statfs_t {
    /// Bytes in a block.
    pub block_size: u64,
    /// All blocks.
    pub blocks: u64,
    /// Free blocks that files can use.
    pub blocks_free: u64,
    /// Files and directories that there can be.
    pub files: u64,
    /// Those that can still be created.
    pub files_free: u64,
}

/// The version of this interface. It grows when functions are added; a change that breaks callers changes the number in the
/// library's name.
#[unsafe(no_mangle)]
pub extern "C" fn segno_abi() -> u32 {
    3
}

/// Opens the volume in an image file (raw or Android sparse) or on a block device. `options` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_open(
    image: *const c_char,
    options: *const segno_open_options,
    volume: *mut *mut segno_volume,
) -> c_int {
    done(|| {
        check_place(volume, "place for the volume")?;
        // SAFETY: the caller's promise of segno.h.
        let options = unsafe { read_options(options) }?;
        // SAFETY: null, or a string, by the same promise; so are the devices.
        let storage = unsafe { Storage::named(image, options.journal, options.devices) }?;
        let writable = options.flags & SEGNO_WRITABLE != 0;
        let mut mount =
            MountOptions::new().read_only(!writable).skip_recovery(options.flags & SEGNO_SKIP_RECOVERY != 0);
        if options.cache_bytes != 0 {
            mount = mount.cache_bytes(usize::try_from(options.cache_bytes).unwrap_or(usize::MAX));
        }
        let opened = segno::catch_panic(|| {
            let device = storage.open(writable)?;
            let mount = match storage.open_journal(writable)? {
                Some(journal) => mount.journal(&journal),
                None => mount,
            };
            Volume::open_with(&device, &mount)
        })?;
        let handle = Box::into_raw(Box::new(segno_volume { volume: Arc::new(opened) }));
        // SAFETY: the caller's promise of segno.h.
        unsafe { put(volume, handle, "place for the volume") }
    })
}

/// # Safety
/// `given` is null or points to a `u32` with the size of all options.
unsafe fn read_options(given: *const segno_open_options) -> Result<segno_open_options, Failure> {
    let earlier = [offset_of!(segno_open_options, journal), offset_of!(segno_open_options, devices)];
    // SAFETY: the requirements of this function.
    let given = unsafe { versioned(given, "segno_open_options", &earlier) }?;
    let (journal, devices) = (ptr::null(), ptr::null());
    let none = segno_open_options { size: 0, flags: 0, cache_bytes: 0, journal, devices };
    let options = given.unwrap_or(none);
    match options.flags & !(SEGNO_WRITABLE | SEGNO_SKIP_RECOVERY) {
        0 => Ok(options),
        unknown => Err(Failure::new(EINVAL, format!("unknown flags {unknown:#x} in segno_open_options"))),
    }
}

/// Writes everything and unmounts. `volume` is invalid afterwards, also if that failed, with one exception: while files or
/// directories are open, the result is `-EBUSY` and the volume stays open. Null is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_close(volume: *mut segno_volume) -> c_int {
    done(|| {
        // SAFETY: null, or a handle that is not closed yet.
        let Some(open) = (unsafe { volume.as_ref() }) else { return Ok(()) };
        if Arc::strong_count(&open.volume) > 1 {
            return Err(Failure::new(EBUSY, "cannot close the volume: files or directories are still open"));
        }
        // SAFETY: from `Box::into_raw` in `segno_open`, and the caller does not use it again.
        let closed = unsafe { Box::from_raw(volume) };
        match Arc::into_inner(closed.volume) {
            Some(volume) => Ok(segno::catch_panic(|| volume.close())?),
            None => Err(Failure::new(EBUSY, "the volume was used by another thread while it was closed")),
        }
    })
}

/// Makes everything durable that was done before this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_sync(volume: *mut segno_volume) -> c_int {
    // SAFETY: the caller's promise of segno.h.
    done(|| unsafe { shared(volume, "volume") }?.run(Volume::sync))
}

/// Space and inode counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn segno_statfs(volume: *mut segno_volume, into: *mut segno_statfs_t) -> c_int {
    done(|| {
        // SAFETY: the caller's promise of segno.h.
        let s = unsafe { shared(volume, "volume") }?.run(|v| Ok(v.statfs()))?;
        let found = segno_statfs_t {
            block_size: s.block_size,
            blocks: s.blocks,
            blocks_free: s.blocks_free,
            files: s.files,
            files_free: s.files_free,
        };
        // SAFETY: the caller's promise of segno.h.
        unsafe { put(into, found, "place for the result") }
    })
}
