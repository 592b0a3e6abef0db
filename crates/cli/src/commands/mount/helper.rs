//! Calls by mount(8): as /sbin/mount.segno or /sbin/mount.fuse.segno, or by mount.fuse3 as `segno DEV DIR -o …`.
use super::Args;
use crate::exit::{self, Outcome};
use crate::mount::options::Settings;
use crate::mount::remount;
use crate::storage::DeviceOption;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

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
        image: Some(image),
        dir: Some(dir),
        foreground: helper.foreground,
        json: false,
        verbose: helper.verbose,
        detach: false,
        kept: false,
        takeover: false,
        devices: DeviceOption::default(),
    };
    super::start(&args, Settings::of_caller(&args.options)?)
}
