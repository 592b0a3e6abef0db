//! `segno touch`: times in an image, and empty files.
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::path::on_volume;
use crate::time;
use anyhow::Result;
use segno::{Metadata, OpenOptions, SetMetadata, Time};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Set the times of files of an image, or make empty files
///
/// The times of the last access and of the last change of content are set, to the present unless -d, -t or -r is given.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Set the time of the last access only
    #[arg(short)]
    access: bool,
    /// Set the time of the last change of content only
    #[arg(short)]
    modification: bool,
    /// Make no files
    #[arg(short = 'c', long)]
    no_create: bool,
    /// Set the times of symbolic links themselves; make no files
    #[arg(short = 'h', long)]
    no_dereference: bool,
    /// Time, in UTC unless it has an offset: 2026-11-20, "2026-11-20 13:05:09.5", 2026-11-20T13:05+01:00, or @ and seconds since 1970
    #[arg(short, long, value_name = "TIME", value_parser = time::parse)]
    date: Option<Time>,
    /// Time in UTC, as [[CC]YY]MMDDhhmm[.ss]
    #[arg(short = 't', value_name = "STAMP", value_parser = time::stamp, conflicts_with = "date")]
    stamp: Option<Time>,
    /// The times of this path on the volume
    #[arg(short, long, value_name = "PATH", conflicts_with_all = ["date", "stamp"])]
    reference: Option<PathBuf>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Paths on the volume
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl FileCommand for Args {
    fn run(&self, files: &Files<'_>) -> Outcome {
        let (accessed, modified) = self.times(files)?;
        let mut change = SetMetadata::new();
        if self.access || !self.modification {
            change = change.accessed(accessed);
        }
        if self.modification || !self.access {
            change = change.modified(modified);
        }
        files.each(&self.paths, |path| self.one(files, path, &change))
    }
}

impl Args {
    /// The new times of last access and of last change of content.
    fn times(&self, files: &Files<'_>) -> Result<(Time, Time)> {
        if let Some(path) = &self.reference {
            let found = on_volume(path, self.found(files, path))?;
            return Ok((found.accessed(), found.modified()));
        }
        let time = self.date.or(self.stamp).unwrap_or_else(|| SystemTime::now().into());
        Ok((time, time))
    }

    fn found(&self, files: &Files<'_>, path: &Path) -> segno::Result<Metadata> {
        if self.no_dereference { files.volume.symlink_metadata(path) } else { files.volume.metadata(path) }
    }

    fn one(&self, files: &Files<'_>, path: &Path, change: &SetMetadata) -> Result<()> {
        match self.found(files, path) {
            Err(e) if e.kind() == ErrorKind::NotFound && self.no_create => return Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound && !self.no_dereference => {
                let options = OpenOptions::new().write(true).create(true).mode(0o644);
                drop(on_volume(path, files.volume.open_file_with(path, &options))?);
            }
            found => drop(on_volume(path, found)?),
        }
        let set = if self.no_dereference {
            files.volume.set_symlink_metadata(path, change)
        } else {
            files.volume.set_metadata(path, change)
        };
        on_volume(path, set)
    }
}
