//! `segno sync`: commits all changes, also on kernels that do not forward sync(2) to the server.
use crate::image;
use anyhow::{Context, Result};
use rustix::fs::{XattrFlags, setxattr, syncfs};
use rustix::io::Errno;
use segno_fuse::SYNC_XATTR;
use std::fs::File;
use std::path::PathBuf;

/// Make all earlier changes to a mount durable; needs no privileges
#[derive(clap::Args)]
pub struct Args {
    /// Any file or directory of the mount
    pub dir: PathBuf,
}

pub fn run(args: &Args) -> Result<()> {
    let dir = args.dir.display();
    // Changes through shared mappings have not reached the server yet.
    let file = File::open(&args.dir).with_context(|| format!("cannot open {dir}"))?;
    syncfs(&file).with_context(|| format!("cannot sync {dir}"))?;
    match setxattr(&args.dir, SYNC_XATTR, b"", XattrFlags::empty()) {
        // On a read-only mount there is nothing to sync.
        Ok(()) | Err(Errno::ROFS) => Ok(()),
        Err(e) => Err(image::unanswered(e, &args.dir, || format!("cannot sync {dir}"))),
    }
}
