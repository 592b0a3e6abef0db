//! Changing attributes by path: permissions, owners, times, sizes, extended attributes.
use crate::dir::Dir;
use crate::error::Result;
use crate::metadata::SetMetadata;
use crate::resolve::Last;
use segno_engine::{Extent, SetAttr, Volume, XattrMode};
use segno_format::Ino;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

impl Dir {
    /// Changes attributes of the file at a path; symbolic links are followed.
    pub fn set_metadata(&self, path: impl AsRef<Path>, change: &SetMetadata) -> Result<()> {
        self.set(path.as_ref(), Last::Follow, change.attrs(), "change the attributes of")
    }

    /// Changes attributes of the file at a path; a symbolic link at its end is not followed.
    pub fn set_symlink_metadata(&self, path: impl AsRef<Path>, change: &SetMetadata) -> Result<()> {
        self.set(path.as_ref(), Last::Keep, change.attrs(), "change the attributes of")
    }

    /// Cuts a file, or extends it by a hole that reads as zeros.
    pub fn set_len(&self, path: impl AsRef<Path>, len: u64) -> Result<()> {
        let change = SetAttr { size: Some(len), ..SetAttr::default() };
        self.set(path.as_ref(), Last::Follow, &change, "set the size of")
    }

    fn set(&self, path: &Path, last: Last, change: &SetAttr, action: &'static str) -> Result<()> {
        self.at(path, last, action, |v, ino| v.setattr(ino, change).map(drop))
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
        let get = |v: &Volume, ino| match v.getxattr(ino, name.as_ref().as_bytes()) {
            Err(segno_engine::Error::NoData) => Ok(None),
            other => other.map(Some),
        };
        self.at(path.as_ref(), Last::Keep, "read an extended attribute of", get)
    }

    /// The names of all extended attributes.
    pub fn list_xattrs(&self, path: impl AsRef<Path>) -> Result<Vec<OsString>> {
        self.at(path.as_ref(), Last::Keep, "list the extended attributes of", xattr_names)
    }

    /// Sets an extended attribute, new or not.
    pub fn set_xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>, value: &[u8]) -> Result<()> {
        let name = name.as_ref().as_bytes();
        self.at(path.as_ref(), Last::Keep, "set an extended attribute of", |v, ino| {
            v.setxattr(ino, name, value, XattrMode::Set)
        })
    }

    /// Removes an extended attribute, which must exist.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: impl AsRef<OsStr>) -> Result<()> {
        self.at(path.as_ref(), Last::Keep, "remove an extended attribute of", |v, ino| {
            v.removexattr(ino, name.as_ref().as_bytes())
        })
    }

    /// Where the content of a file is on the volume, in blocks of 4096 bytes, as FIEMAP. Holes are left out.
    pub fn extents(&self, path: impl AsRef<Path>) -> Result<Vec<Extent>> {
        self.at(path.as_ref(), Last::Follow, "find the extents of", Volume::extents)
    }
}

/// The names of all extended attributes of an inode.
pub(crate) fn xattr_names(volume: &Volume, ino: Ino) -> segno_engine::Result<Vec<OsString>> {
    let names = volume.listxattr(ino)?;
    let names = names.split(|&b| b == 0).filter(|n| !n.is_empty());
    Ok(names.map(|n| OsString::from_vec(n.to_vec())).collect())
}
