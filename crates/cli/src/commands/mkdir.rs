//! `segno mkdir`: makes directories in an image.
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::mode::{ModeChange, UMASK};
use crate::path::on_volume;
use anyhow::Result;
use segno::SetMetadata;
use std::path::{Path, PathBuf};

/// Make directories in an image
///
/// They belong to user and group 0, with the permissions 755 unless -m is given.
#[derive(clap::Args)]
pub struct Args {
    /// Make those above as well, and accept directories that exist
    #[arg(short, long)]
    parents: bool,
    /// Permissions, octal or symbolic as for chmod(1), which changes 777
    #[arg(short, long, allow_hyphen_values = true)]
    mode: Option<ModeChange>,
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
        let volume = files.volume;
        if self.parents {
            if volume.metadata(path).is_ok_and(|found| found.is_dir()) {
                return Ok(());
            }
            let above = path.parent().unwrap_or(Path::new(""));
            on_volume(above, volume.create_dir_all(above))?;
        }
        on_volume(path, volume.create_dir(path))?;
        let mode = self.mode.as_ref().map_or(0o777 & !UMASK, |mode| mode.apply(0o777, true));
        on_volume(path, volume.set_metadata(path, &SetMetadata::new().mode(mode)))
    }
}
