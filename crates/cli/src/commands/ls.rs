//! `segno ls`: a directory of an image.
use crate::exit::Outcome;
use crate::path::{Last, entries, resolve};
use crate::{image, show};
use anyhow::{Context, Result};
use segno_engine::{Attr, Volume};
use segno_format::dentry::FileType;
use serde_json::{Value, json};
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Args {
    /// Show attributes too
    #[arg(short, long)]
    long: bool,
    /// Directories below as well
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Image file or block device
    image: PathBuf,
    /// Path on the volume
    #[arg(default_value = "/")]
    path: String,
}

/// One file, by the path that is shown for it.
struct Item {
    path: Vec<u8>,
    attr: Attr,
    target: Option<Vec<u8>>,
}

pub fn run(args: &Args) -> Outcome {
    let volume = image::volume_read_only(&args.image)?;
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
    let start = resolve(volume, &args.path, Last::Follow)?;
    let mut items = Vec::new();
    if start.kind != FileType::Directory {
        items.push(Item::new(volume, args.path.clone().into_bytes(), start)?);
        return Ok(items);
    }
    let mut dirs = vec![(start.ino, Vec::new())];
    while let Some((dir, prefix)) = dirs.pop() {
        let first = items.len();
        for entry in entries(volume, dir)? {
            let path = [prefix.as_slice(), &entry.name].concat();
            let attr =
                volume.getattr(entry.ino).with_context(|| format!("attributes of {}", show::name(&path)))?;
            if args.recursive && attr.kind == FileType::Directory {
                dirs.push((entry.ino, [path.as_slice(), b"/"].concat()));
            }
            items.push(Item::new(volume, path, attr)?);
        }
        if let Some(added) = items.get_mut(first..) {
            added.sort_by(|a, b| a.path.cmp(&b.path));
        }
    }
    Ok(items)
}

impl Item {
    fn new(volume: &Volume, path: Vec<u8>, attr: Attr) -> Result<Self> {
        let target = match attr.kind {
            FileType::Symlink => Some(volume.readlink(attr.ino).context("reading a symbolic link")?),
            _ => None,
        };
        Ok(Self { path, attr, target })
    }

    fn attributes(&self) -> String {
        let a = &self.attr;
        let size = match a.kind {
            FileType::CharDevice | FileType::BlockDevice => format!("{}, {}", a.rdev.0, a.rdev.1),
            _ => a.size.to_string(),
        };
        let mode = show::mode(a.mode, a.kind);
        format!("{mode} {:>3} {:>5} {:>5} {size:>12} {}", a.nlink, a.uid, a.gid, show::time(a.mtime))
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
