//! Reads the tree of an F2FS volume: a raw image, an Android sparse one, or a block device.
use crate::content::{Content, OpenVolume, Place};
use crate::tree::{Index, Inode, Kind, Names, Tree, joined};
use crate::{Error, Result};
use parking_lot::Mutex;
use segno_device::{BlockDevice, FileDevice, OpenOptions, open_volume, share_storage};
use segno_engine::options::JournalMode;
use segno_engine::{Attr, JournalArea, MountOptions, Observer, Visits, Volume};
use segno_format::Ino;
use segno_format::dentry::FileType;
use segno_format::inode::InodeFlags;
use segno_format::text;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, iter};

/// Flags that describe the storage of a file, not the file.
const STORAGE: InodeFlags = InodeFlags::COMPR.union(InodeFlags::INDEX);

/// The storage of a volume, open for reading.
pub struct OpenImage {
    pub(crate) path: PathBuf,
    /// Its other files: further devices and the external journal.
    others: Vec<PathBuf>,
    device: Arc<dyn BlockDevice>,
    journal: JournalMode,
}

impl OpenImage {
    /// Opens an image, raw or sparse, or a device, with the further devices of its volume and the external journal.
    pub fn open(path: &Path, further: &[PathBuf], journal: Option<&Path>) -> Result<Self> {
        let read_only = OpenOptions { read_only: true, direct: false };
        let paths: Vec<&Path> = iter::once(path).chain(further.iter().map(PathBuf::as_path)).collect();
        let device = open_volume(&paths, read_only)?;
        let others = further.iter().cloned().chain(journal.map(Path::to_owned)).collect();
        let journal = match journal {
            Some(path) => {
                JournalMode::External(JournalArea::whole(Arc::new(FileDevice::open(path, read_only)?)))
            }
            None => JournalMode::Off,
        };
        Ok(Self { path: path.to_owned(), others, device, journal })
    }

    /// Refuses a file to write that the volume is on.
    pub(crate) fn refuse_target(&self, target: &Path) -> Result<()> {
        let mut files = iter::once(&self.path).chain(&self.others);
        match files.any(|file| share_storage(file, target)) {
            true => Err(Error::host(
                "write",
                target,
                io::Error::other("it is the source, and would be overwritten"),
            )),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for OpenImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenImage").field(&self.path).finish()
    }
}

/// Reads all names and attributes.
pub(crate) fn read(image: OpenImage, excluded: &dyn Fn(&[u8]) -> bool) -> Result<Tree> {
    let OpenImage { path, device, journal, .. } = image;
    let notices = Arc::new(Mutex::new(Vec::new()));
    let heard = notices.clone();
    let observer = Observer::new(move |n| heard.lock().push(n.to_string()));
    let options =
        MountOptions { read_only: true, journal, background: false, observer, ..MountOptions::default() };
    let refused = |source| Error::Mount { path, source };
    let volume = Volume::mount(device, options).map_err(refused)?;
    let volume = Arc::new(OpenVolume(volume));
    let root = volume.0.root();
    let tree = Tree { notes: std::mem::take(&mut *notices.lock()), ..Tree::default() };
    let visits = Visits::default();
    let mut reader = Reader { volume, found: HashMap::new(), visits, tree, excluded };
    let attr = reader.volume.0.getattr(root).map_err(Error::Source)?;
    let index = reader.add(&attr)?;
    reader.all(root, index)?;
    Ok(reader.tree)
}

struct Reader<'a> {
    volume: Arc<OpenVolume>,
    found: HashMap<Ino, Index>,
    visits: Visits,
    tree: Tree,
    excluded: &'a dyn Fn(&[u8]) -> bool,
}

impl Reader<'_> {
    fn all(&mut self, root: Ino, index: Index) -> Result<()> {
        self.found.insert(root, index);
        self.volume.0.visit_dir(&mut self.visits, Ino::NONE, b"", root).map_err(Error::Source)?;
        // The path of the directory that is read; for each one that waits, the length of the path above it.
        let (mut path, mut rest) = (Vec::new(), vec![(root, index, 0, Vec::new())]);
        while let Some((dir, parent, above, name)) = rest.pop() {
            path.truncate(above);
            path = joined(&path, &name);
            for (name, ino) in self.entries(dir).map_err(|e| at(&path, e))? {
                let path_of_entry = joined(&path, &name);
                if (self.excluded)(&path_of_entry) {
                    continue;
                }
                let index = self.entry((dir, parent), &name, ino).map_err(|e| at(&path_of_entry, e))?;
                if self.tree.get(index)?.kind.is_dir() {
                    rest.push((ino, index, path.len(), name));
                }
            }
        }
        Ok(())
    }

    /// Adds a name, and its inode unless another name led to it.
    fn entry(&mut self, (dir, parent): (Ino, Index), name: &[u8], ino: Ino) -> Result<Index> {
        let attr = self.volume.0.getattr(ino).map_err(Error::Source)?;
        let visited = match attr.kind {
            FileType::Directory => self.volume.0.visit_dir(&mut self.visits, dir, name, ino),
            _ => self.volume.0.visit_file(&mut self.visits, &attr),
        };
        visited.map_err(Error::Source)?;
        let index = match self.found.get(&ino) {
            Some(&index) => index,
            None => self.add(&attr)?,
        };
        self.found.insert(ino, index);
        match self.tree.link(parent, name, index)? {
            Some(_) => Err(Error::Options("the directory has this name twice".into())),
            None => Ok(index),
        }
    }

    fn entries(&self, dir: Ino) -> Result<Vec<(Vec<u8>, Ino)>> {
        let mut entries = Vec::new();
        let mut each = |entry: segno_engine::DirEntry<'_>| {
            if entry.name != b"." && entry.name != b".." {
                entries.push((entry.name.to_vec(), entry.ino));
            }
            true
        };
        self.volume.0.readdir(dir, 0, &mut each).map_err(Error::Source)?;
        if let Some((name, _)) =
            entries.iter().find(|(n, _)| n.is_empty() || n.contains(&b'/') || n.contains(&0))
        {
            let name = text::name(name);
            return Err(Error::Options(format!(
                "the source volume has a name that no path can hold: \"{name}\""
            )));
        }
        Ok(entries)
    }

    fn add(&mut self, attr: &Attr) -> Result<Index> {
        let volume = &self.volume.0;
        let kind = match attr.kind {
            FileType::Directory => Kind::Directory(Names::new()),
            FileType::Regular => {
                let place = Place::Volume(Arc::clone(&self.volume), attr.ino);
                Kind::File(Content { size: attr.size, place })
            }
            FileType::Symlink => Kind::Symlink(volume.readlink(attr.ino).map_err(Error::Source)?.into()),
            kind => Kind::Special { kind, numbers: attr.rdev },
        };
        let mut inode = Inode::new(kind, attr.mode, attr.mtime);
        (inode.uid, inode.gid, inode.projid) = (attr.uid, attr.gid, attr.projid);
        inode.flags = attr.flags - STORAGE;
        inode.xattrs = self.xattrs(attr.ino)?;
        Ok(self.tree.add(inode))
    }

    fn xattrs(&self, ino: Ino) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let names = self.volume.0.listxattr(ino).map_err(Error::Source)?;
        let names = names.split(|&b| b == 0).filter(|n| !n.is_empty());
        let each = names.map(|name| {
            let value = self.volume.0.getxattr(ino, name).map_err(Error::Source)?;
            Ok((name.to_vec(), value))
        });
        each.collect()
    }
}

/// Names the path that an error is about.
fn at(path: &[u8], e: Error) -> Error {
    let path = text::name(path);
    match e {
        Error::Source(source) => Error::SourcePath { path, source },
        Error::Options(why) => Error::Options(format!("/{path} of the source volume: {why}")),
        other => other,
    }
}
