//! `segno sync`: commits all changes, also on kernels that do not forward sync(2) to the server.
use crate::document::Schema;
use crate::out::stdout;
use crate::{image, show};
use anyhow::{Context, Result};
use rustix::fs::{XattrFlags, setxattr, syncfs};
use rustix::io::Errno;
use segno_fuse::SYNC_XATTR;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Make all earlier changes to a mount durable; needs no privileges
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Any file or directory of the mount
    dir: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    sync(&args.dir)?;
    if args.json {
        Schema("segno.sync", 1).print(stdout(), &show::paths(&[("dir", &args.dir)]))?;
    }
    Ok(())
}

/// Commits all changes to the mount with this file or directory.
pub fn sync(path: &Path) -> Result<()> {
    let dir = path.display();
    // Changes through shared mappings have not reached the server yet.
    let file = File::open(path).with_context(|| format!("cannot open {dir}"))?;
    syncfs(&file).with_context(|| format!("cannot sync {dir}"))?;
    match setxattr(path, SYNC_XATTR, b"", XattrFlags::empty()) {
        // On a read-only mount there is nothing to sync.
        Ok(()) | Err(Errno::ROFS) => Ok(()),
        Err(e) => Err(image::unanswered(e, path, || format!("cannot sync {dir}"))),
    }
}
