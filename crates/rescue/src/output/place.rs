//! Directories of the target, reached one component at a time.
use super::node::{Copied, Source};
use super::sink::Sink;
use crate::RescueError;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name of a file that is being written.
pub(super) const PART: &str = ".segno-rescue.part";

/// How to copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputOptions {
    /// Go on with a target that is not empty; files that are there with the right size and time are kept.
    pub resume: bool,
    /// Keep set-user-ID and set-group-ID.
    pub set_ids: bool,
    /// Make device nodes.
    pub devices: bool,
}

/// The directory that files are copied to.
pub struct Target {
    pub(super) root: OwnedFd,
    pub(super) path: PathBuf,
    pub(super) options: OutputOptions,
    /// Whether owners can be set.
    pub(super) privileged: bool,
    /// The directory opened last.
    last: Option<(Vec<Vec<u8>>, OwnedFd)>,
}

impl Target {
    /// Opens a directory, which is made if it does not exist.
    pub fn open(path: &Path, options: OutputOptions) -> Result<Self, RescueError> {
        match std::fs::create_dir(path) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(RescueError::target("cannot make", path, e));
            }
            _ => {}
        }
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let failed = |e| RescueError::target("cannot open", path, e);
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(failed)?;
        let is_empty = std::fs::read_dir(path)
            .map_err(|e| RescueError::target("cannot read", path, e))?
            .next()
            .is_none();
        if !is_empty && !options.resume {
            return Err(RescueError::NotEmpty { path: path.to_owned() });
        }
        let privileged = rustix::process::geteuid().is_root();
        // Left by a run that was interrupted.
        let _absent = rustix::fs::unlinkat(&root, PART, AtFlags::empty());
        Ok(Self { root, path: path.to_owned(), options, privileged, last: None })
    }

    pub(super) fn full(&self, path: &[Vec<u8>]) -> PathBuf {
        path.iter().fold(self.path.clone(), |p, name| p.join(OsStr::from_bytes(name)))
    }

    /// The directory that a path is in, and its last name.
    pub(super) fn parent<'p>(&mut self, path: &'p [Vec<u8>]) -> Result<(&OwnedFd, &'p OsStr), RescueError> {
        let (name, dir) = match path.split_last() {
            Some((name, dir)) => (name.as_slice(), dir),
            None => (&b"."[..], &[][..]),
        };
        Ok((self.dir(dir)?, OsStr::from_bytes(name)))
    }

    pub(super) fn dir(&mut self, path: &[Vec<u8>]) -> Result<&OwnedFd, RescueError> {
        if path.is_empty() {
            return Ok(&self.root);
        }
        if self.last.as_ref().is_none_or(|(p, _)| p != path) {
            let mut fd: Option<OwnedFd> = None;
            for name in path {
                let failed = |e| RescueError::target("cannot open", self.full(path), e);
                fd = Some(beneath(fd.as_ref().unwrap_or(&self.root), name).map_err(failed)?);
            }
            self.last = fd.map(|fd| (path.to_vec(), fd));
        }
        Ok(self.last.as_ref().map_or(&self.root, |(_, fd)| fd))
    }
}

impl Sink for Target {
    fn copy(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<Copied, RescueError> {
        self.file(path, source)
    }

    fn make_dir(&mut self, path: &[Vec<u8>]) -> Result<(), RescueError> {
        let (full, resume) = (self.full(path), self.options.resume);
        let (dir, name) = self.parent(path)?;
        match rustix::fs::mkdirat(dir, name, Mode::RWXU) {
            // A symbolic link of this name is refused when it is opened.
            Err(Errno::EXIST) if resume => Ok(()),
            done => done.map_err(|e| RescueError::target("cannot make", full, e)),
        }
    }

    fn link(&mut self, first: &[Vec<u8>], path: &[Vec<u8>]) -> Result<(), RescueError> {
        let (full, resume) = (self.full(path), self.options.resume);
        let failed = |e: Errno| RescueError::target("cannot link", full.clone(), e);
        let (dir, from) = self.parent(first)?;
        let dir = rustix::io::dup(dir).map_err(failed)?;
        let (to_dir, to) = self.parent(path)?;
        match rustix::fs::linkat(&dir, from, to_dir, to, AtFlags::empty()) {
            Err(Errno::EXIST) if resume => Ok(()),
            done => done.map_err(failed),
        }
    }

    fn finish_dir(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<(), RescueError> {
        let (full, options, privileged) = (self.full(path), self.options, self.privileged);
        let dir = self.dir(path)?;
        source
            .attributes(dir, options, privileged)
            .map(drop)
            .map_err(|e| RescueError::target("attributes of", full, e))
    }
}

fn beneath(dir: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(dir, OsStr::from_bytes(name), flags, Mode::empty(), resolve)
}

/// A name as one component; what is none gets one made of a number.
pub(super) fn safe(name: &[u8], number: u32) -> Vec<u8> {
    let refused = name.is_empty()
        || name.len() > segno_format::NAME_MAX
        || name == b"."
        || name == b".."
        || name == PART.as_bytes()
        || name.iter().any(|&b| b == b'/' || b == 0);
    if refused { format!("#{number}").into_bytes() } else { name.to_vec() }
}
