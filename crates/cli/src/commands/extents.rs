//! `segno extents`: where files are on the volume, of a live mount or of an image.
use crate::document::Schema;
use crate::exit::Outcome;
use crate::out::Elements;
use crate::path::{on_volume, reason};
use crate::storage::{Storage, StorageOptions};
use crate::{image, show};
use anyhow::{Context, Result, anyhow, ensure};
use rustix::io::Errno;
use segno::{DirEntry, Extent, Volume};
use segno_dump::put_name;
use segno_fuse::EXTENTS_XATTR;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show where files are on the volume
#[derive(clap::Args)]
pub struct Args {
    /// Every file below the directories
    #[arg(long)]
    all: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Read an image that is not mounted; PATH is a path on the volume
    #[arg(long, value_name = "IMAGE")]
    image: Option<PathBuf>,
    #[command(flatten)]
    storage: StorageOptions,
    /// Files, or directories with --all
    #[arg(required = true)]
    path: Vec<PathBuf>,
}

/// A run of blocks, in the words of the server's text.
#[derive(Serialize)]
struct Run {
    file_block: u64,
    addr: u64,
    len: u64,
    kind: String,
}

pub fn run(args: &Args) -> Outcome {
    let mut out = Elements::begin(args.json, Schema("segno.extents", 1), "files")?;
    let done = all(args, &mut out);
    out.finish()?;
    done
}

fn all(args: &Args, out: &mut Elements) -> Outcome {
    let mut code = ExitCode::SUCCESS;
    match &args.image {
        Some(image) => {
            let volume = Storage::open(image, &args.storage, true)?.volume()?;
            for path in &args.path {
                code = from_image(&volume, path, args, out)?.unwrap_or(code);
            }
        }
        None => args.path.iter().try_for_each(|path| live(path, args.all, out))?,
    }
    Ok(code)
}

fn live(path: &Path, all: bool, out: &mut Elements) -> Result<()> {
    let meta = path.symlink_metadata().with_context(|| format!("cannot read {}", show::path(path)))?;
    if meta.is_file() {
        return print(out, path, &ask_server(path)?);
    }
    ensure!(all, "{} is not a file; --all shows every file below a directory", show::path(path));
    let mut dirs = vec![path.to_owned()];
    while let Some(dir) = dirs.pop() {
        let cannot = || format!("cannot read {}", show::path(&dir));
        for entry in std::fs::read_dir(&dir).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let below = entry.metadata().with_context(cannot)?;
            if below.is_file() {
                print(out, &entry.path(), &ask_server(&entry.path())?)?;
            } else if below.is_dir() && below.dev() == meta.dev() {
                dirs.push(entry.path());
            }
        }
    }
    Ok(())
}

fn ask_server(path: &Path) -> Result<Vec<Run>> {
    let answer = image::answer(path, EXTENTS_XATTR).map_err(|e| match e {
        Errno::TOOBIG => {
            let shown = show::path(path);
            anyhow!("{shown} has more extents than an attribute can hold: unmount and use --image")
        }
        e => image::unanswered(e, path, || format!("cannot read the extents of {}", show::path(path))),
    })?;
    let runs: Option<Vec<Run>> = String::from_utf8_lossy(&answer).lines().map(parse_line).collect();
    runs.context("the server's response is malformed")
}

fn parse_line(line: &str) -> Option<Run> {
    let mut words = line.split(' ');
    let mut number = || words.next()?.parse().ok();
    let (file_block, addr, len) = (number()?, number()?, number()?);
    Some(Run { file_block, addr, len, kind: words.next()?.to_owned() })
}

/// Returns the exit code if a part of the tree could not be read.
fn from_image(volume: &Volume, path: &Path, args: &Args, out: &mut Elements) -> Result<Option<ExitCode>> {
    let start = on_volume(path, volume.metadata(path))?;
    if start.is_file() {
        return print(out, path, &runs_of(&on_volume(path, volume.extents(path))?)).map(|()| None);
    }
    let is_dir = args.all && start.is_dir();
    ensure!(is_dir, "{} is not a file; --all shows every file below a directory", show::path(path));
    let mut code = None;
    for entry in on_volume(path, volume.walk(path))? {
        match entry.map_err(anyhow::Error::from).and_then(|entry| Ok((below(volume, &entry)?, entry))) {
            Ok((Some(runs), entry)) => print(out, entry.path(), &runs)?,
            Ok((None, _)) => {}
            // The rest is shown.
            Err(e) => code = Some(out.style().report(Err(e))),
        }
    }
    Ok(code)
}

/// The extents of a file; nothing else has any.
fn below(volume: &Volume, entry: &DirEntry) -> Result<Option<Vec<Run>>> {
    if !entry.metadata()?.is_file() {
        return Ok(None);
    }
    let found = reason(volume.inode_extents(entry.ino()));
    let found = found.with_context(|| format!("extents of {}", show::path(entry.path())))?;
    Ok(Some(runs_of(&found)))
}

fn runs_of(extents: &[Extent]) -> Vec<Run> {
    let run = |e: &Extent| Run {
        file_block: e.file_block,
        addr: e.addr.into(),
        len: e.len,
        kind: e.kind.name().to_owned(),
    };
    extents.iter().map(run).collect()
}

fn print(out: &mut Elements, path: &Path, runs: &[Run]) -> Result<()> {
    Ok(out.push(|| json_of(path, runs), || text_of(path, runs))?)
}

fn text_of(path: &Path, runs: &[Run]) -> String {
    let line = |r: &Run| {
        let is_placed = r.kind == "written" || r.kind == "compressed";
        let place = if is_placed { r.addr.to_string() } else { "-".into() };
        format!("  {:>10} + {:<8} at {place:>10}  {}\n", r.file_block, r.len, r.kind)
    };
    let lines: String = runs.iter().map(line).collect();
    format!("{}: {} extent(s)\n{lines}", show::path(path), runs.len())
}

fn json_of(path: &Path, runs: &[Run]) -> Value {
    let mut map = Map::new();
    put_name(&mut map, "path", path.as_os_str().as_bytes());
    map.insert("extents".into(), json!(runs));
    Value::Object(map)
}
