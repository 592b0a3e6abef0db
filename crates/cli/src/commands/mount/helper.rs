//! Calls by mount(8): as /sbin/mount.segno or /sbin/mount.fuse.segno, or by mount.fuse3 as `segno DEV DIR -o …`.
use crate::commands::mount::{self, Args};
use crate::exit::{self, Outcome};
use crate::mount::remount;
use crate::storage::DeviceOption;
use clap::{CommandFactory, Parser};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const NAMES: [&str; 2] = ["mount.segno", "mount.fuse.segno"];

/// Mounts an image, on behalf of mount(8).
#[derive(Parser)]
#[command(name = "mount.segno", version)]
struct Helper {
    /// Image file or block device
    source: PathBuf,
    /// Where to mount it
    dir: PathBuf,
    /// Mount options
    #[arg(short)]
    options: Vec<String>,
    /// Stay in the foreground
    #[arg(short)]
    foreground: bool,
    /// Read-only, as -o ro
    #[arg(short)]
    read_only: bool,
    /// Accepted; there is no mtab to write
    #[arg(short)]
    no_mtab: bool,
    /// Accepted; unknown options remain errors
    #[arg(short)]
    sloppy: bool,
    /// Report what is done
    #[arg(short)]
    verbose: bool,
    /// Accepted: read-write is the default
    #[arg(short)]
    write: bool,
    /// Accepted: the type mount(8) was called with
    #[arg(short)]
    type_name: Option<String>,
}

/// The command line of mount.segno, for its manual page.
pub fn command() -> clap::Command {
    Helper::command()
}

/// Whether mount(8) or its helper makes this call, not a user.
pub fn is_mount_helper(args: &[OsString]) -> bool {
    let name = args.first().and_then(|a| Path::new(a).file_name());
    let by_name = name.is_some_and(|n| NAMES.iter().any(|h| n == OsStr::new(h)));
    by_name || is_mount_fuse(args)
}

/// Whether mount.fuse3 makes the call: `segno SOURCE DIR -o …` with an absolute path. No subcommand has a slash, and a user
/// who names an image gets an answer.
fn is_mount_fuse(args: &[OsString]) -> bool {
    let is_absolute = |a: &OsString| a.as_bytes().starts_with(b"/");
    match args {
        [_, source, dir, options, ..] => is_absolute(source) && is_absolute(dir) && options == "-o",
        _ => false,
    }
}

/// Mounts for mount(8).
pub fn run(args: &[OsString]) -> Outcome {
    let helper = match Helper::try_parse_from(args) {
        Ok(helper) => helper,
        Err(e) => return Ok(exit::Style::Text.usage(e, exit::FAILED)),
    };
    let mut options = helper.options;
    if helper.read_only {
        options.push("ro".into());
    }
    if options.iter().flat_map(|o| o.split(',')).any(|o| o == "remount") {
        remount::run(&helper.dir, &options)?;
        return Ok(ExitCode::SUCCESS);
    }
    if helper.verbose {
        println!("segno: mounting {} at {}", helper.source.display(), helper.dir.display());
    }
    let (image, dir) = (helper.source, helper.dir);
    let args = Args {
        options,
        image,
        dir,
        foreground: helper.foreground,
        verbose: helper.verbose,
        detach: false,
        takeover: false,
        devices: DeviceOption::default(),
    };
    mount::run(&args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_names_an_image_is_not_mount() {
        for (call, is_helper) in [
            ("/sbin/mount.segno /img /mnt", true),
            ("mount.fuse.segno img mnt -o ro", true),
            ("/usr/bin/segno /srv/img /mnt -o rw,dev,suid", true),
            ("segno ./img", false),
            ("segno /img", false),
            ("segno /img /mnt", false),
            ("segno check /img", false),
            ("segno mount /img /mnt -o ro", false),
        ] {
            let args: Vec<OsString> = call.split(' ').map(OsString::from).collect();
            assert_eq!(is_mount_helper(&args), is_helper, "{call}");
        }
    }
}
