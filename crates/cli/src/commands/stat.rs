//! `segno stat`: all attributes of a file of an image.
use crate::exit::Outcome;
use crate::path::{inode_number, on_volume, reason};
use crate::storage::StorageOptions;
use crate::{image, show};
use anyhow::{Context, Result};
use segno::{FileType, Metadata};
use serde_json::{Value, json};
use std::io::{Write, stdout};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the attributes of a file of an image
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    storage: StorageOptions,
    /// Image file or block device
    image: PathBuf,
    /// Path on the volume; a symbolic link at its end stands for itself. #INO is an inode by number
    path: String,
}

pub fn run(args: &Args) -> Outcome {
    let volume = image::volume_read_only(&args.image, &args.storage)?;
    let (path, number) = (&args.path, inode_number(&args.path));
    let attr = number.map_or_else(|| volume.symlink_metadata(path), |ino| volume.inode_metadata(ino));
    let attr = on_volume(path, attr)?;
    let xattrs = number.map_or_else(|| volume.list_xattrs(path), |ino| volume.inode_xattrs(ino));
    let xattrs = reason(xattrs).context("reading the extended attributes")?;
    let xattrs: Vec<String> = xattrs.iter().map(|name| show::name(name.as_bytes())).collect();
    let target = match attr.is_symlink() {
        true => {
            let link = number.map_or_else(|| volume.read_link(path), |ino| volume.inode_link(ino));
            Some(show::name(reason(link)?.as_os_str().as_bytes()))
        }
        false => None,
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

fn print(
    out: &mut impl Write,
    path: &str,
    a: &Metadata,
    target: Option<String>,
    xattrs: &[String],
) -> Result<()> {
    let arrow = target.map(|t| format!(" -> {t}")).unwrap_or_default();
    writeln!(out, "path      {path}{arrow}")?;
    let (kind, mode) = (a.file_type(), a.mode());
    writeln!(out, "inode     {}, generation {}, {}", a.ino(), a.generation(), kind.name())?;
    writeln!(out, "mode      {} ({:04o})", show::mode(mode, kind), mode & 0o7777)?;
    writeln!(out, "owner     {}:{}, project {}", a.uid(), a.gid(), a.project())?;
    writeln!(out, "links     {}", a.nlink())?;
    let (major, minor) = a.device_number();
    match kind {
        FileType::CharDevice | FileType::BlockDevice => writeln!(out, "device    {major}:{minor}")?,
        _ => writeln!(out, "size      {} in {} sectors", a.len(), a.blocks())?,
    }
    for (name, time) in [("accessed", a.accessed()), ("modified", a.modified()), ("changed", a.changed())] {
        writeln!(out, "{name:9} {}.{:09} UTC", show::time(time), time.nsec)?;
    }
    if let Some(born) = a.created() {
        writeln!(out, "created   {}.{:09} UTC", show::time(born), born.nsec)?;
    }
    if !a.flags().is_empty() {
        writeln!(out, "flags     {}", show::flags(a.flags()).join(", "))?;
    }
    if !xattrs.is_empty() {
        writeln!(out, "xattrs    {}", xattrs.join(", "))?;
    }
    Ok(())
}
