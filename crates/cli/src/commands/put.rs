//! `segno put`: copies files into an image, with everything that a file has.
use crate::exit::Outcome;
use crate::path::place_for;
use crate::tally::Tally;
use crate::{image, show};
use anyhow::{Context, Result, bail};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use segno_engine::{Owner, SetAttr, Time, Volume, XattrMode};
use segno_format::Ino;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 20;
/// Longest list of attribute names, and longest value, in Linux.
const XATTR_MAX: usize = 65_536;

#[derive(clap::Args)]
pub struct Args {
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Image file or block device
    image: PathBuf,
    /// What to copy: a file, or a directory with everything below it
    source: PathBuf,
    /// Path on the volume; an existing directory takes it under its name
    #[arg(default_value = "/")]
    path: String,
}

pub fn run(args: &Args) -> Outcome {
    let meta =
        args.source.symlink_metadata().with_context(|| format!("cannot read {}", args.source.display()))?;
    let name = name_of(&args.source)?;
    let volume = image::volume_read_write(&args.image)?;
    let mut copy =
        Copy { volume: &volume, linked: HashMap::new(), tally: Tally::new(), buffer: vec![0; BUFFER] };
    let copied = place_for(&volume, &args.path, &name)
        .and_then(|(dir, name)| copy.all(args.source.clone(), meta, dir, name));
    let closed = volume.unmount().with_context(|| format!("closing {}", args.image.display()));
    copied.and(closed)?;
    copy.tally.report(args.json)
}

/// What a directory of the volume calls it. A symbolic link keeps its own name; `.` and `..` have none.
fn name_of(source: &Path) -> Result<Vec<u8>> {
    let full = match source.file_name() {
        Some(_) => source.to_owned(),
        None => source.canonicalize().with_context(|| format!("cannot read {}", source.display()))?,
    };
    match full.file_name() {
        Some(name) => Ok(name.as_bytes().to_vec()),
        None => {
            bail!("{} has no name to copy it under; name a new directory on the volume", source.display())
        }
    }
}

/// A directory gets its attributes after its contents, which would change them.
enum Step {
    Make { from: PathBuf, meta: Metadata, dir: Ino, name: Vec<u8> },
    Finish { from: PathBuf, meta: Metadata, ino: Ino },
}

struct Copy<'a> {
    volume: &'a Volume,
    /// Inodes of the source with several names, by device and number.
    linked: HashMap<(u64, u64), Ino>,
    tally: Tally,
    buffer: Vec<u8>,
}

impl Copy<'_> {
    fn all(&mut self, from: PathBuf, meta: Metadata, dir: Ino, name: Vec<u8>) -> Result<()> {
        let mut steps = vec![Step::Make { from, meta, dir, name }];
        while let Some(step) = steps.pop() {
            match step {
                Step::Make { from, meta, dir, name } => {
                    let made = self.one(&from, &meta, dir, &name);
                    let ino = made.with_context(|| format!("copying {}", from.display()))?;
                    self.tally.add_file(&from);
                    if meta.is_dir() {
                        self.enter(from, meta, ino, &mut steps)?;
                    }
                }
                Step::Finish { from, meta, ino } => {
                    let done = self.attributes(&from, &meta, ino);
                    done.with_context(|| format!("attributes of {}", from.display()))?;
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, from: PathBuf, meta: Metadata, ino: Ino, steps: &mut Vec<Step>) -> Result<()> {
        let finish = Step::Finish { from: from.clone(), meta, ino };
        steps.push(finish);
        let failed = || format!("reading {}", from.display());
        for entry in std::fs::read_dir(&from).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let meta = entry.metadata().with_context(failed)?;
            let name = entry.file_name().as_bytes().to_vec();
            steps.push(Step::Make { from: entry.path(), meta, dir: ino, name });
        }
        Ok(())
    }

    fn one(&mut self, from: &Path, meta: &Metadata, dir: Ino, name: &[u8]) -> Result<Ino> {
        let key = (meta.dev(), meta.ino());
        if let Some(&ino) = self.linked.get(&key) {
            return Ok(self.volume.link(ino, dir, name)?.ino);
        }
        let owner = Owner { uid: meta.uid(), gid: meta.gid(), umask: 0 };
        let mode = meta.mode() as u16;
        let kind = meta.file_type();
        let attr = if kind.is_dir() {
            return Ok(self.volume.mkdir(dir, name, mode, owner)?.ino);
        } else if kind.is_symlink() {
            self.volume.symlink(dir, name, std::fs::read_link(from)?.as_os_str().as_bytes(), owner)?
        } else if kind.is_file() {
            let attr = self.volume.mknod(dir, name, mode, (0, 0), owner)?;
            self.contents(from, meta.len(), attr.ino)?;
            attr
        } else if kind.is_char_device() || kind.is_block_device() || kind.is_fifo() || kind.is_socket() {
            let rdev = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
            self.volume.mknod(dir, name, mode, rdev, owner)?
        } else {
            bail!("unknown type of file");
        };
        self.attributes(from, meta, attr.ino)?;
        if meta.nlink() > 1 {
            self.linked.insert(key, attr.ino);
        }
        Ok(attr.ino)
    }

    /// Copies data and leaves holes holes.
    fn contents(&mut self, from: &Path, size: u64, ino: Ino) -> Result<()> {
        let file = File::open(from)?;
        let mut offset = 0;
        while offset < size {
            offset = match rustix::fs::seek(&file, SeekFrom::Data(offset)) {
                Ok(data) => data,
                Err(Errno::NXIO) => break,
                Err(e) => return Err(e.into()),
            };
            let end = rustix::fs::seek(&file, SeekFrom::Hole(offset))?;
            while offset < end {
                let want = usize::try_from(end - offset).map_or(BUFFER, |n| n.min(BUFFER));
                let n = file.read_at(self.buffer.get_mut(..want).unwrap_or_default(), offset)?;
                if n == 0 {
                    bail!("it became shorter while it was read");
                }
                self.write(ino, offset, n)?;
                offset += n as u64;
            }
        }
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        Ok(self.volume.setattr(ino, &set).map(|_| ())?)
    }

    /// Writes the first bytes of the buffer.
    fn write(&mut self, ino: Ino, offset: u64, len: usize) -> Result<()> {
        let mut rest = self.buffer.get(..len).unwrap_or_default();
        let mut at = offset;
        while !rest.is_empty() {
            let n = self.volume.write(ino, at, rest)?;
            rest = rest.get(n..).unwrap_or_default();
            at += n as u64;
        }
        self.tally.add_bytes(len as u64);
        Ok(())
    }

    fn attributes(&mut self, from: &Path, meta: &Metadata, ino: Ino) -> Result<()> {
        self.xattrs(from, ino)?;
        let time = |secs, nsec: i64| Some(Time { secs, nsec: nsec as u32 });
        let set = SetAttr {
            mode: (!meta.is_symlink()).then_some(meta.mode() as u16 & 0o7777),
            uid: Some(meta.uid()),
            gid: Some(meta.gid()),
            atime: time(meta.atime(), meta.atime_nsec()),
            mtime: time(meta.mtime(), meta.mtime_nsec()),
            ..SetAttr::default()
        };
        Ok(self.volume.setattr(ino, &set).map(|_| ())?)
    }

    fn xattrs(&mut self, from: &Path, ino: Ino) -> Result<()> {
        let mut names = vec![0; XATTR_MAX];
        let n = match rustix::fs::llistxattr(from, &mut names) {
            Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(()),
            other => other.context("listing the extended attributes")?,
        };
        let mut value = vec![0; XATTR_MAX];
        for name in names.get(..n).unwrap_or_default().split(|&b| b == 0).filter(|n| !n.is_empty()) {
            let failed = || format!("attribute {}", show::name(name));
            let n = rustix::fs::lgetxattr(from, name, &mut value).with_context(failed)?;
            let value = value.get(..n).unwrap_or_default();
            match self.volume.setxattr(ino, name, value, XattrMode::Set) {
                Ok(()) => {}
                // Name spaces that F2FS does not have.
                Err(segno_engine::Error::NotSupported(_)) => self.tally.skip_xattr(),
                Err(e) => return Err(e).with_context(failed),
            }
        }
        Ok(())
    }
}
