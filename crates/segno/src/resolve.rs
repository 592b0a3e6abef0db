//! From a path to an inode, without leaving the directory that the path starts at.
use crate::error::{Cause, errno, refuse};
use segno_engine::{Attr, Error, Volume};
use segno_format::Ino;
use segno_format::dentry::FileType;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Most symbolic links followed for one path, as in Linux.
const SYMLINKS_MAX: u32 = 40;

/// Whether to follow a symbolic link at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Follow,
    Keep,
}

/// The result of resolving a path.
pub(crate) enum Place<'a> {
    Found(Attr),
    /// The directory exists and has no such name.
    Missing {
        dir: Pin<'a>,
        name: Vec<u8>,
    },
}

/// Keeps the number of an inode that was looked up from being given to another one.
pub(crate) struct Pin<'a> {
    volume: &'a Volume,
    pub(crate) ino: Ino,
}

impl<'a> Pin<'a> {
    /// Fails if the inode has gone since it was looked up.
    pub(crate) fn new(volume: &'a Volume, attr: &Attr) -> Result<Self, Cause> {
        let pin = Self::of_held(volume, attr.ino);
        match volume.getattr(attr.ino)?.generation == attr.generation {
            true => Ok(pin),
            false => Err(Error::NotFound.into()),
        }
    }

    /// Of an inode that something else keeps.
    fn of_held(volume: &'a Volume, ino: Ino) -> Self {
        volume.add_reference(ino);
        Self { volume, ino }
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        // An inode that cannot be freed now stays an orphan, which the unmount or the next open frees.
        let _freed_later = self.volume.drop_references(self.ino, 1);
    }
}

/// Where a path leads to, component by component.
struct Walker<'a> {
    volume: &'a Volume,
    root: Ino,
    /// The directories below the root on the way, with their names.
    above: Vec<(Pin<'a>, Vec<u8>)>,
    todo: VecDeque<Vec<u8>>,
    followed: u32,
}

/// Finds what a path names; the last name may be missing.
pub(crate) fn place<'a>(volume: &'a Volume, root: Ino, path: &Path, last: Last) -> Result<Place<'a>, Cause> {
    Ok(Walker::new(volume, root, path)?.run(path, last)?.0)
}

/// Finds what a path names.
pub(crate) fn resolve(volume: &Volume, root: Ino, path: &Path, last: Last) -> Result<Attr, Cause> {
    match place(volume, root, path, last)? {
        Place::Found(attr) => Ok(attr),
        Place::Missing { .. } => Err(Error::NotFound.into()),
    }
}

/// The path without symbolic links, `.` and `..`.
pub(crate) fn canonical(volume: &Volume, root: Ino, path: &Path) -> Result<PathBuf, Cause> {
    match Walker::new(volume, root, path)?.run(path, Last::Follow)? {
        (Place::Found(_), names) => Ok(names),
        (Place::Missing { .. }, _) => Err(Error::NotFound.into()),
    }
}

/// The directory that holds the last name of a path, and that name.
pub(crate) fn parent<'a>(volume: &'a Volume, root: Ino, path: &Path) -> Result<(Pin<'a>, Vec<u8>), Cause> {
    let mut walker = Walker::new(volume, root, path)?;
    match walker.todo.pop_back() {
        None => Err(refuse(errno::BUSY, "it is the root directory")),
        Some(name) if name == b".." => Err(refuse(errno::INVAL, "the path ends with '..'")),
        Some(name) => match walker.run(Path::new(""), Last::Follow)?.0 {
            Place::Found(dir) if dir.kind == FileType::Directory => Ok((Pin::new(volume, &dir)?, name)),
            Place::Found(_) => Err(Error::NotDir.into()),
            Place::Missing { .. } => Err(Error::NotFound.into()),
        },
    }
}

impl<'a> Walker<'a> {
    fn new(volume: &'a Volume, root: Ino, path: &Path) -> Result<Self, Cause> {
        let todo = components(path.as_os_str().as_bytes())?;
        Ok(Self { volume, root, above: Vec::new(), todo, followed: 0 })
    }

    /// Takes all steps. `path` is where the steps come from: with a slash at its end it names a directory.
    fn run(mut self, path: &Path, last: Last) -> Result<(Place<'a>, PathBuf), Cause> {
        let only_dir = path.as_os_str().as_bytes().ends_with(b"/");
        let last = if only_dir { Last::Follow } else { last };
        while let Some(name) = self.todo.pop_front() {
            if name == b".." {
                self.above.pop();
                continue;
            }
            let attr = match self.volume.lookup(self.dir(), &name) {
                Err(Error::NotFound) if self.todo.is_empty() => {
                    let dir = Pin::of_held(self.volume, self.dir());
                    return Ok((Place::Missing { dir, name }, PathBuf::new()));
                }
                other => other?,
            };
            match attr.kind {
                FileType::Directory => self.above.push((Pin::new(self.volume, &attr)?, name)),
                FileType::Symlink if !self.todo.is_empty() || last == Last::Follow => self.follow(&attr)?,
                _ if !self.todo.is_empty() || only_dir => return Err(Error::NotDir.into()),
                _ => return Ok((Place::Found(attr), self.path_of(Some(&name)))),
            }
        }
        let attr = self.volume.getattr(self.dir())?;
        Ok((Place::Found(attr), self.path_of(None)))
    }

    fn dir(&self) -> Ino {
        self.above.last().map_or(self.root, |(dir, _)| dir.ino)
    }

    /// Puts the target of a symbolic link in front of the rest of the path.
    fn follow(&mut self, link: &Attr) -> Result<(), Cause> {
        self.followed += 1;
        if self.followed > SYMLINKS_MAX {
            return Err(refuse(errno::LOOP, "too many symbolic links"));
        }
        let target = self.volume.readlink(link.ino)?;
        if target.starts_with(b"/") {
            self.above.clear();
        }
        for component in components(&target)?.into_iter().rev() {
            self.todo.push_front(component);
        }
        Ok(())
    }

    fn path_of(&self, file: Option<&Vec<u8>>) -> PathBuf {
        let mut path = PathBuf::from("/");
        let names = self.above.iter().map(|(_, name)| name).chain(file);
        path.extend(names.map(|name| OsString::from_vec(name.clone())));
        path
    }
}

/// The names of a path, without empty ones and `.`.
fn components(path: &[u8]) -> Result<VecDeque<Vec<u8>>, Cause> {
    if path.contains(&0) {
        return Err(refuse(errno::INVAL, "the path contains a NUL byte"));
    }
    Ok(path.split(|&b| b == b'/').filter(|c| !c.is_empty() && *c != b".").map(<[u8]>::to_vec).collect())
}
