//! `segno ls`: a directory of an image.
use crate::exit::Outcome;
use crate::path::{on_volume, reason};
use crate::storage::StorageOptions;
use crate::{image, show};
use anyhow::{Context, Result};
use segno::{FileType, Metadata, Volume};
use serde_json::{Value, json};
use std::io::{Write, stdout};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// List a directory of an image
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
    #[command(flatten)]
    storage: StorageOptions,
    /// Image file or block device
    image: PathBuf,
    /// Path on the volume
    #[arg(default_value = "/")]
    path: String,
}

/// One file, by the path that is shown for it.
struct Item {
    path: Vec<u8>,
    attr: Metadata,
    target: Option<Vec<u8>>,
}

pub fn run(args: &Args) -> Outcome {
    let volume = image::volume_read_only(&args.image, &args.storage)?;
    let items = collect(&volume, args)?;
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{:#}", Value::from(items.iter().map(Item::json).collect::<Vec<_>>()))?;
        return Ok(ExitCode::SUCCESS);
    }
    for item in &items {
        if args.long {
            write!(out, "{} ", item.attributes())?;
        }
        out.write_all(&item.path)?;
        if let (true, Some(target)) = (args.long, &item.target) {
            out.write_all(b" -> ")?;
            out.write_all(target)?;
        }
        out.write_all(b"\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn collect(volume: &Volume, args: &Args) -> Result<Vec<Item>> {
    let start = on_volume(&args.path, volume.metadata(&args.path))?;
    let mut items = Vec::new();
    if !start.is_dir() {
        items.push(Item::new(volume, Path::new(&args.path), args.path.clone().into_bytes(), start)?);
        return Ok(items);
    }
    let mut dirs = vec![(on_volume(&args.path, volume.read_dir(&args.path))?, Vec::new())];
    while let Some((dir, prefix)) = dirs.pop() {
        let first = items.len();
        for entry in dir {
            let entry = reason(entry).context("reading a directory")?;
            let path = [prefix.as_slice(), entry.file_name().as_bytes()].concat();
            let failed = || format!("attributes of {}", show::name(&path));
            let attr = reason(entry.metadata()).with_context(failed)?;
            if args.recursive && attr.is_dir() {
                dirs.push((reason(entry.read_dir())?, [path.as_slice(), b"/"].concat()));
            }
            items.push(Item::new(volume, entry.path(), path, attr)?);
        }
        if let Some(added) = items.get_mut(first..) {
            added.sort_by(|a, b| a.path.cmp(&b.path));
        }
    }
    Ok(items)
}

impl Item {
    /// `path` is what is shown for the file that is at `place`.
    fn new(volume: &Volume, place: &Path, path: Vec<u8>, attr: Metadata) -> Result<Self> {
        let target = match attr.is_symlink() {
            true => Some(reason(volume.read_link(place)).context("reading a symbolic link")?),
            false => None,
        };
        Ok(Self { path, attr, target: target.map(|t| t.into_os_string().into_vec()) })
    }

    fn attributes(&self) -> String {
        let a = &self.attr;
        let (major, minor) = a.device_number();
        let size = match a.file_type() {
            FileType::CharDevice | FileType::BlockDevice => format!("{major}, {minor}"),
            _ => a.len().to_string(),
        };
        let (mode, time) = (show::mode(a.mode(), a.file_type()), show::time(a.modified()));
        format!("{mode} {:>3} {:>5} {:>5} {size:>12} {time}", a.nlink(), a.uid(), a.gid())
    }

    fn json(&self) -> Value {
        let mut value = show::attr_json(&self.attr);
        if let Some(object) = value.as_object_mut() {
            object.insert("path".into(), json!(show::name(&self.path)));
            if let Some(target) = &self.target {
                object.insert("target".into(), json!(show::name(target)));
            }
        }
        value
    }
}
