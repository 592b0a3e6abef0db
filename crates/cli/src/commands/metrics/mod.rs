//! `segno metrics`: the counters of mounts for monitoring systems.
mod clients;
#[cfg(test)]
mod dashboard;
#[cfg(test)]
mod fuzz;
mod serve;
mod text;

use crate::counters::CounterSnapshot;
use crate::image;
use crate::mount::table;
use crate::out::stdout;
use anyhow::Result;
use segno_device::Mount;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use text::{Family, Format, Source};

/// Print or serve the counters of mounts as metrics
///
/// For node_exporter's textfile collector, print them to a file from a timer. --listen serves them over HTTP
/// at /metrics, in a separate process.
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
    // Two directories of one mount are one source.
    let found = args.dirs.iter().map(|dir| source(dir).map(|source| (source.dir.clone(), source)));
    let mut sources: Vec<Source> = found.collect::<Result<BTreeMap<_, _>>>()?.into_values().collect();
    tell_apart(&mut sources);
    Ok(text::render(&Family::of(&sources), args.format))
}

/// Copies of a volume have its UUID, and a series belongs to one mount: the directory is added.
fn tell_apart(sources: &mut [Source]) {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    sources.iter().for_each(|source| *count.entry(source.volume.clone()).or_default() += 1);
    for source in sources.iter_mut().filter(|source| count.get(&source.volume).is_some_and(|n| *n > 1)) {
        source.volume = format!("{} {}", source.volume, source.dir);
    }
}

fn source(dir: &Path) -> Result<Source> {
    let CounterSnapshot { volume, readings, slowest, .. } = CounterSnapshot::read(dir)?;
    let dir = dir.canonicalize()?;
    let mount = table::holding(&dir)?.filter(Mount::is_ours).ok_or_else(|| image::not_mounted(&dir))?;
    let image = mount.source.display().to_string();
    Ok(Source {
        volume: volume.unwrap_or_else(|| image.clone()),
        image,
        dir: mount.dir.display().to_string(),
        readings,
        slowest,
    })
}
