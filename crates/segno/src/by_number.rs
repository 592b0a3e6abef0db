//! Inodes by number, including inodes without a name.
use crate::attrs::xattr_names;
use crate::error::{Doing, Result};
use crate::file::File;
use crate::metadata::Metadata;
use crate::volume::Volume;
use segno_engine::Extent;
use segno_format::Ino;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

impl Volume {
    /// Attributes of an inode.
    pub fn inode_metadata(&self, ino: u32) -> Result<Metadata> {
        let found = self.root().engine().find(Ino(ino));
        Ok(Metadata::new(found.doing_at("look up", &shown(ino))?))
    }

    /// Opens the file of an inode for reading.
    pub fn open_inode(&self, ino: u32) -> Result<File> {
        File::of_inode(&self.root(), Ino(ino), shown(ino)).doing_at("open", &shown(ino))
    }

    /// The names of all extended attributes of an inode.
    pub fn inode_xattrs(&self, ino: u32) -> Result<Vec<OsString>> {
        xattr_names(self.root().engine(), Ino(ino)).doing_at("list the extended attributes of", &shown(ino))
    }

    /// The target of the symbolic link with a number.
    pub fn inode_link(&self, ino: u32) -> Result<PathBuf> {
        let target = self.root().engine().readlink(Ino(ino));
        Ok(OsString::from_vec(target.doing_at("read the link", &shown(ino))?).into())
    }

    /// Where the content of the file of an inode is on the volume, as [`Dir::extents`](crate::Dir::extents).
    pub fn inode_extents(&self, ino: u32) -> Result<Vec<Extent>> {
        self.root().engine().extents(Ino(ino)).doing_at("find the extents of", &shown(ino))
    }
}

fn shown(ino: u32) -> PathBuf {
    PathBuf::from(format!("#{ino}"))
}
