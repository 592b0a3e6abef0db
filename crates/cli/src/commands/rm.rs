//! `segno rm`: removes names of an image.
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::path::{ends_with_dot, names_a_directory, on_volume};
use crate::show;
use anyhow::{Result, bail, ensure};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Remove files and directories of an image
///
/// Symbolic links are removed and not followed.
#[derive(clap::Args)]
pub struct Args {
    /// Remove directories and everything below them
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,
    /// Ignore paths that do not exist
    #[arg(short, long)]
    force: bool,
    /// Paths on the volume
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl FileCommand for Args {
    fn run(&self, files: &Files<'_>) -> Outcome {
        files.each(&self.paths, |path| self.one(files, path))
    }
}

impl Args {
    fn one(&self, files: &Files<'_>, path: &Path) -> Result<()> {
        let found = match files.volume.symlink_metadata(path) {
            Err(e) if self.force && matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(());
            }
            found => on_volume(path, found)?,
        };
        if !found.is_dir() {
            ensure!(!names_a_directory(path), "{} on the volume is not a directory", show::path(path));
            return on_volume(path, files.volume.remove_file(path));
        }
        if !self.recursive {
            bail!("{} on the volume is a directory: -r removes it and everything below it", show::path(path));
        }
        ensure!(!ends_with_dot(path), "{}: name the directory itself to remove it", show::path(path));
        on_volume(path, files.volume.remove_dir_all(path))
    }
}
