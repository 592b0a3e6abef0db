//! `segno ln`: links in an image.
use super::mv::into;
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::path::on_volume;
use crate::show;
use anyhow::{Result, ensure};
use segno::Volume;
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
        let mut links = into(files, &self.targets, false, &self.link)?.into_iter();
        let mut targets = self.targets.iter();
        files.each(&self.targets, |path| match (links.next(), targets.next()) {
            (Some(link), Some(target)) if self.symbolic => self.one(files, path, target, &link),
            (Some(link), _) => self.one(files, path, path, &link),
            _ => Ok(()),
        })
    }
}

impl Args {
    /// Makes the link to what is at `path` now. The text of a symbolic link is `target`.
    fn one(&self, files: &Files<'_>, path: &Path, target: &Path, link: &Path) -> Result<()> {
        let volume = files.volume;
        let found = match self.symbolic {
            true => volume.metadata(path).ok(),
            false => Some(on_volume(path, volume.symlink_metadata(path))?),
        };
        if let Some(old) = volume.symlink_metadata(link).ok().filter(|_| self.force) {
            // The last name of a file does not give way to a link to it.
            let is_same = found.is_some_and(|found| found.ino() == old.ino());
            let is_last = !self.symbolic || old.nlink() == 1 || are_one_name(volume, path, link);
            let (from, to) = (show::path(path), show::path(link));
            ensure!(!is_same || !is_last, "{from} and {to} on the volume are the same file");
            on_volume(link, volume.remove_file(link))?;
        }
        match self.symbolic {
            true => on_volume(link, volume.symlink(target, link)),
            false => on_volume(link, volume.hard_link(target, link)),
        }
    }
}

/// Whether two paths of a file lead to it by one name of one directory.
fn are_one_name(volume: &Volume, one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let dir = path.parent().and_then(|dir| volume.metadata(dir).ok());
        dir.zip(path.file_name()).map(|(dir, name)| (dir.ino(), name.to_owned()))
    };
    place(one) == place(other)
}
