//! `segno mount`: starts a server and returns when the mount responds.
pub mod helper;

use super::mounts;
use crate::completion::Completing;
use crate::confine::ConfineOption;
use crate::document::Schema;
use crate::exit::{Outcome, describe, usage};
use crate::mount::options::{Settings, help, words};
use crate::mount::supervisor::Supervisor;
use crate::mount::{Plan, Readiness, Systemd, run as serve, spawn};
use crate::out::{self, stdout};
use crate::show;
use crate::storage::DeviceOption;
use anyhow::{Result, anyhow};
use clap::builder::StringValueParser;
use segno_format::text;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Mount an image
#[derive(clap::Args)]
#[command(after_help = help::text())]
pub struct Args {
    /// Mount options
    #[arg(short, long, value_name = "OPTION,…", value_delimiter = ',', value_parser = Completing(StringValueParser::new(), words), hide_possible_values = true)]
    pub options: Vec<String>,
    /// Stay in the foreground instead of returning when the mount responds
    #[arg(short, long)]
    pub foreground: bool,
    /// Print JSON when the mount responds
    #[arg(long)]
    pub json: bool,
    /// Take a volume on an object store from a writer that may be alive, as -o takeover does
    #[arg(long)]
    pub takeover: bool,
    /// Report transport, threads, what sync(2) does, the mode of the page cache, options without effect, whether space is not
    /// guarded, and which restrictions of the server the kernel does not have
    #[arg(short, long)]
    pub verbose: bool,
    /// Report on standard output when the mount responds, then detach from the terminal
    #[arg(long, hide = true)]
    pub detach: bool,
    /// Another process starts this one again
    #[arg(long, hide = true)]
    pub kept: bool,
    #[command(flatten)]
    pub devices: DeviceOption,
    /// Image file, block device, s3://BUCKET/PREFIX or file:///DIR; without any, mounts are listed as by `segno mounts`
    #[arg(requires = "dir")]
    pub image: Option<PathBuf>,
    /// Directory to mount at
    pub dir: Option<PathBuf>,
}

pub fn run(args: &Args) -> Outcome {
    if args.image.is_none() {
        return mounts::run(&mounts::Args::default());
    }
    // Opened before a server drops the right to.
    let systemd = args.foreground.then(Systemd::open).flatten();
    let done = Settings::of_caller(&args.options).map_err(usage).and_then(|settings| start(args, settings));
    if let (Some(systemd), Err(why)) = (systemd, &done) {
        systemd.failed(&text::line(describe(why).as_bytes()));
    }
    done
}

/// Mounts with these options.
fn start(args: &Args, mut settings: Settings) -> Outcome {
    let (Some(image), Some(dir)) = (&args.image, &args.dir) else {
        return Err(usage(anyhow!("an image and a directory are needed")));
    };
    if !args.detach && !args.kept {
        settings.print_renamed();
    }
    settings.store.takeover |= args.takeover;
    let image = settings.find_devices(image, &args.devices)?;
    settings.kept = args.kept;
    let plan = Plan::new(&image, dir, settings)?;
    if args.foreground || args.detach {
        let log = plan.settings.log.as_deref();
        let readiness = match (args.detach, args.kept) {
            (true, _) => Readiness::background(log)?,
            (false, true) => Readiness::kept()?,
            (false, false) => Readiness::foreground(),
        };
        if plan.settings.restart && !args.kept {
            return supervisor(&plan, args).run(readiness, args.verbose);
        }
        let verbose = ConfineOption { verbose: args.verbose };
        serve(&plan, &verbose, |started, note| {
            let mut notes = Vec::new();
            if args.verbose {
                notes.extend([started.transport.to_string(), started.mount_type.to_string()]);
                notes.push(started.page_cache.to_string());
                notes.extend(
                    plan.settings.ignored.iter().map(|i| format!("{} has no effect: {}", i.word, i.reason)),
                );
                notes.extend(note);
            }
            readiness.announce(notes.into_iter());
            let mode = if plan.settings.engine.read_only { "read-only" } else { "read-write" };
            let (image, dir) = (plan.image.display(), plan.dir.display());
            out::event(format_args!("{image} is mounted at {dir}, {mode}, {}", started.transport));
            if args.json && !args.detach && print(&plan).is_err() {
                eprintln!("segno: the mount responds, but that could not be printed");
            }
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    warn_if_not_empty(&plan)?;
    if let Some(failed) = spawn(&server_args(&plan, args), &plan.dir)? {
        return Ok(failed);
    }
    if args.json {
        print(&plan)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(plan: &Plan) -> io::Result<()> {
    let paths = show::paths(&[("image", &plan.image), ("dir", &plan.dir)]);
    Schema("segno.mount", 1).print(stdout(), &paths)
}

/// A mount hides the files below its directory; that is legal but seldom intended.
fn warn_if_not_empty(plan: &Plan) -> Result<()> {
    if std::fs::read_dir(&plan.dir)?.next().is_some() {
        eprintln!("segno: note: {} is not empty; its files are hidden while mounted", plan.dir.display());
    }
    Ok(())
}

fn server_args(plan: &Plan, original: &Args) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["mount".into(), "--detach".into()];
    args.extend(options(original));
    args.extend(["--".into(), plan.image.clone().into(), plan.dir.clone().into()]);
    args
}

/// The options of a server, but for how it reports.
fn options(original: &Args) -> Vec<OsString> {
    let mut args: Vec<OsString> = Vec::new();
    if original.verbose {
        args.push("--verbose".into());
    }
    if original.json {
        args.push("--json".into());
    }
    if original.takeover {
        args.push("--takeover".into());
    }
    for option in &original.options {
        args.extend(["-o".into(), option.into()]);
    }
    for device in &original.devices.further {
        args.extend(["--device".into(), device.into()]);
    }
    args
}

fn supervisor(plan: &Plan, original: &Args) -> Supervisor {
    Supervisor {
        image: plan.image.clone(),
        dir: plan.dir.clone(),
        server: options(original),
        foreground: original.foreground,
    }
}
