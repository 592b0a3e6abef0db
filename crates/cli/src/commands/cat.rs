//! `segno cat`: the contents of files of an image.
use crate::exit::Outcome;
use crate::files::{FileCommand, Files};
use crate::path::{inode_number, on_volume, reason};
use crate::show;
use anyhow::{Context, Result, ensure};
use segno::{FileType, Visits};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const BUFFER: usize = 1 << 20;

/// Print files of an image
#[derive(clap::Args)]
pub struct Args {
    /// Paths on the volume, or #INO for inodes by number
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

impl FileCommand for Args {
    fn changes(&self) -> bool {
        false
    }

    fn run(&self, files: &Files<'_>) -> Outcome {
        let mut out = stdout().lock();
        for path in &self.paths {
            write(files, path, &mut out)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes the contents of a file.
pub fn write(files: &Files<'_>, path: &Path, out: &mut impl Write) -> Result<()> {
    let (volume, number) = (files.volume, inode_number(path));
    let path = &files.path(path);
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
        files.go_on()?;
        let n = reason(file.read_at(&mut buffer, offset)).with_context(|| format!("reading {shown}"))?;
        if n == 0 {
            return Ok(out.flush()?);
        }
        out.write_all(buffer.get(..n).unwrap_or_default())?;
        offset += n as u64;
    }
}
