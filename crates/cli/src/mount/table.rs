//! The mounts of this process, as users name them.
use crate::process;
use anyhow::{Context, Result};
use segno_device::Mount;
use std::path::Path;

/// All mounts, oldest first. The source of Segno's mounts is the image.
pub fn read() -> Result<Vec<Mount>> {
    Ok(with_images(Mount::all().context("cannot read the mount table")?))
}

/// The mount that has a file of this path, without symbolic links. It need not be one of Segno.
pub fn holding(path: &Path) -> Result<Option<Mount>> {
    let mounts = read()?.into_iter().filter(|m| path.starts_with(&m.dir));
    Ok(mounts.max_by_key(|m| m.dir.components().count()))
}

fn with_images(mut mounts: Vec<Mount>) -> Vec<Mount> {
    for mount in mounts.iter_mut().filter(|m| m.is_our_block()) {
        if let Some(image) = segno_fuse::image_behind(&mount.source) {
            mount.source = image;
        }
    }
    mounts
}

/// Another directory where the volume of a mount that is gone is mounted.
pub fn bound(gone: &Mount) -> Option<String> {
    let mount = read().ok()?.into_iter().find(|m| is_same(m, gone))?;
    Some(format!("at {}", mount.dir.display()))
}

/// Another mount namespace where the volume of a mount that is gone is mounted.
pub fn in_namespace(gone: &Mount) -> Option<String> {
    process::others().find_map(|pid| {
        let mounts = with_images(Mount::all_of(pid).ok()?);
        let dir = mounts.into_iter().find(|m| is_same(m, gone))?.dir;
        Some(format!("at {} in the mount namespace of {}", dir.display(), process::described(pid)))
    })
}

fn is_same(mount: &Mount, gone: &Mount) -> bool {
    mount.is_ours() && mount.device == gone.device && mount.source == gone.source
}

/// Checks that the server of a mount responds. stat(2) may be answered from the kernel's cache.
pub fn probe(dir: &Path) -> rustix::io::Result<()> {
    rustix::fs::statfs(dir).map(|_| ())
}
