//! The mounts of this process, as users name them.
use anyhow::{Context, Result};
use segno_device::Mount;
use std::path::Path;

/// All mounts, oldest first. The source of Segno's mounts is the image.
pub fn read() -> Result<Vec<Mount>> {
    let mut mounts = Mount::all().context("cannot read the mount table")?;
    for mount in mounts.iter_mut().filter(|m| m.is_our_block()) {
        if let Some(image) = segno_fuse::image_behind(&mount.source) {
            mount.source = image;
        }
    }
    Ok(mounts)
}

/// Checks that the server of a mount responds. stat(2) may be answered from the kernel's cache.
pub fn probe(dir: &Path) -> rustix::io::Result<()> {
    rustix::fs::statfs(dir).map(|_| ())
}
