//! `segno ls`: a directory of an image.
use crate::document::Schema;
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::out::Elements;
use crate::path::{on_volume, reason};
use crate::show;
use crate::time;
use anyhow::{Context, Result};
use segno::{DirEntry, FileType, Metadata, Volume};
use segno_dump::put_name;
use serde_json::Value;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// List a directory of an image
///
/// Each name is one line, escaped also where standard output is no terminal: scripts should read --json.
#[derive(clap::Args)]
pub struct Args {
    /// Show attributes
    #[arg(short, long)]
    long: bool,
    /// Include subdirectories
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Path on the volume
    #[arg(default_value = ".")]
    path: PathBuf,
}

/// One file, by the path that is shown for it.
struct Item {
    path: PathBuf,
    attr: Metadata,
    target: Option<PathBuf>,
}

impl FileCommand for Args {
    fn changes(&self) -> bool {
        false
    }

    fn run(&self, files: &Files<'_>) -> Outcome {
        list(self, files.volume, &files.path(&self.path))
    }
}

fn list(args: &Args, volume: &Volume, path: &Path) -> Outcome {
    let mut out = Elements::begin(args.json, Schema("segno.ls", 1), "files")?;
    let print = |out: &mut Elements, item: Item| out.push(|| item.json(), || item.text(args.long));
    let mut code = ExitCode::SUCCESS;
    let start = on_volume(path, volume.metadata(path))?;
    if !start.is_dir() {
        print(&mut out, Item::new(volume, args.path.clone(), start)?)?;
        out.finish()?;
        return Ok(code);
    }
    for entry in names(volume, path, args.recursive)? {
        match entry.map_err(anyhow::Error::from).and_then(|entry| Item::of(volume, &entry, path)) {
            Ok(item) => print(&mut out, item)?,
            // The rest is listed.
            Err(e) => code = out.style().report(Err(e)),
        }
    }
    out.finish()?;
    Ok(code)
}

type Names = Box<dyn Iterator<Item = segno::Result<DirEntry>>>;

fn names(volume: &Volume, path: &Path, recursive: bool) -> Result<Names> {
    Ok(match recursive {
        true => Box::new(on_volume(path, volume.walk(path))?.sorted()),
        false => Box::new(on_volume(path, volume.read_dir(path))?.sorted()),
    })
}

impl Item {
    fn of(volume: &Volume, entry: &DirEntry, top: &Path) -> Result<Self> {
        let (attr, path) = (entry.metadata(), entry.path());
        let attr = reason(attr).with_context(|| format!("attributes of {}", show::path(path)))?;
        Self::new(volume, path.strip_prefix(top).unwrap_or(path).to_owned(), attr)
    }

    fn new(volume: &Volume, path: PathBuf, attr: Metadata) -> Result<Self> {
        let target = match attr.is_symlink() {
            true => Some(reason(volume.inode_link(attr.ino())).context("reading a symbolic link")?),
            false => None,
        };
        Ok(Self { path, attr, target })
    }

    fn attributes(&self) -> String {
        let a = &self.attr;
        let (major, minor) = a.device_number();
        let size = match a.file_type() {
            FileType::CharDevice | FileType::BlockDevice => format!("{major}, {minor}"),
            _ => a.len().to_string(),
        };
        let (mode, time) = (show::mode(a.mode(), a.file_type()), time::text(a.modified()));
        format!("{mode} {:>3} {:>5} {:>5} {size:>12} {time}", a.nlink(), a.uid(), a.gid())
    }

    fn text(&self, long: bool) -> String {
        let name = show::path(&self.path);
        if !long {
            return name + "\n";
        }
        let arrow = self.target.as_ref().map(|t| format!(" -> {}", show::path(t))).unwrap_or_default();
        format!("{} {name}{arrow}\n", self.attributes())
    }

    fn json(&self) -> Value {
        let mut value = show::attr_json(&self.attr);
        if let Some(object) = value.as_object_mut() {
            put_name(object, "path", self.path.as_os_str().as_bytes());
            if let Some(target) = &self.target {
                put_name(object, "target", target.as_os_str().as_bytes());
            }
        }
        value
    }
}
