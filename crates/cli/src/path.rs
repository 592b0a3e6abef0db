//! Paths inside a volume that is not mounted.
use anyhow::{Context, Result, anyhow, bail, ensure};
use segno_engine::{Attr, DirEntry, Volume};
use segno_format::dentry::FileType;
use segno_format::{Ino, Nid};
use std::collections::VecDeque;

/// Most symlinks followed for one path, as in the kernel.
const SYMLINKS_MAX: u32 = 40;

/// Whether a symlink at the end of a path stands for itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Last {
    Follow,
    Keep,
}

/// A name in a directory.
pub struct Entry {
    pub name: Vec<u8>,
    pub ino: Ino,
}

/// Finds what a path names. It starts at the root of the volume, with or without a leading slash.
pub fn resolve(volume: &Volume, path: &str, last: Last) -> Result<Attr> {
    walk(volume, path, last).with_context(|| format!("{path} on the volume"))
}

fn walk(volume: &Volume, path: &str, last: Last) -> Result<Attr> {
    let mut todo = components(path.as_bytes());
    let mut above = vec![volume.root()];
    let mut attr = volume.getattr(volume.root())?;
    let mut followed = 0;
    while let Some(name) = todo.pop_front() {
        let dir = above.last().copied().unwrap_or(Nid::ROOT);
        if name == b".." {
            above.truncate(above.len().saturating_sub(1).max(1));
            attr = volume.getattr(above.last().copied().unwrap_or(Nid::ROOT))?;
            continue;
        }
        attr = volume.lookup(dir, &name)?;
        match attr.kind {
            FileType::Directory => above.push(attr.ino),
            FileType::Symlink if !todo.is_empty() || last == Last::Follow => {
                followed += 1;
                ensure!(followed <= SYMLINKS_MAX, "too many symbolic links");
                let target = volume.readlink(attr.ino)?;
                if target.starts_with(b"/") {
                    above.truncate(1);
                }
                for component in components(&target).into_iter().rev() {
                    todo.push_front(component);
                }
                attr = volume.getattr(above.last().copied().unwrap_or(Nid::ROOT))?;
            }
            _ if !todo.is_empty() => bail!("{} is not a directory", String::from_utf8_lossy(&name)),
            _ => {}
        }
    }
    Ok(attr)
}

fn components(path: &[u8]) -> VecDeque<Vec<u8>> {
    path.split(|&b| b == b'/').filter(|c| !c.is_empty() && *c != b".").map(<[u8]>::to_vec).collect()
}

/// The directory a new file goes into, and its name. An existing directory takes it under the name of the source.
pub fn place_for(volume: &Volume, path: &str, source: &[u8]) -> Result<(Ino, Vec<u8>)> {
    if let Ok(attr) = walk(volume, path, Last::Follow)
        && attr.kind == FileType::Directory
    {
        return Ok((attr.ino, source.to_vec()));
    }
    let trimmed = path.trim_end_matches('/');
    let (dir, name) = trimmed.rsplit_once('/').unwrap_or(("", trimmed));
    let parent = resolve(volume, dir, Last::Follow)?;
    ensure!(parent.kind == FileType::Directory, "{dir} on the volume is not a directory");
    Ok((parent.ino, name.as_bytes().to_vec()))
}

/// All names of a directory but the two dots.
pub fn entries(volume: &Volume, dir: Ino) -> Result<Vec<Entry>> {
    let mut out = Vec::new();
    let mut each = |e: DirEntry<'_>| {
        if e.name != b"." && e.name != b".." {
            out.push(Entry { name: e.name.to_vec(), ino: e.ino });
        }
        true
    };
    volume.readdir(dir, 0, &mut each).map_err(|e| anyhow!(e).context("reading a directory"))?;
    // Names become parts of paths; those of a damaged volume must not lead elsewhere.
    if let Some(bad) = out.iter().find(|e| e.name.is_empty() || e.name.iter().any(|&b| b == b'/' || b == 0)) {
        bail!("directory inode {} holds the impossible name {:?}", dir.0, String::from_utf8_lossy(&bad.name));
    }
    Ok(out)
}
