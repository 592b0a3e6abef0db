//! `segno mv`: renames in an image.
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::path::{on_volume, places, refuse_equal};
use crate::show;
use anyhow::{Result, ensure};
use segno::Volume;
use std::path::{Path, PathBuf};

/// Move or rename files and directories of an image
///
/// An existing file is replaced atomically, even if the power is cut.
#[derive(clap::Args)]
pub struct Args {
    /// Replace existing files, as without it
    #[arg(short, long, overrides_with = "no_clobber")]
    force: bool,
    /// Keep existing files, and do not move the files that would replace them
    #[arg(short, long, overrides_with = "force")]
    no_clobber: bool,
    /// Paths on the volume
    #[arg(required = true, num_args = 1.., value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// New path, or an existing directory that they are moved into, as it has to be for several
    dest: PathBuf,
}

impl FileCommand for Args {
    fn run(&self, files: &Files<'_>) -> Outcome {
        let first = self.paths.first().map(|path| files.volume.symlink_metadata(files.path(path)));
        let is_dir = first.is_some_and(|found| found.is_ok_and(|found| found.is_dir()));
        let mut new = into(files, &self.paths, is_dir, &self.dest)?.into_iter();
        files.each(&self.paths, |path| match new.next() {
            Some(new) => self.one(files, path, &new),
            None => Ok(()),
        })
    }
}

/// The new paths of files that get other names, in the destination if it is a directory. `is_dir` is that of [`places`].
pub fn into(files: &Files<'_>, from: &[PathBuf], is_dir: bool, dest: &Path) -> Result<Vec<PathBuf>> {
    let names: Vec<&Path> = from.iter().map(|path| Path::new(path.file_name().unwrap_or_default())).collect();
    refuse_equal(names.iter())?;
    places(files.volume, &files.path(dest), is_dir, names.into_iter())
}

impl Args {
    fn one(&self, files: &Files<'_>, path: &Path, new: &Path) -> Result<()> {
        let volume = files.volume;
        let found = on_volume(path, volume.symlink_metadata(path))?;
        let old = volume.symlink_metadata(new).ok();
        if old.is_some() && self.no_clobber {
            return Ok(());
        }
        let (from, to) = (show::path(path), show::path(new));
        if let Some(old) = &old {
            ensure!(found.is_dir() || !old.is_dir(), "{to} on the volume is a directory, and {from} is none");
        }
        if old.is_some_and(|old| old.ino() == found.ino()) {
            // In a directory that ignores case it may be one name, which gets another spelling.
            ensure!(!has_entry(volume, new), "{from} and {to} on the volume are the same file");
        }
        on_volume(path, volume.rename(path, new))
    }
}

/// Whether a name is in its directory in this spelling.
fn has_entry(volume: &Volume, path: &Path) -> bool {
    let mut entries = path.parent().and_then(|dir| volume.read_dir(dir).ok()).into_iter().flatten().flatten();
    entries.any(|entry| Some(entry.file_name().as_os_str()) == path.file_name())
}
