//! Reads a tar archive: ustar, GNU and POSIX (PAX) headers.
//!
//! The reader is our own: the crate `tar` skips global headers, does not read two of the three forms of
//! sparse files, and does not report the places of a sparse file's extents. With these, archives that are files
//! need not be copied.
mod acl;
mod budget;
mod entry;
mod header;
mod pax;
mod sparse;
mod spool;

pub(crate) use spool::Spool;

use crate::content::{Content, Pieces, Place};
use crate::options::{BuildOptions, Owner};
use crate::tree::{Index, Inode, Kind, Names, ROOT, Tree};
use crate::{Error, Result};
use budget::Budget;
use entry::{Entry, Sparse};
use header::{BLOCK, Header, is_end};
use pax::Records;
use segno_engine::Time;
use segno_format::dentry::FileType;
use std::sync::Arc;

/// Longest extended header or name.
const LONGEST: u64 = 1 << 20;
/// Entries that are accepted.
const MOST_ENTRIES: u64 = 1 << 24;
/// Maximum depth of an entry: 16 times the depth of a path in the kernel.
const DEEPEST: usize = 1 << 15;

/// The tree in an archive.
pub(crate) fn read(spool: Spool, options: &BuildOptions) -> Result<Tree> {
    let mut reader = Reader {
        spool,
        options,
        tree: Tree::default(),
        global: Records::new(),
        pending: Pending::default(),
        budget: Budget::default(),
        number: 0,
        at: 0,
    };
    match reader.all() {
        Ok(()) => Ok(reader.tree),
        Err(why) => {
            Err(Error::Archive { archive: reader.spool.name, number: reader.number, at: reader.at, why })
        }
    }
}

/// Values from headers for the next entry.
#[derive(Default)]
struct Pending {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    records: Option<Records>,
}

struct Reader<'a> {
    spool: Spool,
    options: &'a BuildOptions,
    tree: Tree,
    global: Records,
    pending: Pending,
    budget: Budget,
    /// The entry that is read, from 1 on, and where its header is.
    number: u64,
    at: u64,
}

impl Reader<'_> {
    fn all(&mut self) -> Result<(), String> {
        let mut block = [0; BLOCK];
        self.tree.add(Inode::directory(0o755, Time::default()));
        loop {
            self.at = self.spool.at;
            if !self.spool.fill(&mut block)? {
                return Err("the archive has no end mark: it may be truncated".into());
            }
            if is_end(&block) {
                return Ok(());
            }
            self.number += 1;
            if self.number > MOST_ENTRIES {
                return Err(format!("the archive has more than {MOST_ENTRIES} entries"));
            }
            let header = Header::parse(&block)?;
            match header.kind {
                b'L' => self.pending.path = Some(self.name(header.size)?),
                b'K' => self.pending.link = Some(self.name(header.size)?),
                b'x' => self.pending.records = Some(self.records(header.size)?),
                b'g' => {
                    let records = self.records(header.size)?;
                    self.globals(records)?;
                }
                _ => self.entry(header)?,
            }
        }
    }

    /// Keeps the records of a header that apply to all files after it.
    fn globals(&mut self, records: Records) -> Result<(), String> {
        for (key, value) in records {
            if entry::is_of_one_file(&key) {
                return Err(format!("a global header has {} of one file", String::from_utf8_lossy(&key)));
            }
            self.budget.records(1, key.len() + value.len(), self.spool.stored())?;
            self.global.insert(key, value);
        }
        Ok(())
    }

    /// The records of an extended header, without ignored ones.
    fn records(&mut self, size: u64) -> Result<Records, String> {
        let mut records = pax::parse(&self.extension(size)?)?;
        let ignored = &self.options.ignored_headers;
        records
            .retain(|key, _| !entry::is_ignored(key) && !ignored.iter().any(|pattern| pattern.covers(key)));
        Ok(records)
    }

    /// The data of an extended header.
    fn extension(&mut self, size: u64) -> Result<Vec<u8>, String> {
        if size > LONGEST {
            return Err(format!("an extended header has {size} bytes"));
        }
        let mut bytes = vec![0; (size as usize).next_multiple_of(BLOCK)];
        if !self.spool.fill(&mut bytes)? && size > 0 {
            return Err("the archive ends in an extended header".into());
        }
        bytes.truncate(size as usize);
        Ok(bytes)
    }

    fn name(&mut self, size: u64) -> Result<Vec<u8>, String> {
        let mut name = self.extension(size)?;
        if let Some(end) = name.iter().position(|&b| b == 0) {
            name.truncate(end);
        }
        Ok(name)
    }

    fn entry(&mut self, mut header: Header) -> Result<(), String> {
        let Pending { path, link, records } = std::mem::take(&mut self.pending);
        header.path = path.unwrap_or(header.path);
        header.link = link.unwrap_or(header.link);
        let entry = Entry::new(header, &self.global, &records.unwrap_or_default())?;
        let path = normal(&entry.header.path)?;
        if self.is_excluded(&path)? {
            return self.skip_data(&entry);
        }
        let made = self.make(&entry, &path);
        made.map_err(|why| format!("{}: {why}", String::from_utf8_lossy(&entry.header.path)))
    }

    fn is_excluded(&mut self, path: &[Vec<u8>]) -> Result<bool, String> {
        if self.options.exclude.is_empty() {
            return Ok(false);
        }
        let whole = path.join(&b'/');
        self.budget.compare(path.len(), whole.len(), self.spool.stored())?;
        let ends = path.iter().scan(0, |end, name| {
            *end += name.len() + usize::from(*end > 0);
            Some(*end)
        });
        let mut prefixes = ends.filter_map(|end| whole.get(..end));
        Ok(prefixes.any(|prefix| self.options.exclude.iter().any(|e| e.covers(prefix))))
    }

    fn skip_data(&mut self, entry: &Entry) -> Result<(), String> {
        if has_data(entry.header.kind) {
            if let Some(Sparse::Gnu(sparse)) = &entry.sparse {
                sparse::gnu_extents(&mut self.spool, sparse)?;
            }
            return self.spool.skip(padded(entry.header.size)?);
        }
        Ok(())
    }

    fn make(&mut self, entry: &Entry, path: &[Vec<u8>]) -> Result<(), String> {
        let header = &entry.header;
        let Some((name, parents)) = path.split_last() else { return self.root(entry) };
        let parent = self.parent(parents, entry.time)?;
        let find = |tree: &Tree| tree.names(parent).ok().and_then(|names| names.get(&name[..]).copied());
        let is_dir = header.kind == b'5' || matches!(header.kind, b'0' | b'7') && header.path.ends_with(b"/");
        let old = find(&self.tree);
        let old_is_dir = old.is_some_and(|i| self.tree.is_dir(i));
        let index = if header.kind == b'1' {
            let target = normal(&header.link)?.join(&b'/');
            let found = self.tree.find(&target).filter(|i| !self.tree.is_dir(*i));
            found.ok_or_else(|| {
                format!(
                    "a hard link to {}, which is no file before it",
                    String::from_utf8_lossy(&header.link)
                )
            })?
        } else {
            let kind = if is_dir { Kind::Directory(Names::new()) } else { self.kind(entry)? };
            let inode = self.inode(entry, kind)?;
            self.pay(&inode, name)?;
            match old.filter(|_| is_dir && old_is_dir) {
                Some(existing) => return self.renew(existing, inode),
                None => self.tree.add(inode),
            }
        };
        if old_is_dir && old.and_then(|i| self.tree.names(i).ok()).is_some_and(|names| !names.is_empty()) {
            return Err("it would replace a directory that is not empty".into());
        }
        self.tree.link(parent, name, index).map(drop).map_err(|e| e.to_string())
    }

    fn root(&mut self, entry: &Entry) -> Result<(), String> {
        if entry.header.kind != b'5' {
            return Err("the root is a directory".into());
        }
        let inode = self.inode(entry, Kind::Directory(Names::new()))?;
        self.renew(ROOT, inode)
    }

    /// Gives a directory other attributes.
    fn renew(&mut self, dir: Index, inode: Inode) -> Result<(), String> {
        let dir = self.tree.get_mut(dir).map_err(|e| e.to_string())?;
        let old = std::mem::replace(dir, inode);
        dir.kind = old.kind;
        Ok(())
    }

    /// The parent directory of an entry. Directories that the archive does not list are created.
    fn parent(&mut self, path: &[Vec<u8>], time: Time) -> Result<Index, String> {
        let mut at = ROOT;
        for name in path {
            let found = self.tree.names(at).map_err(|e| e.to_string())?.get(&name[..]).copied();
            at = match found {
                Some(index) if self.tree.is_dir(index) => index,
                Some(_) => {
                    return Err(format!("{} on its way is no directory", String::from_utf8_lossy(name)));
                }
                None => {
                    self.budget.inode(name.len(), self.spool.stored())?;
                    let index = self.tree.add(Inode::directory(0o755, time));
                    self.tree.link(at, name, index).map_err(|e| e.to_string())?;
                    index
                }
            };
        }
        Ok(at)
    }

    /// Takes the memory of an inode from the budget, without the extents of a sparse file.
    fn pay(&mut self, inode: &Inode, name: &[u8]) -> Result<(), String> {
        let stored = self.spool.stored();
        let target = if let Kind::Symlink(target) = &inode.kind { target.len() } else { 0 };
        self.budget.inode(name.len() + target, stored)?;
        let text = inode.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.budget.records(inode.xattrs.len(), text, stored)
    }

    fn inode(&self, entry: &Entry, kind: Kind) -> Result<Inode, String> {
        let header = &entry.header;
        let mut inode = Inode::new(kind, header.mode as u16, entry.time);
        if self.options.owner == Owner::Keep {
            (inode.uid, inode.gid) = (id(header.uid)?, id(header.gid)?);
        }
        inode.xattrs.clone_from(&entry.xattrs);
        Ok(inode)
    }

    fn kind(&mut self, entry: &Entry) -> Result<Kind, String> {
        let header = &entry.header;
        let special = |kind, numbers| Ok(Kind::Special { kind, numbers });
        match header.kind {
            b'0' | b'7' | b'S' => self.content(entry).map(Kind::File),
            b'2' if header.link.is_empty() => Err("a symbolic link without target".into()),
            b'2' => Ok(Kind::Symlink(header.link.clone().into())),
            b'3' => special(FileType::CharDevice, header.device),
            b'4' => special(FileType::BlockDevice, header.device),
            b'6' => special(FileType::Fifo, (0, 0)),
            other => Err(format!("entries of type {:?} are not supported", char::from(other))),
        }
    }

    fn content(&mut self, entry: &Entry) -> Result<Content, String> {
        let (extents, size) = sparse::extents(&mut self.spool, entry)?;
        self.budget.extents(extents.len(), self.spool.stored())?;
        let stored = extents.iter().map(|(_, len)| len).sum::<u64>();
        let (archive, at) = self.spool.keep(stored)?;
        let whole = padded(sparse::stored_size(entry, stored))?;
        self.spool.skip(whole - stored)?;
        let name = self.spool.name.clone();
        let extents = sparse::placed(&extents, at);
        Ok(Content { size, place: Place::Archive(Arc::new(Pieces { archive, name, extents })) })
    }
}

fn has_data(kind: u8) -> bool {
    !matches!(kind, b'1'..=b'6')
}

/// Bytes with those up to the next block.
fn padded(size: u64) -> Result<u64, String> {
    size.checked_next_multiple_of(BLOCK as u64).ok_or_else(|| "a size is too large".into())
}

fn id(number: u64) -> Result<u32, String> {
    u32::try_from(number)
        .ok()
        .filter(|n| *n != u32::MAX)
        .ok_or_else(|| format!("owner {number} is out of range"))
}

/// The names of a path. It cannot lead out of the tree.
fn normal(path: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut names = Vec::new();
    for name in path.split(|&b| b == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                return Err(format!("the path {:?} leads out of the tree", String::from_utf8_lossy(path)));
            }
            _ if names.len() > DEEPEST => return Err(format!("it is below more than {DEEPEST} directories")),
            _ => names.push(name.to_vec()),
        }
    }
    Ok(names)
}
