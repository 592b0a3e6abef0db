//! `segno metrics`: the counters of mounts for monitoring systems.
mod clients;
#[cfg(test)]
mod dashboard;
#[cfg(test)]
mod fuzz;
mod serve;
mod text;

use crate::counters;
use crate::image;
use crate::mount::table;
use crate::out::stdout;
use anyhow::Result;
use segno_device::{Mount, observe_storage};
use segno_format::superblock::uuid_text;
use std::io::Write;
use std::path::{Path, PathBuf};
use text::{Family, Format, Source};

/// Print or serve the counters of mounts as metrics
///
/// For node_exporter's textfile collector, print them to a file from a timer. --listen serves them over HTTP at /metrics, in
/// a process of its own.
#[derive(clap::Args)]
pub struct Args {
    /// Format of the text
    #[arg(long, value_enum, default_value_t = Format::Openmetrics)]
    format: Format,
    /// Serve at this address of the loopback interface, for example 127.0.0.1:9750, or at unix:/run/segno.sock
    #[arg(long, value_name = "ADDR")]
    listen: Option<serve::Address>,
    /// Any file or directory of each mount
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
}

pub fn run(args: &Args) -> Result<()> {
    if let Some(address) = &args.listen {
        collect(args)?;
        return serve::run(address, args.format.content_type(), || collect(args));
    }
    Ok(stdout().write_all(collect(args)?.as_bytes())?)
}

/// The metrics of all mounts.
fn collect(args: &Args) -> Result<String> {
    let sources = args.dirs.iter().map(|dir| source(dir)).collect::<Result<Vec<Source>>>()?;
    Ok(text::render(&Family::of(&sources), args.format))
}

fn source(dir: &Path) -> Result<Source> {
    let (readings, slowest) = counters::read(dir)?;
    let dir = dir.canonicalize()?;
    let mount = table::holding(&dir)?.filter(Mount::is_ours).ok_or_else(|| image::not_mounted(&dir))?;
    Ok(Source {
        volume: uuid(&mount.source).unwrap_or_else(|| "unknown".into()),
        image: mount.source.display().to_string(),
        dir: mount.dir.display().to_string(),
        readings,
        slowest,
    })
}

/// The volume id, if this user may read the image.
fn uuid(image: &Path) -> Option<String> {
    let device = observe_storage(image).ok()?;
    Some(uuid_text(&segno::inspect::superblock(&*device).ok()?.raw.uuid))
}
