//! What files are copied to: a directory, or a volume that the caller makes.
use super::node::{Copied, Source};
use crate::RescueError;

/// Takes files. A path is the names from below the root; a directory comes before what is in it.
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
