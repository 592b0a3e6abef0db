//! Writes a tree into a directory of the host.
use super::names::substitute;
use super::{Extracted, Found, names_of};
use crate::tree::{BLOCK_DEVICE, CHAR_DEVICE, Index, Inode, Kind, Tree};
use crate::{Error, Progress, Result};
use rustix::fs::{AtFlags, CWD, FileType as Node, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use segno_format::inode::InodeFlags;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 20;
/// Substitutes that are tried for one name.
const ATTEMPTS: u32 = 1000;

/// Inodes whose names differ on the host, with the path there.
pub(super) type StoredAs = Vec<(Vec<u8>, Vec<u8>)>;

/// Writes everything; the directory must be new or empty.
pub(super) fn write(
    tree: &Tree,
    dir: &Path,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<(Extracted, StoredAs)> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => refuse_content(dir)?,
        made => made.map_err(|e| Error::host("create", dir, e))?,
    }
    let mut writer = Writer {
        tree,
        root: dir,
        privileged: rustix::process::geteuid().is_root(),
        first: HashMap::new(),
        hosts: HashMap::new(),
        stored_as: Vec::new(),
        done: Extracted::default(),
        buffer: vec![0; BUFFER],
    };
    let all = names_of(tree)?;
    for found in &all {
        writer.one(found)?;
        let path = || PathBuf::from(OsStr::from_bytes(&found.path));
        progress(Progress { path: &path, files: writer.done.files, bytes: writer.done.bytes });
    }
    // Directories get their attributes when they are filled, the deepest first.
    for found in all.iter().rev() {
        let inode = tree.get(found.index)?;
        if inode.kind.is_dir() {
            let host = writer.hosts.get(&found.index).cloned().unwrap_or_else(|| dir.to_owned());
            writer.attributes(inode, &host)?;
        }
    }
    Ok((writer.done, writer.stored_as))
}

fn refuse_content(dir: &Path) -> Result<()> {
    let mut entries = dir.read_dir().map_err(|e| Error::host("read", dir, e))?;
    match entries.next() {
        Some(_) => Err(Error::host("extract into", dir, io::Error::from(Errno::NOTEMPTY))),
        None => Ok(()),
    }
}

struct Writer<'a> {
    tree: &'a Tree,
    root: &'a Path,
    /// Owners, devices and some attributes need privilege.
    privileged: bool,
    /// First paths of files with several names.
    first: HashMap<Index, PathBuf>,
    /// Paths of directories.
    hosts: HashMap<Index, PathBuf>,
    stored_as: StoredAs,
    done: Extracted,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    fn one(&mut self, found: &Found) -> Result<()> {
        let inode = self.tree.get(found.index)?;
        let Some(name) = found.path.rsplit(|&b| b == b'/').next().filter(|n| !n.is_empty()) else {
            self.hosts.insert(found.index, self.root.to_owned());
            self.done.files += 1;
            return Ok(());
        };
        let dir = found.path.get(..found.path.len() - name.len()).unwrap_or_default();
        let parent = self.tree.find(dir).and_then(|i| self.hosts.get(&i)).cloned();
        let parent = parent.ok_or(Error::Invariant("a directory precedes what it contains"))?;
        let host = self.placed(inode, found.index, &parent, name)?;
        let Some(host) = host else { return Ok(()) };
        if host.file_name().is_none_or(|n| n.as_bytes() != name) {
            let relative = host.strip_prefix(self.root).unwrap_or(&host).to_owned();
            self.stored_as.push((found.path.clone(), relative.as_os_str().as_bytes().to_vec()));
            self.done.renamed.push((PathBuf::from(OsStr::from_bytes(&found.path)), relative));
        }
        if inode.kind.is_dir() {
            self.hosts.insert(found.index, host);
            self.done.files += 1;
        } else if !self.first.contains_key(&found.index) {
            if let Kind::File(_) = inode.kind {
                self.content(inode, &host)?;
            }
            self.attributes(inode, &host)?;
            self.first.insert(found.index, host);
            self.done.files += 1;
        }
        Ok(())
    }

    /// Creates it under its name, or under a substitute if the host cannot store that; `None` if only the manifest can have it.
    fn placed(&mut self, inode: &Inode, index: Index, parent: &Path, name: &[u8]) -> Result<Option<PathBuf>> {
        let plain = parent.join(OsStr::from_bytes(name));
        let mut host = plain.clone();
        for attempt in 0..ATTEMPTS {
            match self.create(inode, index, &host) {
                Ok(()) => return Ok(Some(host)),
                Err(Errno::PERM) if !self.privileged && matches!(inode.kind, Kind::Special { .. }) => {
                    self.done.incomplete += 1;
                    return Ok(None);
                }
                // Not a name of this host, or one that it takes for another.
                Err(Errno::INVAL | Errno::ILSEQ | Errno::NAMETOOLONG | Errno::EXIST) => {
                    host = parent.join(OsStr::from_bytes(&substitute(name, attempt)));
                }
                Err(e) => return Err(Error::host("create", &host, e)),
            }
        }
        Err(Error::host("create", &plain, Errno::EXIST))
    }

    fn create(&self, inode: &Inode, index: Index, host: &Path) -> std::result::Result<(), Errno> {
        let errno = |e: io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        if let Some(first) = self.first.get(&index) {
            return std::fs::hard_link(first, host).map_err(errno);
        }
        match &inode.kind {
            // Open to us alone until its attributes are set.
            Kind::Directory(_) => DirBuilder::new().mode(0o700).create(host).map_err(errno),
            Kind::File(_) => {
                let made = File::options().write(true).create_new(true).mode(0o600).open(host);
                made.map(drop).map_err(errno)
            }
            Kind::Symlink(target) => symlink(OsStr::from_bytes(target), host).map_err(errno),
            Kind::Special { format, numbers: (major, minor) } => {
                let device = matches!(*format, CHAR_DEVICE | BLOCK_DEVICE);
                let device = if device { rustix::fs::makedev(*major, *minor) } else { 0 };
                rustix::fs::mknodat(CWD, host, Node::from_raw_mode((*format).into()), Mode::RUSR, device)
            }
        }
    }

    /// Copies data and leaves holes.
    fn content(&mut self, inode: &Inode, host: &Path) -> Result<()> {
        let Kind::File(content) = &inode.kind else { return Ok(()) };
        let failed = |e| Error::host("write", host, e);
        let file = File::options().write(true).open(host).map_err(failed)?;
        let reading = content.open()?;
        let mut at = 0;
        while let Some(data) = reading.next_data(at)? {
            let len = usize::try_from(content.size - data).map_or(BUFFER, |n| n.min(BUFFER));
            let part = self.buffer.get_mut(..len).unwrap_or_default();
            reading.read(part, data)?;
            file.write_all_at(part, data).map_err(failed)?;
            self.done.bytes += len as u64;
            at = data + len as u64;
        }
        file.set_len(content.size).map_err(failed)
    }

    /// Stores what the host can store, and counts files of which it cannot store all.
    fn attributes(&mut self, inode: &Inode, host: &Path) -> Result<()> {
        let failed = |e: Errno| Error::host("set the attributes of", host, e);
        let mut complete = inode.flags == InodeFlags::empty() && inode.projid == 0;
        if self.privileged {
            let (uid, gid) = (Uid::from_raw(inode.uid), Gid::from_raw(inode.gid));
            rustix::fs::chownat(CWD, host, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(failed)?;
        } else {
            complete &= inode.uid == rustix::process::geteuid().as_raw();
            complete &= inode.gid == rustix::process::getegid().as_raw();
        }
        for (name, value) in &inode.xattrs {
            let flags = XattrFlags::empty();
            match rustix::fs::lsetxattr(host, OsStr::from_bytes(name), value, flags) {
                Err(
                    Errno::OPNOTSUPP
                    | Errno::PERM
                    | Errno::ACCESS
                    | Errno::INVAL
                    | Errno::NOSPC
                    | Errno::TOOBIG,
                ) => complete = false,
                set => set.map_err(failed)?,
            }
        }
        if !matches!(inode.kind, Kind::Symlink(_)) {
            let mode = Permissions::from_mode(inode.mode.into());
            std::fs::set_permissions(host, mode).map_err(|e| Error::host("set the mode of", host, e))?;
        }
        let time = Timespec { tv_sec: inode.time.secs, tv_nsec: inode.time.nsec.into() };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, host, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        self.done.incomplete += u64::from(!complete);
        Ok(())
    }
}
