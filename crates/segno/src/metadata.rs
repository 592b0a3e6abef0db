//! Attributes of files and directories.
use segno_engine::{Attr, SetAttr, Time};
use segno_format::dentry::FileType;
use segno_format::inode::InodeFlags;

/// Attributes of a file, directory, symbolic link or special file, as of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata(Attr);

impl Metadata {
    pub(crate) fn new(attr: Attr) -> Self {
        Self(attr)
    }

    pub(crate) fn attr(&self) -> &Attr {
        &self.0
    }

    /// The type of the file.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        self.0.kind
    }

    /// Whether it is a regular file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.0.kind == FileType::Regular
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_dir(&self) -> bool {
        self.0.kind == FileType::Directory
    }

    /// Whether it is a symbolic link.
    #[must_use]
    pub fn is_symlink(&self) -> bool {
        self.0.kind == FileType::Symlink
    }

    /// Size in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "as std::fs::Metadata")]
    pub fn len(&self) -> u64 {
        self.0.size
    }

    /// Space taken on the volume, in units of 512 bytes.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.0.blocks
    }

    /// Type and permission bits, as `st_mode` of stat(2).
    #[must_use]
    pub fn mode(&self) -> u32 {
        self.0.mode.into()
    }

    /// Inode number, unique on the volume.
    #[must_use]
    pub fn ino(&self) -> u32 {
        self.0.ino.0
    }

    /// Tells apart files that had the same inode number one after the other.
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.0.generation
    }

    /// Number of names; of a directory, 2 and one for each directory in it.
    #[must_use]
    pub fn nlink(&self) -> u32 {
        self.0.nlink
    }

    /// User that owns it.
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.0.uid
    }

    /// Group that owns it.
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.0.gid
    }

    /// Project that its space is accounted to.
    #[must_use]
    pub fn project(&self) -> u32 {
        self.0.projid
    }

    /// Major and minor number of a device node, else zeros.
    #[must_use]
    pub fn device_number(&self) -> (u32, u32) {
        self.0.rdev
    }

    /// Flags that chattr(1) shows.
    #[must_use]
    pub fn flags(&self) -> InodeFlags {
        self.0.flags
    }

    /// Time of the last access. Reading through this crate does not change it.
    #[must_use]
    pub fn accessed(&self) -> Time {
        self.0.atime
    }

    /// Time of the last change of content.
    #[must_use]
    pub fn modified(&self) -> Time {
        self.0.mtime
    }

    /// Time of the last change of content or attributes.
    #[must_use]
    pub fn changed(&self) -> Time {
        self.0.ctime
    }

    /// Time of creation, on volumes formatted with
    /// [`Features::INODE_CRTIME`](segno_format::Features::INODE_CRTIME).
    #[must_use]
    pub fn created(&self) -> Option<Time> {
        self.0.crtime
    }
}

/// Which attributes to change, all at once; the others keep their values.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// # let device = segno::Device::in_memory(64 << 20);
/// # segno::format(&device, &segno::FormatOptions::default())?;
/// # let volume = segno::Volume::open(&device)?;
/// # volume.write("/private", "")?;
/// use segno::{SetMetadata, Time};
/// let change = SetMetadata::new().mode(0o600).owner(1000, 1000).modified(Time { secs: 0, nsec: 0 });
/// volume.set_metadata("/private", &change)?;
/// assert_eq!(volume.metadata("/private")?.uid(), 1000);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SetMetadata(SetAttr);

impl SetMetadata {
    /// Changes nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the permission bits; bits of the file type are ignored.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.0.mode = Some((mode & 0o7777) as u16);
        self
    }

    /// Sets user and group.
    #[must_use]
    pub fn owner(mut self, uid: u32, gid: u32) -> Self {
        (self.0.uid, self.0.gid) = (Some(uid), Some(gid));
        self
    }

    /// Sets the time of the last access.
    #[must_use]
    pub fn accessed(mut self, time: impl Into<Time>) -> Self {
        self.0.atime = Some(time.into());
        self
    }

    /// Sets the time of the last change of content.
    #[must_use]
    pub fn modified(mut self, time: impl Into<Time>) -> Self {
        self.0.mtime = Some(time.into());
        self
    }

    pub(crate) fn attrs(&self) -> &SetAttr {
        &self.0
    }
}
