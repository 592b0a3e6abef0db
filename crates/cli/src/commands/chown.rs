//! `segno chown`: owners in an image.
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::path::on_volume;
use anyhow::Result;
use segno::{Metadata, SetMetadata};
use std::path::{Path, PathBuf};
use std::str::FromStr;

const CAPABILITY: &str = "security.capability";

/// Change owners in an image
///
/// As on a mount, files lose set-ID bits and capabilities.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Include everything below directories; symbolic links are changed themselves
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Change symbolic links themselves
    #[arg(short = 'h', long)]
    no_dereference: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// UID, UID:GID or :GID, as numbers: the volume may have other users than this machine
    #[arg(value_name = "OWNER")]
    owner: Owner,
    /// Paths on the volume
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug)]
struct Owner {
    uid: Option<u32>,
    gid: Option<u32>,
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "{text:?} is no owner; examples: 1000, 1000:100, :100 (numbers, as names belong to a machine)"
            )
        };
        // The last number stands for none.
        let number = |text: &str| text.parse().ok().filter(|&id| id != u32::MAX).ok_or_else(bad).map(Some);
        match text.split_once(':') {
            None => Ok(Self { uid: number(text)?, gid: None }),
            Some(("", gid)) => Ok(Self { uid: None, gid: number(gid)? }),
            Some((uid, gid)) => Ok(Self { uid: number(uid)?, gid: number(gid)? }),
        }
    }
}

impl FileCommand for Args {
    fn run(&self, files: &Files<'_>) -> Outcome {
        files.each_below(&self.paths, self.recursive, |path, found, _| {
            if found.is_symlink() && !self.recursive && !self.no_dereference {
                let path = on_volume(path, files.volume.canonicalize(path))?;
                let found = on_volume(&path, files.volume.metadata(&path))?;
                return self.one(files, &path, &found);
            }
            self.one(files, path, found)
        })
    }
}

impl Args {
    fn one(&self, files: &Files<'_>, path: &Path, found: &Metadata) -> Result<()> {
        let Owner { uid, gid } = self.owner;
        let mut change = SetMetadata::new().owner(uid.unwrap_or(found.uid()), gid.unwrap_or(found.gid()));
        if found.is_file() {
            // Without group execution, members of the group keep it, as in Linux.
            let lost = if found.mode() & 0o010 != 0 { 0o6000 } else { 0o4000 };
            if found.mode() & lost != 0 {
                change = change.mode(found.mode() & !lost);
            }
            if on_volume(path, files.volume.xattr(path, CAPABILITY))?.is_some() {
                on_volume(path, files.volume.remove_xattr(path, CAPABILITY))?;
            }
        }
        on_volume(path, files.volume.set_symlink_metadata(path, &change))
    }
}
