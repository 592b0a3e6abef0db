//! How to open a file.
use crate::error::{Cause, errno, refuse};
use segno_engine::Owner;

/// How to open a file, as [`std::fs::OpenOptions`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let device = segno::Device::in_memory(64 << 20);
/// # segno::format(&device, &segno::FormatOptions::default())?;
/// # let volume = segno::Volume::open(&device)?;
/// use segno::OpenOptions;
/// use std::io::Write;
/// let mut log = volume.open_file_with("/log", &OpenOptions::new().append(true).create(true).mode(0o600))?;
/// log.write_all(b"started\n")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    pub(crate) truncate: bool,
    pub(crate) create: bool,
    pub(crate) create_new: bool,
    pub(crate) mode: u16,
    pub(crate) owner: Owner,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            mode: 0o644,
            owner: Owner::default(),
        }
    }
}

impl OpenOptions {
    /// Neither reads nor writes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Allow reading.
    #[must_use]
    pub fn read(mut self, read: bool) -> Self {
        self.read = read;
        self
    }

    /// Allow writing.
    #[must_use]
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Allow writing at the end of the file only, wherever it is at that time.
    #[must_use]
    pub fn append(mut self, append: bool) -> Self {
        self.append = append;
        self
    }

    /// Empty the file; needs [`write`](Self::write).
    #[must_use]
    pub fn truncate(mut self, truncate: bool) -> Self {
        self.truncate = truncate;
        self
    }

    /// Create the file if it is missing; needs [`write`](Self::write) or [`append`](Self::append).
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Create the file, and fail if there is anything of that name.
    #[must_use]
    pub fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Permission bits of a file that is created; 0o644 by default.
    #[must_use]
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = (mode & 0o7777) as u16;
        self
    }

    /// User and group of a file that is created; 0 and 0 by default.
    #[must_use]
    pub fn owner(mut self, uid: u32, gid: u32) -> Self {
        self.owner = Owner { uid, gid, umask: 0 };
        self
    }

    pub(crate) fn writes(&self) -> bool {
        self.write || self.append
    }

    pub(crate) fn check(&self) -> Result<(), Cause> {
        let why = if !self.read && !self.writes() {
            "the options allow neither reading nor writing"
        } else if (self.create || self.create_new) && !self.writes() {
            "a file that is created must be open for writing"
        } else if self.truncate && !self.write && !self.create_new {
            "a file that is emptied must be open for writing"
        } else {
            return Ok(());
        };
        Err(refuse(errno::INVAL, why))
    }
}
