//! `segno put`: copies files with all their attributes into an image.
use crate::exit::Outcome;
use crate::path::{place_for, reason};
use crate::tally::Tally;
use crate::{image, show};
use anyhow::{Context, Result, bail};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use segno::{OpenOptions, SetMetadata, Special, Time, Volume};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 20;
/// Longest list of attribute names, and longest value, in Linux.
const XATTR_MAX: usize = 65_536;

/// Copy files into an image
#[derive(clap::Args)]
pub struct Args {
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Image file or block device
    image: PathBuf,
    /// What to copy: a file, or a directory with everything below it
    source: PathBuf,
    /// Path on the volume; copies into it if it is an existing directory
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
    let copied = place_for(&volume, &args.path, &name).and_then(|to| copy.all(args.source.clone(), meta, to));
    let Copy { tally, .. } = copy;
    let closed = reason(volume.close()).with_context(|| format!("closing {}", args.image.display()));
    copied.and(closed)?;
    tally.report(args.json)
}

/// Its name in a directory of the volume. A symbolic link keeps its own name; `.` and `..` have none.
fn name_of(source: &Path) -> Result<PathBuf> {
    let full = match source.file_name() {
        Some(_) => source.to_owned(),
        None => source.canonicalize().with_context(|| format!("cannot read {}", source.display()))?,
    };
    match full.file_name() {
        Some(name) => Ok(PathBuf::from(name)),
        None => {
            bail!("{} has no name to copy it under; name a new directory on the volume", source.display())
        }
    }
}

/// A directory gets its attributes after its contents, which would change them.
enum Step {
    Make { from: PathBuf, meta: Metadata, to: PathBuf },
    Finish { from: PathBuf, meta: Metadata, to: PathBuf },
}

struct Copy<'a> {
    volume: &'a Volume,
    /// First paths of hard links, by device and inode number of the source.
    linked: HashMap<(u64, u64), PathBuf>,
    tally: Tally,
    buffer: Vec<u8>,
}

impl Copy<'_> {
    fn all(&mut self, from: PathBuf, meta: Metadata, to: PathBuf) -> Result<()> {
        let mut steps = vec![Step::Make { from, meta, to }];
        while let Some(step) = steps.pop() {
            match step {
                Step::Make { from, meta, to } => {
                    let made = self.one(&from, &meta, &to);
                    made.with_context(|| format!("copying {}", from.display()))?;
                    self.tally.add_file(&from);
                    if meta.is_dir() {
                        enter(from, meta, to, &mut steps)?;
                    }
                }
                Step::Finish { from, meta, to } => {
                    let done = self.attributes(&from, &meta, &to);
                    done.with_context(|| format!("attributes of {}", from.display()))?;
                }
            }
        }
        Ok(())
    }

    fn one(&mut self, from: &Path, meta: &Metadata, to: &Path) -> Result<()> {
        let key = (meta.dev(), meta.ino());
        if let Some(first) = self.linked.get(&key) {
            return reason(self.volume.hard_link(first, to));
        }
        let kind = meta.file_type();
        let (major, minor) = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
        let special = |special| reason(self.volume.create_special(to, special));
        if kind.is_dir() {
            reason(self.volume.create_dir(to))?;
            // Not more open than the source while it is filled.
            return reason(self.volume.set_metadata(to, &SetMetadata::new().mode(meta.mode())));
        } else if kind.is_symlink() {
            reason(self.volume.symlink(std::fs::read_link(from)?, to))?;
        } else if kind.is_file() {
            self.contents(from, meta, to)?;
        } else if kind.is_char_device() {
            special(Special::CharDevice { major, minor })?;
        } else if kind.is_block_device() {
            special(Special::BlockDevice { major, minor })?;
        } else if kind.is_fifo() {
            special(Special::Fifo)?;
        } else if kind.is_socket() {
            special(Special::Socket)?;
        } else {
            bail!("unknown type of file");
        }
        self.attributes(from, meta, to)?;
        if meta.nlink() > 1 {
            self.linked.insert(key, to.to_owned());
        }
        Ok(())
    }

    /// Copies data and preserves holes.
    fn contents(&mut self, from: &Path, meta: &Metadata, to: &Path) -> Result<()> {
        let options = OpenOptions::new().write(true).create_new(true).mode(meta.mode());
        let mut copy = reason(self.volume.open_file_with(to, &options.owner(meta.uid(), meta.gid())))?;
        let (file, size) = (File::open(from)?, meta.len());
        let mut offset = 0;
        while offset < size {
            offset = match rustix::fs::seek(&file, SeekFrom::Data(offset)) {
                Ok(data) => data,
                Err(Errno::NXIO) => break,
                Err(e) => return Err(e.into()),
            };
            let end = rustix::fs::seek(&file, SeekFrom::Hole(offset))?;
            copy.seek(io::SeekFrom::Start(offset))?;
            while offset < end {
                let len = usize::try_from(end - offset).map_or(BUFFER, |n| n.min(BUFFER));
                let n = file.read_at(self.buffer.get_mut(..len).unwrap_or_default(), offset)?;
                if n == 0 {
                    bail!("it was truncated while it was read");
                }
                copy.write_all(self.buffer.get(..n).unwrap_or_default())?;
                self.tally.add_bytes(n as u64);
                offset += n as u64;
            }
        }
        reason(copy.set_len(size))
    }

    fn attributes(&mut self, from: &Path, meta: &Metadata, to: &Path) -> Result<()> {
        self.xattrs(from, to)?;
        let time = |secs, nsec: i64| Time { secs, nsec: nsec as u32 };
        let change = SetMetadata::new()
            .owner(meta.uid(), meta.gid())
            .accessed(time(meta.atime(), meta.atime_nsec()))
            .modified(time(meta.mtime(), meta.mtime_nsec()));
        let change = if meta.is_symlink() { change } else { change.mode(meta.mode()) };
        reason(self.volume.set_symlink_metadata(to, &change))
    }

    fn xattrs(&mut self, from: &Path, to: &Path) -> Result<()> {
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
            match self.volume.set_xattr(to, OsStr::from_bytes(name), value) {
                // Name spaces that F2FS does not have.
                Err(e) if e.kind() == io::ErrorKind::Unsupported => self.tally.skip_xattr(),
                other => reason(other).with_context(failed)?,
            }
        }
        Ok(())
    }
}

/// Plans the entries of a directory.
fn enter(from: PathBuf, meta: Metadata, to: PathBuf, steps: &mut Vec<Step>) -> Result<()> {
    steps.push(Step::Finish { from: from.clone(), meta, to: to.clone() });
    let failed = || format!("reading {}", from.display());
    for entry in std::fs::read_dir(&from).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let meta = entry.metadata().with_context(failed)?;
        steps.push(Step::Make { from: entry.path(), meta, to: to.join(entry.file_name()) });
    }
    Ok(())
}
