//! `segno stat`: all attributes of a file of an image.
use crate::document::Schema;
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::out::stdout;
use crate::path::{inode_number, on_volume, reason};
use crate::show;
use crate::time;
use anyhow::{Context, Result};
use segno::{FileType, Metadata, Volume};
use segno_dump::put_name;
use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the attributes of a file of an image
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Path on the volume; a symbolic link at its end stands for itself. #INO is an inode by number
    path: PathBuf,
}

impl FileCommand for Args {
    fn changes(&self) -> bool {
        false
    }

    fn run(&self, files: &Files<'_>) -> Outcome {
        let number = inode_number(&self.path);
        let path = if number.is_some() { self.path.clone() } else { files.path(&self.path) };
        show(files.volume, &path, number, self.json)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn show(volume: &Volume, path: &Path, number: Option<u32>, json: bool) -> Result<()> {
    let attr = number.map_or_else(|| volume.symlink_metadata(path), |ino| volume.inode_metadata(ino));
    let attr = on_volume(path, attr)?;
    let xattrs = number.map_or_else(|| volume.list_xattrs(path), |ino| volume.inode_xattrs(ino));
    let xattrs = reason(xattrs).context("reading the extended attributes")?;
    let target = match attr.is_symlink() {
        true => {
            let link = number.map_or_else(|| volume.read_link(path), |ino| volume.inode_link(ino));
            Some(reason(link)?)
        }
        false => None,
    };
    let mut out = stdout();
    if json {
        let mut value = show::attr_json(&attr);
        if let Some(object) = value.as_object_mut() {
            put_name(object, "path", path.as_os_str().as_bytes());
            show::put_names(object, "xattrs", &xattrs);
            if let Some(target) = target {
                put_name(object, "target", target.as_os_str().as_bytes());
            }
        }
        Schema("segno.stat", 1).print(&mut out, &value)?;
    } else {
        print(&mut out, path, &attr, target.as_deref(), &xattrs)?;
    }
    Ok(())
}

fn print(
    out: &mut impl Write,
    path: &Path,
    a: &Metadata,
    target: Option<&Path>,
    xattrs: &[OsString],
) -> Result<()> {
    let arrow = target.map(|t| format!(" -> {}", show::path(t))).unwrap_or_default();
    writeln!(out, "path      {}{arrow}", show::path(path))?;
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
        writeln!(out, "{name:9} {}.{:09} UTC", time::text(time), time.nsec)?;
    }
    if let Some(born) = a.created() {
        writeln!(out, "created   {}.{:09} UTC", time::text(born), born.nsec)?;
    }
    if !a.flags().is_empty() {
        writeln!(out, "flags     {}", show::flags(a.flags()).join(", "))?;
    }
    if !xattrs.is_empty() {
        let names: Vec<String> = xattrs.iter().map(|name| show::path(Path::new(name))).collect();
        writeln!(out, "xattrs    {}", names.join(", "))?;
    }
    Ok(())
}
