//! The known state of the tree that is being changed: paths relative to its root, by kind.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{IFlags, ioctl_getflags};

use super::names::{NAME_MAX, name};
use crate::errno;
use segno_testkit::Rng;

/// `FS_CASEFOLD_FL`
pub const CASEFOLD: IFlags = IFlags::from_bits_retain(0x4000_0000);
/// Paths stay short enough for one more name below the kernel's limit of 4096 bytes.
const PATH_MAX: usize = 3000;

#[derive(Default)]
pub struct Tree {
    /// Directories that new names go into; the root is the empty path.
    pub dirs: Vec<PathBuf>,
    pub files: Vec<PathBuf>,
    /// Symlinks, devices, fifos, sockets.
    pub others: Vec<PathBuf>,
}

impl Tree {
    /// The tree as it is, in the order of names.
    pub fn scan(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.add(root, PathBuf::new())?;
        Ok(tree)
    }

    fn add(&mut self, root: &Path, dir: PathBuf) -> Result<()> {
        let full = root.join(&dir);
        let mut entries = fs::read_dir(&full)
            .and_then(|entries| {
                entries
                    .map(|entry| entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?))))
                    .collect::<Result<Vec<_>, _>>()
            })
            .with_context(|| format!("reading the directory {}", full.display()))?;
        entries.sort_by(|left, right| left.0.cmp(&right.0));
        self.dirs.push(dir.clone());
        for (name, kind) in entries {
            let path = dir.join(name);
            if kind.is_dir() {
                self.add(root, path)?;
            } else if kind.is_file() {
                self.files.push(path);
            } else {
                self.others.push(path);
            }
        }
        Ok(())
    }

    /// A path that does not exist yet, in one of the directories.
    pub fn fresh(&self, root: &Path, rng: &mut Rng) -> Result<PathBuf> {
        let parent = rng.choose(&self.dirs).cloned().unwrap_or_default();
        fresh_in(root, &parent, rng)
    }

    pub fn rename(&mut self, from: &Path, to: &Path) {
        for list in [&mut self.dirs, &mut self.files, &mut self.others] {
            for path in list {
                if let Ok(rest) = path.strip_prefix(from) {
                    *path = if rest.as_os_str().is_empty() { to.to_owned() } else { to.join(rest) };
                }
            }
        }
    }

    pub fn forget(&mut self, gone: &Path) {
        for list in [&mut self.dirs, &mut self.files, &mut self.others] {
            list.retain(|path| path != gone);
        }
    }

    /// Every path, directories after what is in them.
    pub fn bottom_up(&self) -> Vec<PathBuf> {
        let mut paths: Vec<_> = self.dirs.iter().chain(&self.files).chain(&self.others).cloned().collect();
        paths.sort();
        paths.reverse();
        paths
    }
}

/// A path in `parent` that does not exist yet.
pub fn fresh_in(root: &Path, parent: &Path, rng: &mut Rng) -> Result<PathBuf> {
    for _ in 0..100 {
        let name = name(rng);
        // Folded, it has no room for its end: Linux then hashes it as it is, which fsck.f2fs 1.15 does not know.
        if name.len() == NAME_MAX && is_casefolded(&root.join(parent)) {
            continue;
        }
        let path = parent.join(name);
        let full = root.join(&path);
        match fs::symlink_metadata(&full) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(path),
            Err(error) => return Err(error).with_context(|| format!("looking up {}", full.display())),
            Ok(_) => {}
        }
    }
    anyhow::bail!("no free name found in {}", root.join(parent).display())
}

/// No where the flags cannot be had.
fn is_casefolded(dir: &Path) -> bool {
    let flags = File::open(dir).map_err(|error| errno::of(&error)).and_then(ioctl_getflags);
    flags.is_ok_and(|flags| flags.contains(CASEFOLD))
}

/// Whether a directory at this path can hold further directories.
pub fn may_nest(root: &Path, path: &Path) -> bool {
    root.as_os_str().len() + path.as_os_str().len() + NAME_MAX < PATH_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renaming_a_directory_moves_what_is_in_it() {
        let mut tree = Tree {
            dirs: vec!["".into(), "a".into(), "ab".into()],
            files: vec!["a/x".into(), "ab/y".into()],
            others: vec![],
        };
        tree.rename(Path::new("a"), Path::new("c"));
        assert_eq!(tree.dirs, [Path::new(""), Path::new("c"), Path::new("ab")]);
        assert_eq!(tree.files, [Path::new("c/x"), Path::new("ab/y")]);
        tree.forget(Path::new("c/x"));
        assert_eq!(tree.files, [Path::new("ab/y")]);
    }
}
