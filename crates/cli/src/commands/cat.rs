//! `segno cat`: the contents of files of an image.
use crate::exit::Outcome;
use crate::image;
use crate::path::{Last, resolve};
use anyhow::{Context, bail};
use segno_format::dentry::FileType;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

const BUFFER: usize = 1 << 20;

#[derive(clap::Args)]
pub struct Args {
    /// Image file or block device
    image: PathBuf,
    /// Paths on the volume
    #[arg(required = true)]
    paths: Vec<String>,
}

pub fn run(args: &Args) -> Outcome {
    let volume = image::volume_read_only(&args.image)?;
    let mut buffer = vec![0; BUFFER];
    let mut out = stdout().lock();
    for path in &args.paths {
        let attr = resolve(&volume, path, Last::Follow)?;
        match attr.kind {
            FileType::Regular => {}
            other => bail!("{path} on the volume is not a file but a {}", crate::show::kind(other)),
        }
        let mut offset = 0;
        loop {
            let n = volume.read(attr.ino, offset, &mut buffer).with_context(|| format!("reading {path}"))?;
            if n == 0 {
                break;
            }
            out.write_all(buffer.get(..n).unwrap_or_default())?;
            offset += n as u64;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}
