//! `segno extents`: where files are on the volume, of a live mount or of an image.
use crate::exit::Outcome;
use crate::path::{on_volume, reason};
use crate::storage::StorageOptions;
use crate::{image, show};
use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::fs::getxattr;
use rustix::io::Errno;
use segno::{Extent, ExtentKind, Volume};
use segno_fuse::EXTENTS_XATTR;
use serde_json::{Value, json};
use std::io::{Write, stdout};
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
struct Run {
    file_block: u64,
    addr: u64,
    len: u64,
    kind: String,
}

pub fn run(args: &Args) -> Outcome {
    let mut out = stdout().lock();
    let mut files = Vec::new();
    let mut each = |path: &[u8], runs: Vec<Run>| {
        if args.json {
            files.push(json_of(path, &runs));
            return Ok(());
        }
        print(&mut out, path, &runs)
    };
    match &args.image {
        Some(image) => {
            let volume = image::volume_read_only(image, &args.storage)?;
            for path in &args.path {
                from_image(&volume, path, args.all, &mut each)?;
            }
        }
        None => {
            for path in &args.path {
                live(path, args.all, &mut each)?;
            }
        }
    }
    if args.json {
        writeln!(stdout(), "{:#}", Value::from(files))?;
    }
    Ok(ExitCode::SUCCESS)
}

type Each<'a> = &'a mut dyn FnMut(&[u8], Vec<Run>) -> Result<()>;

fn live(path: &Path, all: bool, each: Each<'_>) -> Result<()> {
    let meta = path.symlink_metadata().with_context(|| format!("cannot read {}", path.display()))?;
    if meta.is_file() {
        return each(path.as_os_str().as_bytes(), ask_server(path)?);
    }
    ensure!(all, "{} is not a file; --all shows every file below a directory", path.display());
    let mut dirs = vec![path.to_owned()];
    while let Some(dir) = dirs.pop() {
        let cannot = || format!("cannot read {}", dir.display());
        for entry in std::fs::read_dir(&dir).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            let below = entry.metadata().with_context(cannot)?;
            if below.is_file() {
                each(entry.path().as_os_str().as_bytes(), ask_server(&entry.path())?)?;
            } else if below.is_dir() && below.dev() == meta.dev() {
                dirs.push(entry.path());
            }
        }
    }
    Ok(())
}

fn ask_server(path: &Path) -> Result<Vec<Run>> {
    let mut buffer = vec![0; 65_536];
    let n = getxattr(path, EXTENTS_XATTR, &mut buffer).map_err(|e| match e {
        Errno::OPNOTSUPP | Errno::NODATA => image::not_mounted(path),
        Errno::TOOBIG => {
            anyhow!("{} has more extents than an attribute can hold: unmount and use --image", path.display())
        }
        e => anyhow!(e).context(format!("cannot read the extents of {}", path.display())),
    })?;
    let answer = String::from_utf8_lossy(buffer.get(..n).unwrap_or_default()).into_owned();
    let runs: Option<Vec<Run>> = answer.lines().map(parse_line).collect();
    runs.context("the server's response is malformed")
}

fn parse_line(line: &str) -> Option<Run> {
    let mut words = line.split(' ');
    let mut number = || words.next()?.parse().ok();
    let (file_block, addr, len) = (number()?, number()?, number()?);
    Some(Run { file_block, addr, len, kind: words.next()?.to_owned() })
}

fn from_image(volume: &Volume, path: &Path, all: bool, each: Each<'_>) -> Result<()> {
    let Some(text) = path.to_str() else { bail!("{} is not UTF-8", path.display()) };
    let start = on_volume(text, volume.metadata(path))?;
    if start.is_file() {
        return each(text.as_bytes(), runs_of(&reason(volume.extents(path))?));
    }
    ensure!(all && start.is_dir(), "{text} is not a file; --all shows every file below a directory");
    let mut dirs = vec![reason(volume.read_dir(path))?];
    while let Some(dir) = dirs.pop() {
        for entry in dir {
            let entry = reason(entry).context("reading a directory")?;
            let (below, path) = (reason(entry.metadata())?, entry.path());
            if below.is_file() {
                each(path.as_os_str().as_bytes(), runs_of(&reason(volume.extents(path))?))?;
            } else if below.is_dir() {
                dirs.push(reason(entry.read_dir())?);
            }
        }
    }
    Ok(())
}

fn runs_of(extents: &[Extent]) -> Vec<Run> {
    let kind = |k| match k {
        ExtentKind::Written => "written",
        ExtentKind::Unwritten => "unwritten",
        ExtentKind::Compressed => "compressed",
        ExtentKind::Inline => "inline",
    };
    let run = |e: &Extent| Run {
        file_block: e.file_block,
        addr: e.addr.into(),
        len: e.len,
        kind: kind(e.kind).to_owned(),
    };
    extents.iter().map(run).collect()
}

fn print(out: &mut impl Write, path: &[u8], runs: &[Run]) -> Result<()> {
    out.write_all(path)?;
    writeln!(out, ": {} extent(s)", runs.len())?;
    for r in runs {
        let place =
            if r.kind == "written" || r.kind == "compressed" { r.addr.to_string() } else { "-".into() };
        writeln!(out, "  {:>10} + {:<8} at {place:>10}  {}", r.file_block, r.len, r.kind)?;
    }
    Ok(())
}

fn json_of(path: &[u8], runs: &[Run]) -> Value {
    let extents: Vec<Value> = runs
        .iter()
        .map(|r| json!({ "file_block": r.file_block, "addr": r.addr, "len": r.len, "kind": r.kind }))
        .collect();
    json!({ "path": show::name(path), "extents": extents })
}
