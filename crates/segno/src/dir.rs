//! Directories: handles, looking up.
use crate::error::{Cause, Doing, Result, errno};
use crate::metadata::Metadata;
use crate::mount::Mount;
use crate::resolve::{Last, Pin, canonical, parent, resolve};
use segno_engine::Attr;
use segno_format::Ino;
use segno_format::dentry::FileType;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A handle of a directory, which paths start at and cannot leave.
///
/// To the paths that a method takes, the directory is the root, as after chroot(2): with or without a slash at the beginning
/// they start at it, as do absolute targets of symbolic links, and `..` at the top stays there. At most 40 symbolic links
/// are followed for one path. Paths may hold any bytes but NUL.
///
/// Permission bits are stored and not enforced: a process that can open the device can read and change
/// everything on it. New files belong to user and group 0 unless
/// [`OpenOptions::owner`](crate::OpenOptions::owner) or [`set_metadata`](Self::set_metadata) sets another
/// owner.
///
/// Clones refer to the same directory. A directory that was removed has no names and takes none.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// # let device = segno::Device::in_memory(64 << 20);
/// # segno::format(&device, &segno::FormatOptions::default())?;
/// # let volume = segno::Volume::open(&device)?;
/// volume.create_dir_all("/home/alice")?;
/// volume.write("/secret", "outside")?;
/// volume.symlink("/secret", "/home/alice/escape")?;
///
/// let alice = volume.open_dir("/home/alice")?;
/// alice.write("/notes", "inside")?;
/// assert_eq!(volume.read("/home/alice/notes")?, b"inside");
/// assert!(alice.read("escape").is_err());
/// assert!(alice.read("../../secret").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Dir {
    handle: Arc<Handle>,
}

/// Keeps the number of a directory from being given to something else.
struct Handle {
    mount: Arc<Mount>,
    ino: Ino,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // An inode that cannot be freed now stays an orphan, which the unmount or the next open frees.
        let _freed_later = self.mount.engine.drop_references(self.ino, 1);
    }
}

impl fmt::Debug for Dir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dir").field("ino", &self.handle.ino.0).finish_non_exhaustive()
    }
}

impl Dir {
    pub(crate) fn root_of(mount: Arc<Mount>) -> Self {
        let ino = mount.engine.root();
        mount.engine.add_reference(ino);
        Self { handle: Arc::new(Handle { mount, ino }) }
    }

    /// A handle of another directory of the volume, if it is still the one that was looked up.
    pub(crate) fn handle_of(&self, attr: &Attr) -> Result<Self, Cause> {
        if attr.kind != FileType::Directory {
            return Err(segno_engine::Error::NotDir.into());
        }
        let mount = Arc::clone(&self.handle.mount);
        mount.engine.add_reference(attr.ino);
        let dir = Self { handle: Arc::new(Handle { mount, ino: attr.ino }) };
        if dir.engine().getattr(attr.ino)?.generation != attr.generation {
            return Err(segno_engine::Error::NotFound.into());
        }
        Ok(dir)
    }

    /// The mount, if there is no other handle of this directory.
    pub(crate) fn into_mount(self) -> Option<Arc<Mount>> {
        Arc::into_inner(self.handle).map(|handle| Arc::clone(&handle.mount))
    }

    pub(crate) fn mount(&self) -> &Arc<Mount> {
        &self.handle.mount
    }

    pub(crate) fn engine(&self) -> &segno_engine::Volume {
        &self.handle.mount.engine
    }

    pub(crate) fn ino(&self) -> Ino {
        self.handle.ino
    }

    pub(crate) fn find(&self, path: &Path, last: Last) -> Result<Attr, Cause> {
        resolve(self.engine(), self.ino(), path, last)
    }

    /// Runs a call of the engine on what a path names.
    pub(crate) fn at<T>(
        &self,
        path: &Path,
        last: Last,
        action: &'static str,
        run: impl FnOnce(&segno_engine::Volume, Ino) -> segno_engine::Result<T>,
    ) -> Result<T> {
        let run = || {
            let pin = Pin::new(self.engine(), &self.find(path, last)?)?;
            Ok::<_, Cause>(run(self.engine(), pin.ino)?)
        };
        run().doing_at(action, path)
    }

    pub(crate) fn parent(&self, path: &Path) -> Result<(Pin<'_>, Vec<u8>), Cause> {
        parent(self.engine(), self.ino(), path)
    }

    /// Opens a directory; paths given to it cannot leave it.
    pub fn open_dir(&self, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        self.find(path, Last::Follow).and_then(|attr| self.handle_of(&attr)).doing_at("open", path)
    }

    /// Attributes of the file at a path; symbolic links are followed.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let path = path.as_ref();
        Ok(Metadata::new(self.find(path, Last::Follow).doing_at("look up", path)?))
    }

    /// Attributes of the file at a path; a symbolic link at its end is not followed.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        let path = path.as_ref();
        Ok(Metadata::new(self.find(path, Last::Keep).doing_at("look up", path)?))
    }

    /// Whether a path leads to anything.
    pub fn exists(&self, path: impl AsRef<Path>) -> Result<bool> {
        match self.metadata(path) {
            Ok(_) => Ok(true),
            Err(e) if e.errno() == errno::NOENT => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The target of a symbolic link, as it was given.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let target = self.at(path.as_ref(), Last::Keep, "read the link", segno_engine::Volume::readlink)?;
        Ok(PathBuf::from(OsString::from_vec(target)))
    }

    /// The path from this directory, without symbolic links, `.` and `..`.
    pub fn canonicalize(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        canonical(self.engine(), self.ino(), path).doing_at("look up", path)
    }
}
