//! Inodes: attributes, handles, references, flags, extended attributes.
use crate::error::Result;
use crate::types::{Attr, SetAttr, XattrMode};
use crate::volume::Volume;
use segno_format::Ino;
use segno_format::inode::InodeFlags;

impl Volume {
    /// Attributes of an inode.
    pub fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.admission.admit_read();
        self.names.getattr(ino)
    }

    /// Attributes of an inode named by a file handle. The number is untrusted: it may be free, a node that is no
    /// inode, out of range, or a hidden system file. All of these are [`Error::NotFound`](crate::Error::NotFound),
    /// not damage.
    pub fn find(&self, ino: Ino) -> Result<Attr> {
        self.admission.admit_read();
        self.names.find(ino)
    }

    /// Changes attributes, all or none.
    pub fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.admission.admit_change()?;
        self.names.setattr(ino, set)
    }

    /// Counts an open handle.
    pub fn open(&self, ino: Ino) -> Result<()> {
        self.admission.admit_read();
        self.names.open(ino)
    }

    /// Closes a handle; the last one of an inode without a name frees the inode.
    pub fn release(&self, ino: Ino) -> Result<()> {
        self.names.release(ino)
    }

    /// Adds a reference: an inode without a name is kept until all references are dropped.
    pub fn add_reference(&self, ino: Ino) {
        self.names.references.add(ino);
    }

    /// Drops references. The last one frees an inode without a name or handle.
    pub fn drop_references(&self, ino: Ino, count: u64) -> Result<()> {
        self.names.drop_references(ino, count)
    }

    /// Drops all references, for a front end that starts over. Inodes without a name or handle are freed.
    pub fn drop_all_references(&self) {
        self.names.drop_all_references();
    }

    /// Whether the front end refers to the inode.
    #[must_use]
    pub fn is_referenced(&self, ino: Ino) -> bool {
        self.names.references.has(ino)
    }

    /// The target of a symbolic link, in text form if it is encrypted.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.admission.admit_read();
        self.names.readlink(ino)
    }

    /// Flags for FS_IOC_GETFLAGS.
    pub fn get_flags(&self, ino: Ino) -> Result<InodeFlags> {
        self.admission.admit_read();
        self.names.get_flags(ino)
    }

    /// Sets the flags that users may change (FS_IOC_SETFLAGS). Other flags shown by FS_IOC_GETFLAGS keep their
    /// values; unknown flags are refused.
    pub fn set_flags(&self, ino: Ino, flags: InodeFlags) -> Result<()> {
        self.admission.admit_change()?;
        self.names.set_flags(ino, flags)
    }

    /// Sets the project of an inode.
    pub fn set_projid(&self, ino: Ino, projid: u32) -> Result<()> {
        self.admission.admit_change()?;
        self.names.set_projid(ino, projid)
    }

    /// The value of an attribute.
    pub fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.admission.admit_read();
        self.names.xattrs.get(ino, name)
    }

    /// The names of all attributes, each followed by a NUL.
    pub fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        self.admission.admit_read();
        self.names.xattrs.list(ino)
    }

    /// Sets an attribute.
    pub fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.admission.admit_change()?;
        self.names.xattrs.set(ino, name, value, mode)
    }

    /// Removes an attribute.
    pub fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.admission.admit_change()?;
        self.names.xattrs.remove(ino, name)
    }
}
