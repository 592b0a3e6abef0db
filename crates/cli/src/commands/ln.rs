//! `segno ln`: links in an image.
use super::mv::into;
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::path::on_volume;
use crate::show;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};

/// Make links in an image
///
/// A hard link to a symbolic link is one to the link itself.
#[derive(clap::Args)]
pub struct Args {
    /// Make symbolic links; targets are stored as they are
    #[arg(short, long)]
    symbolic: bool,
    /// Replace existing files
    #[arg(short, long)]
    force: bool,
    /// Existing files; with -s any text
    #[arg(required = true, num_args = 1.., value_name = "TARGET")]
    targets: Vec<PathBuf>,
    /// Path of the link, or an existing directory that links are made in, as it has to be for several
    link: PathBuf,
}

impl FileCommand for Args {
    fn run(&self, files: &Files<'_>) -> Outcome {
        let mut links = into(files, &self.targets, &self.link)?.into_iter();
        let mut targets = self.targets.iter();
        files.each(&self.targets, |path| match (links.next(), targets.next()) {
            (Some(link), Some(target)) if self.symbolic => self.one(files, target, &link),
            (Some(link), _) => self.one(files, path, &link),
            _ => Ok(()),
        })
    }
}

impl Args {
    fn one(&self, files: &Files<'_>, target: &Path, link: &Path) -> Result<()> {
        let volume = files.volume;
        let target_ino = match self.symbolic {
            true => None,
            false => Some(on_volume(target, volume.symlink_metadata(target))?.ino()),
        };
        if let Some(old) = volume.symlink_metadata(link).ok().filter(|_| self.force) {
            let (from, to) = (show::path(target), show::path(link));
            ensure!(target_ino != Some(old.ino()), "{from} and {to} on the volume are the same file");
            on_volume(link, volume.remove_file(link))?;
        }
        match self.symbolic {
            true => on_volume(link, volume.symlink(target, link)),
            false => on_volume(link, volume.hard_link(target, link)),
        }
    }
}
