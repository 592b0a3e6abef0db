//! Changing attributes by path: permissions, owners, times, sizes, extended attributes.
use crate::dir::Dir;
use crate::error::{Cause, Doing, Result};
use crate::metadata::SetMetadata;
use crate::resolve::Last;
use segno_engine::{Extent, SetAttr, XattrMode};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

impl Dir {
    /// Changes attributes of what a path leads to.
    pub fn set_metadata(&self, path: impl AsRef<Path>, change: &SetMetadata) -> Result<()> {
        self.set(path.as_ref(), Last::Follow, change.attrs())
            .doing_at("change the attributes of", path.as_ref())
    }

    /// Changes attributes of what a path names: a symbolic link at its end is not followed.
    pub fn set_symlink_metadata(&self, path: impl AsRef<Path>, change: &SetMetadata) -> Result<()> {
        self.set(path.as_ref(), Last::Keep, change.attrs())
            .doing_at("change the attributes of", path.as_ref())
    }

    /// Cuts a file, or extends it by a hole that reads as zeros.
    pub fn set_len(&self, path: impl AsRef<Path>, len: u64) -> Result<()> {
        let change = SetAttr { size: Some(len), ..SetAttr::default() };
        self.set(path.as_ref(), Last::Follow, &change).doing_at("set the size of", path.as_ref())
    }

    fn set(&self, path: &Path, last: Last, change: &SetAttr) -> Result<(), Cause> {
        self.engine().setattr(self.pin(path, last)?.ino, change)?;
        Ok(())
    }

    /// The value of an extended attribute, if there is one of that name; names start with `user.`, `trusted.`, `security.`
    /// or `system.posix_acl_`.
    ///
    /// This and the next three methods do not follow a symbolic link at the end of a path;
    /// [`canonicalize`](Self::canonicalize) the path for that.
    ///
    /// ```
    /// # fn main() -> segno::Result<()> {
    /// # let device = segno::Device::in_memory(64 << 20);
    /// # segno::format(&device, &segno::FormatOptions::default())?;
    /// # let volume = segno::Volume::open(&device)?;
    /// volume.write("/file", "")?;
    /// volume.set_xattr("/file", "user.origin", b"camera")?;
    /// assert_eq!(volume.xattr("/file", "user.origin")?.as_deref(), Some(&b"camera"[..]));
    /// assert_eq!(volume.list_xattrs("/file")?, ["user.origin"]);
    /// volume.remove_xattr("/file", "user.origin")?;
    /// assert_eq!(volume.xattr("/file", "user.origin")?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<Option<Vec<u8>>> {
        let (path, name) = (path.as_ref(), name.as_ref().as_bytes());
        let get = || match self.engine().getxattr(self.pin(path, Last::Keep)?.ino, name) {
            Err(segno_engine::Error::NoData) => Ok(None),
            other => Ok::<_, Cause>(other.map(Some)?),
        };
        get().doing_at("read an extended attribute of", path)
    }

    /// The names of all extended attributes.
    pub fn list_xattrs(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>> {
        let path = path.as_ref();
        let list = || Ok::<_, Cause>(self.engine().listxattr(self.pin(path, Last::Keep)?.ino)?);
        let names = list().doing_at("list the extended attributes of", path)?;
        let names = names.split(|&b| b == 0).filter(|n| !n.is_empty());
        Ok(names.map(|n| OsString::from_vec(n.to_vec())).collect())
    }

    /// Sets an extended attribute, new or not.
    pub fn set_xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>, value: &[u8]) -> Result<()> {
        let (path, name) = (path.as_ref(), name.as_ref().as_bytes());
        let set = || {
            let pin = self.pin(path, Last::Keep)?;
            Ok::<_, Cause>(self.engine().setxattr(pin.ino, name, value, XattrMode::Set)?)
        };
        set().doing_at("set an extended attribute of", path)
    }

    /// Removes an extended attribute, which must exist.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<()> {
        let (path, name) = (path.as_ref(), name.as_ref().as_bytes());
        let remove = || Ok::<_, Cause>(self.engine().removexattr(self.pin(path, Last::Keep)?.ino, name)?);
        remove().doing_at("remove an extended attribute of", path)
    }

    /// Where the content of a file is on the volume, in blocks of 4096 bytes, as FIEMAP. Holes are left out.
    pub fn extents(&self, path: impl AsRef<Path>) -> Result<Vec<Extent>> {
        let path = path.as_ref();
        let extents = || Ok::<_, Cause>(self.engine().extents(self.pin(path, Last::Follow)?.ino)?);
        extents().doing_at("find the extents of", path)
    }
}
