//! `segno get`: copies files out of an image, with everything that a file has.
use crate::exit::Outcome;
use crate::path::{Last, entries, resolve};
use crate::tally::Tally;
use crate::{image, show};
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{AtFlags, CWD, FileType as Node, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use segno_engine::{Attr, Error, Time, Volume};
use segno_format::Ino;
use segno_format::dentry::FileType;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 20;

#[derive(clap::Args)]
pub struct Args {
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Image file or block device
    image: PathBuf,
    /// Path on the volume
    path: String,
    /// Where to; an existing directory takes it under its name
    dest: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    let volume = image::volume_read_only(&args.image)?;
    let attr = resolve(&volume, &args.path, Last::Keep)?;
    let mut copy = Copy {
        volume: &volume,
        privileged: rustix::process::geteuid().is_root(),
        linked: HashMap::new(),
        entered: HashSet::new(),
        tally: Tally::new(),
        buffer: vec![0; BUFFER],
    };
    copy.all(attr, destination(args)?)?;
    copy.tally.report(args.json)
}

fn destination(args: &Args) -> Result<PathBuf> {
    if !args.dest.is_dir() {
        return Ok(args.dest.clone());
    }
    match args.path.split('/').rfind(|c| !c.is_empty() && *c != "." && *c != "..") {
        Some(name) => Ok(args.dest.join(name)),
        None => bail!("{} exists already; name a new directory for the whole volume", args.dest.display()),
    }
}

/// A directory gets its attributes after its contents, which would change them.
enum Step {
    Make(Ino, PathBuf),
    Finish(Attr, PathBuf),
}

struct Copy<'a> {
    volume: &'a Volume,
    /// Owners and device nodes need privilege.
    privileged: bool,
    /// Where the first name of a file with several went.
    linked: HashMap<Ino, PathBuf>,
    /// A damaged volume may have a loop of directories.
    entered: HashSet<Ino>,
    tally: Tally,
    buffer: Vec<u8>,
}

impl Copy<'_> {
    fn all(&mut self, start: Attr, dest: PathBuf) -> Result<()> {
        let mut steps = vec![Step::Make(start.ino, dest)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Make(ino, to) => {
                    let failed = || format!("copying to {}", to.display());
                    let attr = self.volume.getattr(ino).with_context(failed)?;
                    self.one(&attr, &to, &mut steps).with_context(failed)?;
                    self.tally.add_file(&to);
                }
                Step::Finish(attr, to) => {
                    self.attributes(&attr, &to).with_context(|| format!("attributes of {}", to.display()))?;
                }
            }
        }
        Ok(())
    }

    fn one(&mut self, attr: &Attr, to: &Path, steps: &mut Vec<Step>) -> Result<()> {
        if attr.kind == FileType::Directory {
            ensure!(
                self.entered.insert(attr.ino),
                "inode {} is its own ancestor or has two names",
                attr.ino.0
            );
            // Open to us alone until its attributes are set.
            DirBuilder::new().mode(0o700).create(to)?;
            steps.push(Step::Finish(*attr, to.to_owned()));
            for entry in entries(self.volume, attr.ino)? {
                steps.push(Step::Make(entry.ino, to.join(OsStr::from_bytes(&entry.name))));
            }
            return Ok(());
        }
        if let Some(first) = self.linked.get(&attr.ino) {
            return Ok(std::fs::hard_link(first, to)?);
        }
        match attr.kind {
            FileType::Regular => self.contents(attr, to)?,
            FileType::Symlink => {
                symlink(OsStr::from_bytes(&self.volume.readlink(attr.ino)?), to)?;
            }
            other => self.special(other, attr, to)?,
        }
        self.attributes(attr, to)?;
        if attr.nlink > 1 {
            self.linked.insert(attr.ino, to.to_owned());
        }
        Ok(())
    }

    /// Copies data and leaves holes holes.
    fn contents(&mut self, attr: &Attr, to: &Path) -> Result<()> {
        let file = File::create_new(to)?;
        let mut offset = 0;
        while offset < attr.size {
            offset = match self.volume.seek_data(attr.ino, offset) {
                Ok(data) => data,
                Err(Error::NoSuchOffset) => break,
                Err(e) => return Err(e.into()),
            };
            let end = self.volume.seek_hole(attr.ino, offset)?;
            while offset < end {
                let want = usize::try_from(end - offset).map_or(BUFFER, |n| n.min(BUFFER));
                let part = self.buffer.get_mut(..want).unwrap_or_default();
                let n = self.volume.read(attr.ino, offset, part)?;
                ensure!(n > 0, "the file ends at {offset}, not at {end}");
                file.write_all_at(part.get(..n).unwrap_or_default(), offset)?;
                self.tally.add_bytes(n as u64);
                offset += n as u64;
            }
        }
        Ok(file.set_len(attr.size)?)
    }

    fn special(&mut self, kind: FileType, attr: &Attr, to: &Path) -> Result<()> {
        let node = match kind {
            FileType::CharDevice => Node::CharacterDevice,
            FileType::BlockDevice => Node::BlockDevice,
            FileType::Fifo => Node::Fifo,
            FileType::Socket => Node::Socket,
            _ => bail!("inode {} has an unknown type", attr.ino.0),
        };
        if !self.privileged && matches!(node, Node::CharacterDevice | Node::BlockDevice) {
            bail!("only root may make device nodes");
        }
        let device = rustix::fs::makedev(attr.rdev.0, attr.rdev.1);
        Ok(rustix::fs::mknodat(CWD, to, node, Mode::from_raw_mode(0o600), device)?)
    }

    fn attributes(&mut self, attr: &Attr, to: &Path) -> Result<()> {
        if self.privileged {
            let (uid, gid) = (Uid::from_raw(attr.uid), Gid::from_raw(attr.gid));
            rustix::fs::chownat(CWD, to, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if attr.kind != FileType::Symlink {
            std::fs::set_permissions(to, Permissions::from_mode((attr.mode & 0o7777).into()))?;
        }
        self.xattrs(attr, to)?;
        let time = |t: Time| Timespec { tv_sec: t.secs, tv_nsec: t.nsec.into() };
        let times = Timestamps { last_access: time(attr.atime), last_modification: time(attr.mtime) };
        Ok(rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn xattrs(&mut self, attr: &Attr, to: &Path) -> Result<()> {
        let names = self.volume.listxattr(attr.ino)?;
        for name in names.split(|&b| b == 0).filter(|n| !n.is_empty()) {
            let value = self.volume.getxattr(attr.ino, name)?;
            match rustix::fs::lsetxattr(to, OsStr::from_bytes(name), &value, XattrFlags::empty()) {
                Ok(()) => {}
                // The place it is copied to may not take such attributes, or not from this user.
                Err(Errno::OPNOTSUPP | Errno::PERM) => self.tally.skip_xattr(),
                Err(e) => return Err(e).with_context(|| format!("attribute {}", show::name(name))),
            }
        }
        Ok(())
    }
}
