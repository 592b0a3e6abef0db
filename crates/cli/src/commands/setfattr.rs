//! `segno setfattr`: extended attributes in an image.
use super::getfattr::target;
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::path::on_volume;
use crate::xattr_value;
use anyhow::{Result, anyhow};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Set or remove extended attributes in an image
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// Name of the attribute to set: user.…, trusted.…, security.… or system.posix_acl_…
    #[arg(short, long, required_unless_present = "remove")]
    name: Option<OsString>,
    /// Its value, empty without this option: text, 0x… in hexadecimal or 0s… in base64. In text, \ begins three octal digits or a
    /// character that stands for itself
    #[arg(short, long, allow_hyphen_values = true, requires = "name")]
    value: Option<OsString>,
    /// Name of the attribute to remove
    #[arg(short = 'x', long, value_name = "NAME", conflicts_with = "name")]
    remove: Option<OsString>,
    /// Take symbolic links themselves
    #[arg(short = 'h', long)]
    no_dereference: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Paths on the volume
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

impl FileCommand for Args {
    fn run(&self, files: &Files<'_>) -> Outcome {
        let given = self.value.as_deref().unwrap_or_default();
        let value = xattr_value::decode(given.as_bytes()).map_err(|e| anyhow!("the value of -v: {e}"))?;
        files.each(&self.paths, |path| self.one(files, path, &value))
    }
}

impl Args {
    fn one(&self, files: &Files<'_>, path: &Path, value: &[u8]) -> Result<()> {
        let at = target(files, path, self.no_dereference)?;
        on_volume(
            path,
            match (&self.name, &self.remove) {
                (Some(name), _) => files.volume.set_xattr(&at, name, value),
                (None, Some(name)) => files.volume.remove_xattr(&at, name),
                (None, None) => Ok(()),
            },
        )
    }
}
