//! The target of a copy: a directory, or a volume that the caller makes.
use crate::RescueError;
use crate::content::{self, Holes, Write};
use crate::file::{Opened, Slot};
use crate::volume::Volume;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest target of a symbolic link.
const SYMLINK_MAX: usize = 4095;

/// A file of the volume, ready to be copied.
pub struct Source<'s> {
    /// The volume.
    pub volume: &'s Volume<'s>,
    /// The version of the inode, and its nodes.
    pub file: &'s Opened,
    /// Which blocks may be shown.
    pub allowed: &'s dyn Fn(&Slot) -> bool,
    /// Set to give up, also within a file.
    pub stop: &'s AtomicBool,
}

impl Source<'_> {
    /// Gives the content, block by block. Once `stop` is set it fails with [`ErrorKind::Interrupted`].
    pub fn content(&self, write: &mut Write<'_>) -> io::Result<Holes> {
        let write: &mut Write<'_> = &mut |offset, bytes| match self.stop.load(Ordering::Relaxed) {
            true => Err(ErrorKind::Interrupted.into()),
            false => write(offset, bytes),
        };
        content::read(self.volume, self.file, self.allowed, write)
    }

    /// The target of a symbolic link, or the reason why it is missing.
    pub fn target(&self) -> io::Result<Result<Vec<u8>, Copied>> {
        let mut to = Vec::new();
        self.content(&mut |offset, bytes| {
            if offset == to.len() as u64 && to.len() <= SYMLINK_MAX {
                to.extend_from_slice(bytes);
            }
            Ok(())
        })?;
        if to.is_empty() || to.len() > SYMLINK_MAX || to.contains(&0) {
            let failed = Some("the target of the symbolic link is lost, damaged or encrypted");
            return Ok(Err(Copied { failed, ..Copied::default() }));
        }
        Ok(Ok(to))
    }
}

/// Problems found while copying.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copied {
    /// Blocks that became holes.
    pub holes: Holes,
    /// Whether extended attributes could not be read.
    pub xattrs_lost: bool,
    /// Extended attributes that the target does not take.
    pub refused_xattrs: u32,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// Whether it was there already.
    pub kept: bool,
    /// Whether it is a device and was left out.
    pub left_out: bool,
    /// Why it was not made.
    pub failed: Option<&'static str>,
}

/// Takes files. A path is the list of names below the root; a directory precedes its entries.
pub trait Sink {
    /// Makes a directory.
    fn make_dir(&mut self, path: &[Vec<u8>]) -> Result<(), RescueError>;

    /// Copies anything but a directory.
    fn copy(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<Copied, RescueError>;

    /// Makes a further name of a file.
    fn link(&mut self, first: &[Vec<u8>], path: &[Vec<u8>]) -> Result<(), RescueError>;

    /// Gives a directory its attributes, after its content was made.
    fn finish_dir(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<(), RescueError>;
}
