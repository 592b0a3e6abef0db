//! Directories below a root, opened from parent to child.
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Descriptors kept open; ancestors further up are opened again when they are needed.
const OPEN_MAX: usize = 64;

/// Opens directories by the names that lead to them from the root. The directory opened last and its nearest ancestors stay open.
#[derive(Debug)]
pub struct Dirs {
    root: OwnedFd,
    /// Names that lead to the directory opened last.
    names: Vec<Vec<u8>>,
    /// Depth and descriptor, ascending.
    open: VecDeque<(usize, OwnedFd)>,
}

impl Dirs {
    /// Directories below this one.
    #[must_use]
    pub fn new(root: OwnedFd) -> Self {
        Self { root, names: Vec::new(), open: VecDeque::new() }
    }

    /// The directory at a path of names. A symbolic link on the way is ELOOP or ENOTDIR.
    pub fn get(&mut self, path: &[Vec<u8>]) -> Result<&OwnedFd, Errno> {
        let common = self.names.iter().zip(path).take_while(|(a, b)| a == b).count();
        while self.open.back().is_some_and(|(depth, _)| *depth > common) {
            self.open.pop_back();
        }
        self.names.truncate(common);
        let start = self.open.back().map_or(0, |(depth, _)| *depth);
        for (depth, name) in (start + 1..).zip(path.iter().skip(start)) {
            let fd = child(self.last(), name)?;
            self.open.push_back((depth, fd));
            if self.open.len() > OPEN_MAX {
                self.open.pop_front();
            }
            if self.names.len() < depth {
                self.names.push(name.clone());
            }
        }
        Ok(self.last())
    }

    /// The directory that a path is in, and its last name; the root is `.` in itself.
    pub fn parent<'p>(&mut self, path: &'p [Vec<u8>]) -> Result<(&OwnedFd, &'p OsStr), Errno> {
        match path.split_last() {
            Some((name, above)) => Ok((self.get(above)?, checked(name)?)),
            None => Ok((&self.root, OsStr::from_bytes(b"."))),
        }
    }

    fn last(&self) -> &OwnedFd {
        self.open.back().map_or(&self.root, |(_, fd)| fd)
    }
}

fn child(dir: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(dir, checked(name)?, flags, Mode::empty())
}

/// A name that leads to an entry of its directory and nowhere else.
fn checked(name: &[u8]) -> Result<&OsStr, Errno> {
    let is_name = !matches!(name, b"" | b"." | b"..") && !name.iter().any(|b| matches!(b, b'/' | 0));
    if is_name { Ok(OsStr::from_bytes(name)) } else { Err(Errno::INVAL) }
}

/// The names of a relative path.
#[must_use]
pub fn components(path: &Path) -> Vec<Vec<u8>> {
    let names = path.components().filter(|c| *c != Component::CurDir);
    names.map(|c| c.as_os_str().as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, fstat, mkdirat};

    fn open(path: &Path) -> OwnedFd {
        openat(CWD, path, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap()
    }

    /// Deeper than any path that the kernel resolves at once, and than the number of descriptors kept open.
    #[test]
    fn a_directory_is_found_from_any_depth_and_few_stay_open() {
        let dir = tempfile::tempdir().unwrap();
        let mut dirs = Dirs::new(open(dir.path()));
        let path: Vec<Vec<u8>> = (0..300u32).map(|n| format!("{n:0>40}").into_bytes()).collect();
        let mut inodes = vec![fstat(dirs.get(&[]).unwrap()).unwrap().st_ino];
        for depth in 0..path.len() {
            let (parent, name) = dirs.parent(&path[..=depth]).unwrap();
            mkdirat(parent, name, Mode::RWXU).unwrap();
            inodes.push(fstat(dirs.get(&path[..=depth]).unwrap()).unwrap().st_ino);
        }
        for depth in (0..=path.len()).rev().chain([150, 3, 299, 0, 64, 65]) {
            assert_eq!(fstat(dirs.get(&path[..depth]).unwrap()).unwrap().st_ino, inodes[depth], "{depth}");
            assert!(dirs.open.len() <= OPEN_MAX);
        }
    }

    #[test]
    fn no_name_leads_out_of_the_root() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("root/sub")).unwrap();
        std::os::unix::fs::symlink("..", dir.path().join("root/link")).unwrap();
        let mut dirs = Dirs::new(open(&dir.path().join("root")));
        for (name, expected) in [
            (&b".."[..], Errno::INVAL),
            (b".", Errno::INVAL),
            (b"", Errno::INVAL),
            (b"sub/..", Errno::INVAL),
            (b"a\0b", Errno::INVAL),
            (b"link", Errno::NOTDIR),
        ] {
            assert_eq!(dirs.get(&[name.to_vec()]).unwrap_err(), expected, "{name:?}");
            let below = dirs.parent(&[name.to_vec(), b"x".to_vec()]).map(drop);
            assert_eq!(below.unwrap_err(), expected, "{name:?}");
        }
        assert!(dirs.get(&[b"sub".to_vec()]).is_ok());
    }
}
