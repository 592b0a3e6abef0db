//! `segno stat`: everything the inode of a file of an image says.
use crate::exit::Outcome;
use crate::path::{Last, resolve};
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
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Image file or block device
    image: PathBuf,
    /// Path on the volume; a symbolic link at its end stands for itself
    path: String,
}

pub fn run(args: &Args) -> Outcome {
    let volume = image::volume_read_only(&args.image)?;
    let attr = resolve(&volume, &args.path, Last::Keep)?;
    let xattrs = xattr_names(&volume, &attr)?;
    let target = match attr.kind {
        FileType::Symlink => Some(show::name(&volume.readlink(attr.ino)?)),
        _ => None,
    };
    let mut out = stdout().lock();
    if args.json {
        let mut value = show::attr_json(&attr);
        if let Some(object) = value.as_object_mut() {
            object.insert("path".into(), json!(args.path));
            object.insert("xattrs".into(), Value::from(xattrs));
            object.extend(target.map(|t| ("target".to_owned(), json!(t))));
        }
        writeln!(out, "{value:#}")?;
    } else {
        print(&mut out, &args.path, &attr, target, &xattrs)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn xattr_names(volume: &Volume, attr: &Attr) -> Result<Vec<String>> {
    let list = volume.listxattr(attr.ino).context("reading the extended attributes")?;
    Ok(list.split(|&b| b == 0).filter(|n| !n.is_empty()).map(show::name).collect())
}

fn print(
    out: &mut impl Write,
    path: &str,
    a: &Attr,
    target: Option<String>,
    xattrs: &[String],
) -> Result<()> {
    let arrow = target.map(|t| format!(" -> {t}")).unwrap_or_default();
    writeln!(out, "path      {path}{arrow}")?;
    writeln!(out, "inode     {}, generation {}, {}", a.ino.0, a.generation, show::kind(a.kind))?;
    writeln!(out, "mode      {} ({:04o})", show::mode(a.mode, a.kind), a.mode & 0o7777)?;
    writeln!(out, "owner     {}:{}, project {}", a.uid, a.gid, a.projid)?;
    writeln!(out, "links     {}", a.nlink)?;
    match a.kind {
        FileType::CharDevice | FileType::BlockDevice => writeln!(out, "device    {}:{}", a.rdev.0, a.rdev.1)?,
        _ => writeln!(out, "size      {} in {} sectors", a.size, a.blocks)?,
    }
    for (name, time) in [("accessed", a.atime), ("modified", a.mtime), ("changed", a.ctime)] {
        writeln!(out, "{name:9} {}.{:09} UTC", show::time(time), time.nsec)?;
    }
    if let Some(born) = a.crtime {
        writeln!(out, "created   {}.{:09} UTC", show::time(born), born.nsec)?;
    }
    if !a.flags.is_empty() {
        writeln!(out, "flags     {}", show::flags(a.flags).join(", "))?;
    }
    if !xattrs.is_empty() {
        writeln!(out, "xattrs    {}", xattrs.join(", "))?;
    }
    Ok(())
}
