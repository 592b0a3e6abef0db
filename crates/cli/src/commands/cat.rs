//! `segno cat`: the contents of files of an image.
use crate::path::{inode_number, on_volume, reason};
use crate::show;
use crate::storage::ImageArgs;
use anyhow::{Context, Result, ensure};
use segno::{FileType, Visits, Volume};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 20;

/// Print files of an image
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    of: ImageArgs,
    /// Paths on the volume, or #INO for inodes by number
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

pub fn run(args: &Args) -> Result<()> {
    let volume = args.of.volume(true)?;
    let mut out = stdout().lock();
    for path in &args.paths {
        write(&volume, path, &mut out)?;
    }
    Ok(())
}

/// Writes the contents of a file.
pub fn write(volume: &Volume, path: &Path, out: &mut impl Write) -> Result<()> {
    let number = inode_number(path);
    let attr = number.map_or_else(|| volume.metadata(path), |ino| volume.inode_metadata(ino));
    let attr = on_volume(path, attr)?;
    let (kind, shown) = (attr.file_type(), show::path(path));
    ensure!(kind == FileType::Regular, "{shown} on the volume is not a file but a {}", kind.name());
    on_volume(path, volume.visit(&mut Visits::new(), path, &attr))?;
    let file = number.map_or_else(|| volume.open_file(path), |ino| volume.open_inode(ino));
    let file = on_volume(path, file)?;
    let mut buffer = vec![0; BUFFER];
    let mut offset = 0;
    loop {
        let n = reason(file.read_at(&mut buffer, offset)).with_context(|| format!("reading {shown}"))?;
        if n == 0 {
            return Ok(out.flush()?);
        }
        out.write_all(buffer.get(..n).unwrap_or_default())?;
        offset += n as u64;
    }
}
