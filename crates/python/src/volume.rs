//! Volumes: every operation on a path.
use crate::args::{Buffer, VolumePath};
use crate::error::os_error;
use crate::file::File;
use crate::metadata::{Stat, time};
use crate::slot::Slot;
use crate::storage::{First, Storage};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use segno::{Error, MountOptions, OpenOptions, SetMetadata};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open volume. Methods may be called from several threads.
#[pyclass(module = "segnofs._native", frozen, subclass)]
pub(crate) struct Volume {
    slot: Arc<Slot>,
}

/// Inodes and blocks that a reader of a tree has met.
#[pyclass(module = "segnofs._native", frozen)]
pub(crate) struct Visits(Mutex<segno::Visits>);

#[pymethods]
impl Visits {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }
}

/// A name in a directory, its inode number and its type (`DT_*` of readdir(3), 0 if the type is only in the
/// inode).
type Name = (OsString, u32, u8);

/// The path itself, or what it leads to if symbolic links are followed.
fn target(v: &segno::Volume, path: &Path, follow: bool) -> Result<PathBuf, Error> {
    if follow { v.canonicalize(path) } else { Ok(path.to_owned()) }
}

impl Volume {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&segno::Volume) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        self.slot.with(py, f)
    }

    fn change(&self, py: Python<'_>, path: &VolumePath, change: &SetMetadata, follow: bool) -> PyResult<()> {
        self.with(py, |v| match follow {
            true => v.set_metadata(path, change),
            false => v.set_symlink_metadata(path, change),
        })
    }
}

#[pymethods]
impl Volume {
    #[new]
    #[pyo3(signature = (path, *, writable = false, skip_recovery = false, cache_bytes = 67_108_864, journal = None, devices = Vec::new()))]
    fn new(
        py: Python<'_>,
        path: First,
        writable: bool,
        skip_recovery: bool,
        cache_bytes: usize,
        journal: Option<VolumePath>,
        devices: Vec<VolumePath>,
    ) -> PyResult<Self> {
        let options = MountOptions::new().read_only(!writable).skip_recovery(skip_recovery);
        let mut options = options.cache_bytes(cache_bytes);
        let storage = Storage::new(path, devices, journal)?;
        let open = || {
            let volume = storage.open(writable)?;
            if let Some(journal) = storage.open_journal(writable)? {
                options = options.journal(&journal);
            }
            segno::Volume::open_with(&volume, &options)
        };
        let volume = py.detach(|| segno::catch_panic(open)).map_err(|e| os_error(&e))?;
        Ok(Self { slot: Arc::new(Slot::new(volume)) })
    }

    fn _close(&self, py: Python<'_>) -> PyResult<()> {
        self.slot.close(py)
    }

    /// Whether `close` was called.
    #[getter]
    fn closed(&self, py: Python<'_>) -> PyResult<bool> {
        self.slot.is_closed(py)
    }

    #[getter]
    fn label(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |v| Ok(v.label()))
    }

    #[setter]
    fn set_label(&self, py: Python<'_>, label: &str) -> PyResult<()> {
        self.with(py, |v| v.set_label(label))
    }

    fn _uuid<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.with(py, |v| Ok(v.uuid()))?))
    }

    /// Makes everything durable that was done before this call.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, segno::Volume::sync)
    }

    /// Block size, blocks, free blocks, files, files that can still be created.
    fn _statvfs(&self, py: Python<'_>) -> PyResult<(u64, u64, u64, u64, u64)> {
        let s = self.with(py, |v| Ok(v.statfs()))?;
        Ok((s.block_size, s.blocks, s.blocks_free, s.files, s.files_free))
    }

    fn _stat(&self, py: Python<'_>, path: VolumePath, follow: bool) -> PyResult<Stat> {
        self.with(py, |v| {
            let found = if follow { v.metadata(&path) } else { v.symlink_metadata(&path) };
            found.map(Stat::from)
        })
    }

    fn _names(&self, py: Python<'_>, path: VolumePath) -> PyResult<Vec<Name>> {
        self.with(py, |v| {
            let names = v.read_dir(&path)?;
            names.map(|name| name.map(|n| (n.file_name(), n.ino(), n.file_type().dirent_type()))).collect()
        })
    }

    /// Notes what a path names; raises for damage that would be followed in circles, or copied twice.
    fn _visit(
        &self,
        py: Python<'_>,
        visits: &Bound<'_, Visits>,
        path: VolumePath,
        follow: bool,
    ) -> PyResult<()> {
        let visits = visits.get();
        self.with(py, |v| {
            let found = if follow { v.metadata(&path) } else { v.symlink_metadata(&path) }?;
            v.visit(&mut visits.0.lock(), &path, &found)
        })
    }

    /// The path from the root without symbolic links, `.` and `..`.
    fn realpath(&self, py: Python<'_>, path: VolumePath) -> PyResult<OsString> {
        self.with(py, |v| v.canonicalize(&path)).map(PathBuf::into_os_string)
    }

    #[expect(clippy::too_many_arguments, reason = "one for each letter of a mode")]
    fn _open(
        &self,
        py: Python<'_>,
        path: VolumePath,
        read: bool,
        write: bool,
        append: bool,
        create: bool,
        create_new: bool,
        truncate: bool,
    ) -> PyResult<File> {
        let options = OpenOptions::new().read(read).write(write).append(append);
        let options = options.create(create).create_new(create_new).truncate(truncate);
        let file = self.with(py, |v| v.open_file_with(&path, &options))?;
        Ok(File::new(file, Arc::clone(&self.slot)))
    }

    /// Creates a directory.
    #[pyo3(signature = (path, mode = 0o755))]
    fn mkdir(&self, py: Python<'_>, path: VolumePath, mode: u32) -> PyResult<()> {
        self.with(py, |v| {
            v.create_dir(&path)?;
            if mode == 0o755 { Ok(()) } else { v.set_metadata(&path, &SetMetadata::new().mode(mode)) }
        })
    }

    fn _makedirs(&self, py: Python<'_>, path: VolumePath) -> PyResult<()> {
        self.with(py, |v| v.create_dir_all(&path))
    }

    /// Removes a name of anything but a directory.
    fn unlink(&self, py: Python<'_>, path: VolumePath) -> PyResult<()> {
        self.with(py, |v| v.remove_file(&path))
    }

    /// Removes an empty directory.
    fn rmdir(&self, py: Python<'_>, path: VolumePath) -> PyResult<()> {
        self.with(py, |v| v.remove_dir(&path))
    }

    /// Removes a directory and everything below it.
    fn rmtree(&self, py: Python<'_>, path: VolumePath) -> PyResult<()> {
        self.with(py, |v| v.remove_dir_all(&path))
    }

    /// Renames a file or directory. An existing one of the new name is replaced atomically, even if the power
    /// is cut.
    fn rename(&self, py: Python<'_>, src: VolumePath, dst: VolumePath) -> PyResult<()> {
        self.with(py, |v| v.rename(&src, &dst))
    }

    /// Exchanges two names.
    fn exchange(&self, py: Python<'_>, src: VolumePath, dst: VolumePath) -> PyResult<()> {
        self.with(py, |v| v.exchange(&src, &dst))
    }

    /// Gives a file another name.
    fn link(&self, py: Python<'_>, src: VolumePath, dst: VolumePath) -> PyResult<()> {
        self.with(py, |v| v.hard_link(&src, &dst))
    }

    /// Creates the symbolic link `dst` with the target `src`.
    fn symlink(&self, py: Python<'_>, src: VolumePath, dst: VolumePath) -> PyResult<()> {
        self.with(py, |v| v.symlink(&src, &dst))
    }

    /// The target of a symbolic link.
    fn readlink(&self, py: Python<'_>, path: VolumePath) -> PyResult<OsString> {
        self.with(py, |v| v.read_link(&path)).map(PathBuf::into_os_string)
    }

    /// Sets permission bits.
    #[pyo3(signature = (path, mode, *, follow_symlinks = true))]
    fn chmod(&self, py: Python<'_>, path: VolumePath, mode: u32, follow_symlinks: bool) -> PyResult<()> {
        self.change(py, &path, &SetMetadata::new().mode(mode), follow_symlinks)
    }

    /// Sets user and group.
    #[pyo3(signature = (path, uid, gid, *, follow_symlinks = true))]
    fn chown(
        &self,
        py: Python<'_>,
        path: VolumePath,
        uid: u32,
        gid: u32,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        self.change(py, &path, &SetMetadata::new().owner(uid, gid), follow_symlinks)
    }

    fn _utime(
        &self,
        py: Python<'_>,
        path: VolumePath,
        atime: i128,
        mtime: i128,
        follow: bool,
    ) -> PyResult<()> {
        let change = SetMetadata::new().accessed(time(atime)?).modified(time(mtime)?);
        self.change(py, &path, &change, follow)
    }

    /// Cuts a file, or extends it by a hole.
    fn truncate(&self, py: Python<'_>, path: VolumePath, length: u64) -> PyResult<()> {
        self.with(py, |v| v.set_len(&path, length))
    }

    fn _getxattr<'py>(
        &self,
        py: Python<'py>,
        path: VolumePath,
        name: VolumePath,
        follow: bool,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let value = self.with(py, |v| v.xattr(target(v, path.as_ref(), follow)?, &name))?;
        Ok(value.map(|v| PyBytes::new(py, &v)))
    }

    /// The names of all extended attributes.
    #[pyo3(signature = (path, *, follow_symlinks = true))]
    fn listxattr(&self, py: Python<'_>, path: VolumePath, follow_symlinks: bool) -> PyResult<Vec<OsString>> {
        self.with(py, |v| v.list_xattrs(target(v, path.as_ref(), follow_symlinks)?))
    }

    /// Sets an extended attribute.
    #[pyo3(signature = (path, attribute, value, *, follow_symlinks = true))]
    fn setxattr(
        &self,
        py: Python<'_>,
        path: VolumePath,
        attribute: VolumePath,
        value: &Bound<'_, PyAny>,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        let value = Buffer::readable(value)?;
        self.with(py, |v| v.set_xattr(target(v, path.as_ref(), follow_symlinks)?, &attribute, value.bytes()))
    }

    /// Removes an extended attribute.
    #[pyo3(signature = (path, attribute, *, follow_symlinks = true))]
    fn removexattr(
        &self,
        py: Python<'_>,
        path: VolumePath,
        attribute: VolumePath,
        follow_symlinks: bool,
    ) -> PyResult<()> {
        self.with(py, |v| v.remove_xattr(target(v, path.as_ref(), follow_symlinks)?, &attribute))
    }
}
