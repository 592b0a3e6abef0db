//! Writes a tree into a directory of the host.
use super::names::substitute;
use super::{Extracted, Found, names_of};
use crate::tree::{Index, Inode, Kind, Tree, path_of};
use crate::{Error, Progress, Result};
use rustix::io::Errno;
use segno_format::inode::InodeFlags;
use segno_host::{Attributes, HostTree, Kind as HostKind, Node, Preserve};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const BUFFER: usize = 1 << 20;
/// Substitutes that are tried for one name.
const ATTEMPTS: u32 = 1000;

/// Inodes whose names differ on the host, with the path there.
pub(super) type StoredAs = Vec<(Vec<u8>, Vec<u8>)>;

/// Names below the directory of the host.
type Place = Vec<Vec<u8>>;

/// Writes everything; the directory must be new or empty.
pub(super) fn write(
    tree: &Tree,
    dir: &Path,
    preserve: Preserve,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(Extracted, StoredAs)> {
    let host = HostTree::create(dir, preserve).map_err(|e| Error::host("create", dir, e))?;
    if !host.is_empty().map_err(|e| Error::host("read", dir, e))? {
        return Err(Error::host("extract into", dir, io::Error::from(Errno::NOTEMPTY)));
    }
    let mut writer = Writer {
        tree,
        root: dir,
        host,
        first: HashMap::new(),
        dirs: HashMap::new(),
        stored_as: Vec::new(),
        done: Extracted::default(),
        buffer: vec![0; BUFFER],
    };
    let all = names_of(tree)?;
    for found in &all {
        writer.one(found)?;
        let path = || path_of(&found.path);
        progress(Progress { path: &path, files: writer.done.files, bytes: writer.done.bytes });
    }
    // Directories get their attributes when they are filled, the deepest first.
    for found in all.iter().rev() {
        let inode = tree.get(found.index)?;
        if inode.kind.is_dir() {
            let place = writer.dirs.remove(&found.index).unwrap_or_default();
            let set = writer.host.finish_dir(&place, &attributes(inode));
            writer.finished(inode, &place, set.map_err(io::Error::from))?;
        }
    }
    writer.done.left_out = writer.host.left_out();
    Ok((writer.done, writer.stored_as))
}

struct Writer<'a> {
    tree: &'a Tree,
    root: &'a Path,
    host: HostTree,
    /// First places of files with several names.
    first: HashMap<Index, Place>,
    /// Places of directories.
    dirs: HashMap<Index, Place>,
    stored_as: StoredAs,
    done: Extracted,
    buffer: Vec<u8>,
}

/// The result of creating an entry.
enum Made {
    File(File),
    Other,
    /// Only the manifest can have it.
    Nothing,
}

impl Writer<'_> {
    fn one(&mut self, found: &Found) -> Result<()> {
        let inode = self.tree.get(found.index)?;
        let Some(name) = found.path.rsplit(|&b| b == b'/').next().filter(|n| !n.is_empty()) else {
            self.dirs.insert(found.index, Place::new());
            self.done.files += 1;
            return Ok(());
        };
        let dir = found.path.get(..found.path.len() - name.len()).unwrap_or_default();
        let parent = self.tree.find(dir).and_then(|i| self.dirs.get(&i)).cloned();
        let parent = parent.ok_or(Error::Invariant("a directory precedes what it contains"))?;
        let (place, made) = self.placed(inode, found.index, parent, name)?;
        if matches!(made, Made::Nothing) {
            return Ok(());
        }
        if place.last().is_none_or(|n| n != name) {
            let relative = place.join(&b'/');
            self.done.renamed.push((path_of(&found.path), path_of(&relative)));
            self.stored_as.push((found.path.clone(), relative));
        }
        if inode.kind.is_dir() {
            self.dirs.insert(found.index, place);
            self.done.files += 1;
        } else if !self.first.contains_key(&found.index) {
            self.fill(inode, &place, &made)?;
            self.first.insert(found.index, place);
            self.done.files += 1;
        }
        Ok(())
    }

    /// Creates it under its name, or under a substitute if the host cannot store that.
    fn placed(&mut self, inode: &Inode, index: Index, parent: Place, name: &[u8]) -> Result<(Place, Made)> {
        let mut place = parent;
        place.push(name.to_vec());
        for attempt in 0..ATTEMPTS {
            match self.create(inode, index, &place) {
                Ok(made) => return Ok((place, made)),
                Err(Errno::PERM)
                    if !self.host.is_privileged() && matches!(inode.kind, Kind::Special { .. }) =>
                {
                    self.done.incomplete += 1;
                    return Ok((place, Made::Nothing));
                }
                // Not a name of this host, or one that it takes for another.
                Err(Errno::INVAL | Errno::ILSEQ | Errno::NAMETOOLONG | Errno::EXIST) => {
                    place.pop();
                    place.push(substitute(name, attempt));
                }
                Err(e) => return Err(self.failed("create", &place, e)),
            }
        }
        place.pop();
        place.push(name.to_vec());
        Err(self.failed("create", &place, Errno::EXIST))
    }

    fn create(&mut self, inode: &Inode, index: Index, place: &[Vec<u8>]) -> Result<Made, Errno> {
        if let Some(first) = self.first.get(&index) {
            return self.host.hard_link(first, place).map(|()| Made::Other);
        }
        match &inode.kind {
            Kind::Directory(_) => self.host.make_dir(place).map(|()| Made::Other),
            Kind::File(_) => self.host.make_file(place).map(Made::File),
            Kind::Symlink(target) => self.host.make_symlink(place, target).map(|()| Made::Other),
            Kind::Special { .. } => {
                let made = self.host.make_node(place, node(&inode.kind))?;
                Ok(if made { Made::Other } else { Made::Nothing })
            }
        }
    }

    /// Writes content and attributes of anything but a directory.
    fn fill(&mut self, inode: &Inode, place: &[Vec<u8>], made: &Made) -> Result<()> {
        let attributes = attributes(inode);
        let set = match (&inode.kind, made) {
            (Kind::File(_), Made::File(file)) => {
                self.content(inode, file, place)?;
                self.host.finish_file(file, &attributes).map_err(io::Error::from)
            }
            (kind, _) => self.host.finish_node(place, node(kind), &attributes),
        };
        self.finished(inode, place, set)
    }

    /// Copies data and leaves holes.
    fn content(&mut self, inode: &Inode, file: &File, place: &[Vec<u8>]) -> Result<()> {
        let Kind::File(content) = &inode.kind else { return Ok(()) };
        let reading = content.open()?;
        let mut at = 0;
        while let Some(data) = reading.next_data(at)? {
            let len = usize::try_from(content.size - data).map_or(BUFFER, |n| n.min(BUFFER));
            let part = self.buffer.get_mut(..len).unwrap_or_default();
            reading.read(part, data)?;
            file.write_all_at(part, data).map_err(|e| self.failed("write", place, e))?;
            self.done.bytes += len as u64;
            at = data + len as u64;
        }
        file.set_len(content.size).map_err(|e| self.failed("write", place, e))
    }

    /// Counts files of which the host cannot store all.
    fn finished(&mut self, inode: &Inode, place: &[Vec<u8>], set: io::Result<u32>) -> Result<()> {
        let refused = set.map_err(|e| self.failed("set the attributes of", place, e))?;
        let own = |id: u32, mine: u32| self.host.is_privileged() || id == mine;
        let complete = refused == 0
            && inode.flags == InodeFlags::empty()
            && inode.projid == 0
            && own(inode.uid, rustix::process::geteuid().as_raw())
            && own(inode.gid, rustix::process::getegid().as_raw());
        self.done.incomplete += u64::from(!complete);
        Ok(())
    }

    fn failed(&self, action: &'static str, place: &[Vec<u8>], e: impl Into<io::Error>) -> Error {
        Error::host(action, &self.root.join(path_of(&place.join(&b'/'))), e)
    }
}

fn node(kind: &Kind) -> Node {
    let (major, minor) = if let Kind::Special { numbers, .. } = kind { *numbers } else { (0, 0) };
    (HostKind::from_raw_mode(kind.format().into()), major, minor)
}

fn attributes(inode: &Inode) -> Attributes<'_> {
    let time = (inode.time.secs, inode.time.nsec);
    Attributes {
        mode: inode.mode.into(),
        uid: inode.uid,
        gid: inode.gid,
        accessed: time,
        modified: time,
        xattrs: inode.xattrs.iter().map(|(name, value)| (&name[..], &value[..])).collect(),
    }
}
