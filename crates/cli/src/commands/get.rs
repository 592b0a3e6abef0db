//! `segno get`: copies files with all their attributes out of an image.
use super::cat;
use crate::exit::{Outcome, Style};
use crate::path::{on_volume, reason, refuse_equal};
use crate::storage::StorageOptions;
use crate::tally::Tally;
use crate::{image, show};
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{AtFlags, CWD, FileType as Node, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use segno::{Exclude, FileType, Metadata, Time, Visits, Volume};
use std::collections::HashMap;
use std::fs::{DirBuilder, File, Permissions};
use std::io::stdout;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

const BUFFER: usize = 1 << 20;

/// Copy files out of an image
///
/// Directories that exist are filled.
#[derive(clap::Args)]
pub struct Args {
    /// Replace existing files
    #[arg(short, long)]
    force: bool,
    /// Leave out this path below the source, and everything below it
    #[arg(long, value_name = "PATH")]
    exclude_path: Vec<PathBuf>,
    /// Leave out paths below the source in which this regular expression matches, and everything below them
    #[arg(long, value_name = "REGEX", value_parser = Exclude::regex)]
    exclude_regex: Vec<Exclude>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    storage: StorageOptions,
    /// Image file or block device
    image: PathBuf,
    /// Paths on the volume
    #[arg(required = true, num_args = 1..)]
    paths: Vec<PathBuf>,
    /// Destination; copies into it if it is an existing directory, as it has to be for several paths. - is standard output, for
    /// one file
    dest: PathBuf,
}

pub fn run(args: &Args) -> Outcome {
    let volume = image::volume_read_only(&args.image, &args.storage)?;
    if args.dest.as_os_str() == "-" {
        ensure!(!args.json, "standard output carries the file: leave out --json");
        let [path] = &args.paths[..] else {
            bail!("standard output takes one file: `segno cat` joins several")
        };
        cat::write(&volume, path, &mut stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    for path in &args.paths {
        on_volume(path, volume.symlink_metadata(path))?;
    }
    let destinations = destinations(args)?;
    let paths = args.exclude_path.iter().map(|p| Exclude::path(p));
    let mut copy = Copy {
        volume: &volume,
        root: Path::new(""),
        exclude: paths.chain(args.exclude_regex.iter().cloned()).collect(),
        force: args.force,
        privileged: rustix::process::geteuid().is_root(),
        linked: HashMap::new(),
        visits: Visits::new(),
        style: if args.json { Style::Json } else { Style::Text },
        tally: Tally::new(),
        buffer: vec![0; BUFFER],
    };
    for (path, dest) in args.paths.iter().zip(destinations) {
        (copy.root, copy.visits) = (path, Visits::new());
        copy.all(path.clone(), dest)?;
    }
    copy.tally.report(args.json)
}

fn destinations(args: &Args) -> Result<Vec<PathBuf>> {
    let dest = &args.dest;
    if !dest.is_dir() {
        ensure!(args.paths.len() == 1, "{} is not a directory: several files need one", dest.display());
        return Ok(vec![dest.clone()]);
    }
    let name = |path: &PathBuf| {
        let mut names = path.components().rev().filter_map(|c| match c {
            Component::Normal(name) => Some(dest.join(name)),
            _ => None,
        });
        names.next().with_context(|| {
            format!("{} exists already; name a new directory for the whole volume", dest.display())
        })
    };
    let all = args.paths.iter().map(name).collect::<Result<Vec<_>>>()?;
    refuse_equal(all.iter())?;
    Ok(all)
}

/// A directory gets its attributes after its contents, which would change them.
enum Step {
    Make { from: PathBuf, to: PathBuf },
    Finish { from: PathBuf, attr: Metadata, to: PathBuf },
}

struct Copy<'a> {
    volume: &'a Volume,
    root: &'a Path,
    exclude: Vec<Exclude>,
    force: bool,
    /// Owners and device nodes need privilege.
    privileged: bool,
    /// Destination of the first of several hard links, by inode number.
    linked: HashMap<u32, PathBuf>,
    /// Inodes and blocks that were met below the source.
    visits: Visits,
    /// How damage is reported.
    style: Style,
    tally: Tally,
    buffer: Vec<u8>,
}

impl Copy<'_> {
    fn all(&mut self, from: PathBuf, to: PathBuf) -> Result<()> {
        let mut steps = vec![Step::Make { from, to }];
        while let Some(step) = steps.pop() {
            match step {
                Step::Make { from, to } => {
                    if let Err(e) = self.visit(&from) {
                        self.tally.fail(self.style, e);
                        continue;
                    }
                    self.one(&from, &to, &mut steps)
                        .with_context(|| format!("copying to {}", to.display()))?;
                    self.tally.add_file(&to);
                }
                Step::Finish { from, attr, to } => {
                    let done = self.attributes(&from, &attr, &to);
                    done.with_context(|| format!("attributes of {}", to.display()))?;
                }
            }
        }
        Ok(())
    }

    /// Damage of a part of a tree leaves that part out.
    fn visit(&mut self, from: &Path) -> Result<()> {
        let found = on_volume(from, self.volume.symlink_metadata(from))?;
        on_volume(from, self.volume.visit(&mut self.visits, from, &found))
    }

    fn one(&mut self, from: &Path, to: &Path, steps: &mut Vec<Step>) -> Result<()> {
        let attr = reason(self.volume.symlink_metadata(from))?;
        if attr.is_dir() {
            // Open to us alone until its attributes are set.
            if !to.symlink_metadata().is_ok_and(|found| found.is_dir()) {
                DirBuilder::new().mode(0o700).create(to)?;
            }
            steps.push(Step::Finish { from: from.to_owned(), attr, to: to.to_owned() });
            for entry in reason(self.volume.read_dir(from))? {
                let entry = reason(entry).context("reading a directory")?;
                let below = entry.path().strip_prefix(self.root).unwrap_or(entry.path());
                if self.exclude.iter().any(|e| e.covers(below.as_os_str().as_bytes())) {
                    continue;
                }
                steps.push(Step::Make { from: entry.path().to_owned(), to: to.join(entry.file_name()) });
            }
            return Ok(());
        }
        if self.force && to.symlink_metadata().is_ok_and(|found| !found.is_dir()) {
            std::fs::remove_file(to)?;
        }
        if let Some(first) = self.linked.get(&attr.ino()) {
            return Ok(std::fs::hard_link(first, to)?);
        }
        match attr.file_type() {
            FileType::Regular => self.contents(from, &attr, to)?,
            FileType::Symlink => symlink(reason(self.volume.read_link(from))?, to)?,
            other => self.special(other, &attr, to)?,
        }
        self.attributes(from, &attr, to)?;
        if attr.nlink() > 1 {
            self.linked.insert(attr.ino(), to.to_owned());
        }
        Ok(())
    }

    /// Copies data and preserves holes.
    fn contents(&mut self, from: &Path, attr: &Metadata, to: &Path) -> Result<()> {
        let source = reason(self.volume.open_file(from))?;
        let file = File::create_new(to)?;
        let mut offset = 0;
        while let Some(data) = reason(source.seek_data(offset))? {
            offset = data;
            let end = reason(source.seek_hole(offset))?.unwrap_or(attr.len());
            while offset < end {
                let len = usize::try_from(end - offset).map_or(BUFFER, |n| n.min(BUFFER));
                let part = self.buffer.get_mut(..len).unwrap_or_default();
                let n = reason(source.read_at(part, offset))?;
                ensure!(n > 0, "the file ends at {offset}, not at {end}");
                file.write_all_at(part.get(..n).unwrap_or_default(), offset)?;
                self.tally.add_bytes(n as u64);
                offset += n as u64;
            }
        }
        Ok(file.set_len(attr.len())?)
    }

    fn special(&mut self, kind: FileType, attr: &Metadata, to: &Path) -> Result<()> {
        let node = match kind {
            FileType::CharDevice => Node::CharacterDevice,
            FileType::BlockDevice => Node::BlockDevice,
            FileType::Fifo => Node::Fifo,
            FileType::Socket => Node::Socket,
            _ => bail!("inode {} has an unknown type", attr.ino()),
        };
        if !self.privileged && matches!(node, Node::CharacterDevice | Node::BlockDevice) {
            bail!("only root may make device nodes");
        }
        let (major, minor) = attr.device_number();
        let device = rustix::fs::makedev(major, minor);
        Ok(rustix::fs::mknodat(CWD, to, node, Mode::from_raw_mode(0o600), device)?)
    }

    fn attributes(&mut self, from: &Path, attr: &Metadata, to: &Path) -> Result<()> {
        if self.privileged {
            let (uid, gid) = (Uid::from_raw(attr.uid()), Gid::from_raw(attr.gid()));
            rustix::fs::chownat(CWD, to, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if !attr.is_symlink() {
            std::fs::set_permissions(to, Permissions::from_mode(attr.mode() & 0o7777))?;
        }
        self.xattrs(from, to)?;
        let time = |t: Time| Timespec { tv_sec: t.secs, tv_nsec: t.nsec.into() };
        let times =
            Timestamps { last_access: time(attr.accessed()), last_modification: time(attr.modified()) };
        Ok(rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn xattrs(&mut self, from: &Path, to: &Path) -> Result<()> {
        for name in reason(self.volume.list_xattrs(from))? {
            let value = reason(self.volume.xattr(from, &name))?.unwrap_or_default();
            match rustix::fs::lsetxattr(to, &name, &value, XattrFlags::empty()) {
                Ok(()) => {}
                // The destination may not support these attributes, or not permit them to this user.
                Err(Errno::OPNOTSUPP | Errno::PERM) => self.tally.skip_xattr(),
                Err(e) => {
                    return Err(e).with_context(|| format!("attribute {}", show::path(Path::new(&name))));
                }
            }
        }
        Ok(())
    }
}
