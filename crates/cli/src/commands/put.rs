//! `segno put`: copies files with all their attributes into an image.
use crate::document::Schema;
use crate::exit::{Outcome, usage};
use crate::files::{FileCommand, Files};
use crate::path::{ExcludeOptions, places, reason, refuse_equal};
use crate::show;
use crate::tally::Tally;
use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use segno::{Exclude, OpenOptions, SetMetadata, Special, Time, Volume};
use segno_format::text;
use segno_host::{Dirs, Entry, Kind};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 20;
const BLOCK: u64 = 4096;

/// Copy files into an image
///
/// Directories that exist are filled. Nothing is changed if the volume has too little space for all. A source that is a
/// symbolic link is followed; links below it stay links.
#[derive(clap::Args)]
pub struct Args {
    /// Replace existing files
    #[arg(short, long)]
    force: bool,
    /// Store a source that is a symbolic link as a link, as -a does
    #[arg(short = 'P', long, short_alias = 'a')]
    no_dereference: bool,
    #[command(flatten)]
    exclude: ExcludeOptions,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Files, and directories with everything below them; - is standard input. If the last of several begins with /, it is the
    /// path on the volume, / otherwise, or in a shell its directory; files are copied into it if it is an existing directory
    #[arg(required = true, num_args = 1.., value_name = "SOURCE")]
    operands: Vec<PathBuf>,
}

impl FileCommand for Args {
    fn run(&self, files: &Files<'_>) -> Outcome {
        copied(self, files)?.report(self.json, Schema("segno.put", 1))
    }
}

fn copied(args: &Args, files: &Files<'_>) -> Result<Tally> {
    let (sources, to) = split(&args.operands)?;
    let to = to.map_or_else(|| files.here(), Path::to_owned);
    if sources.iter().any(|source| source.as_os_str() == "-") {
        if sources.len() != 1 {
            let why = "standard input is one file: copy the other sources by a command of their own";
            return Err(usage(anyhow!(why)));
        }
        return stdin_to(files.volume, args.force, &to);
    }
    let exclude = args.exclude.chosen();
    let open = |path: &PathBuf| Source::of(path, args, &exclude);
    let mut sources = sources.iter().map(open).collect::<Result<Vec<_>>>()?;
    refuse_equal(sources.iter().map(|source| &source.name))?;
    let mut needed = 0;
    for source in &mut sources {
        needed += source.demand()?;
    }
    room_for(files.volume, needed)?;
    let names: Vec<PathBuf> = sources.iter().map(|source| source.name.clone()).collect();
    let is_dir = sources.first().is_some_and(|first| first.root.kind() == Kind::Directory);
    let places = places(files.volume, &to, is_dir, names.iter().map(PathBuf::as_path));
    let places = if to != Path::new("/") && to.exists() {
        let shown = show::path(&to);
        let why = || {
            format!(
                "{shown} begins with /, so it is the path on the volume; add / behind it to copy it from the host"
            )
        };
        places.with_context(why)?
    } else {
        places?
    };
    let mut copy = Copy {
        files,
        force: args.force,
        linked: HashMap::new(),
        tally: Tally::default(),
        buffer: vec![0; BUFFER],
    };
    for (source, to) in sources.iter_mut().zip(places) {
        copy.all(source, to)?;
    }
    Ok(copy.tally)
}

/// Sources, and the path on the volume. A path on the volume begins with a slash: a name that does not is one of the host, so
/// that no source is taken for a destination.
fn split(operands: &[PathBuf]) -> Result<(&[PathBuf], Option<&Path>)> {
    match operands.split_last() {
        Some((last, sources)) if !sources.is_empty() && last.is_absolute() => Ok((sources, Some(last))),
        Some((last, sources))
            if !sources.is_empty() && last.as_os_str() != "-" && last.symlink_metadata().is_err() =>
        {
            bail!(
                "{0}: no such file on the host; a destination in the image begins with /: /{0}",
                last.display()
            )
        }
        _ => Ok((operands, None)),
    }
}

/// A file, or the root of a tree, on the host.
struct Source<'a> {
    /// With symbolic links resolved, unless they are stored.
    path: PathBuf,
    root: Entry,
    /// The directories of a tree; `None` for any other source.
    dirs: Option<Dirs>,
    /// In a directory of the volume.
    name: PathBuf,
    /// Paths that are not copied.
    exclude: &'a [Exclude],
}

impl<'a> Source<'a> {
    fn of(given: &Path, args: &Args, exclude: &'a [Exclude]) -> Result<Self> {
        let failed = || format!("cannot read {}", given.display());
        let itself = Entry::named(given, false).with_context(failed)?;
        let name = name_of(given)?;
        let (path, root) = if args.no_dereference || itself.kind() != Kind::Symlink {
            (given.to_owned(), itself)
        } else {
            let dangling = || format!("{} (-P stores the link)", failed());
            (given.canonicalize().with_context(dangling)?, Entry::named(given, true).with_context(dangling)?)
        };
        let dirs = (root.kind() == Kind::Directory).then(|| root.dir().map(Dirs::new));
        Ok(Self { path, dirs: dirs.transpose().with_context(failed)?, root, name, exclude })
    }

    /// The path on the host of a path below the root, for messages.
    fn shown(&self, below: &[Vec<u8>]) -> PathBuf {
        below.iter().fold(self.path.clone(), |path, name| path.join(OsStr::from_bytes(name)))
    }

    /// Calls `then` with the file at a path below the root: it fails if it is not of the listed kind.
    fn with<T>(
        &mut self,
        below: &[Vec<u8>],
        listed: Kind,
        then: impl FnOnce(&Entry) -> Result<T>,
    ) -> Result<T> {
        match &mut self.dirs {
            Some(dirs) if !below.is_empty() => {
                let (dir, name) = dirs.parent(below)?;
                then(&Entry::at(dir, name, listed)?)
            }
            _ => then(&self.root),
        }
    }

    fn covers(&self, below: &[Vec<u8>]) -> bool {
        let path = below.join(&b'/');
        self.exclude.iter().any(|e| e.covers(&path))
    }

    /// Paths and kinds of the entries of a directory that are copied.
    fn entries(&mut self, dir: &[Vec<u8>]) -> Result<Vec<(Below, Kind)>> {
        let Some(dirs) = &mut self.dirs else { return Ok(Vec::new()) };
        let listed = dirs.get(dir).map_err(io::Error::from).and_then(Entry::list);
        let listed = listed.with_context(|| format!("reading {}", self.shown(dir).display()))?;
        let all = listed.into_iter().map(|(name, kind)| (joined(dir, &name), kind));
        Ok(all.filter(|(path, _)| !self.covers(path)).collect())
    }

    /// Blocks that it takes on a volume, at most but for unlikely names: data, nodes, attributes, and entries at a third of their room.
    fn demand(&mut self) -> Result<u64> {
        let mut blocks = 0;
        let mut rest = vec![(Below::new(), Kind::Unknown)];
        while let Some((path, kind)) = rest.pop() {
            let meta = self.with(&path, kind, |entry| Ok(entry.meta().clone()));
            let meta = meta.with_context(|| format!("reading {}", self.shown(&path).display()))?;
            let data =
                if meta.is_file() { meta.len().min((meta.blocks() + 8) * 512).div_ceil(BLOCK) } else { 1 };
            blocks += data + data / 500 + 2;
            if meta.is_dir() {
                let entries = self.entries(&path)?;
                let bytes =
                    entries.iter().filter_map(|(path, _)| path.last()).map(|n| 1 + n.len() as u64 / 8);
                blocks += bytes.sum::<u64>() / 70 + 1;
                rest.extend(entries);
            }
        }
        Ok(blocks)
    }
}

fn joined(dir: &[Vec<u8>], name: &OsStr) -> Below {
    let mut path = dir.to_vec();
    path.push(name.as_bytes().to_vec());
    path
}

/// Refuses before anything is changed.
fn room_for(volume: &Volume, needed: u64) -> Result<()> {
    let free = volume.statfs().blocks_free;
    ensure!(
        needed <= free,
        "up to {} bytes are needed and {} are free: nothing was changed",
        needed * BLOCK,
        free * BLOCK
    );
    Ok(())
}

/// Writes standard input to a file, which gets its name when it is complete.
fn stdin_to(volume: &Volume, force: bool, path: &Path) -> Result<Tally> {
    let to = show::path(path);
    let found = volume.symlink_metadata(path).ok();
    ensure!(
        !found.as_ref().is_some_and(segno::Metadata::is_dir),
        "{to} is a directory: name a file on the volume"
    );
    ensure!(found.is_none() || force, "{to} exists already on the volume; overwrite it with -f");
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".segno-put");
    let mut tally = Tally::default();
    let options = OpenOptions::new().write(true).create_new(true).mode(0o644);
    let mut copy = reason(volume.open_file_with(&temporary, &options))?;
    let filled = until_end(io::stdin().lock(), &mut copy, &mut vec![0; BUFFER], &mut tally);
    let filled = filled.with_context(|| format!("writing {to}"));
    drop(copy);
    let named = filled.and_then(|_| reason(volume.rename(&temporary, path)));
    if let Err(e) = named {
        reason(volume.remove_file(&temporary))?;
        return Err(e);
    }
    tally.add_file(path);
    Ok(tally)
}

/// Copies what is read until the end; returns the bytes.
fn until_end(
    mut input: impl Read,
    copy: &mut segno::File,
    buffer: &mut [u8],
    tally: &mut Tally,
) -> Result<u64> {
    let mut bytes = 0;
    loop {
        let n = input.read(buffer)?;
        if n == 0 {
            return Ok(bytes);
        }
        copy.write_all(buffer.get(..n).unwrap_or_default())?;
        tally.add_bytes(n as u64);
        bytes += n as u64;
    }
}

/// Names below the root of a source.
type Below = Vec<Vec<u8>>;

/// Its name in a directory of the volume. A symbolic link gives its own name; `.` and `..` have none.
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
    Make { from: Below, kind: Kind, to: PathBuf },
    Finish { from: Below, to: PathBuf },
}

struct Copy<'a> {
    files: &'a Files<'a>,
    force: bool,
    /// First paths of hard links, by device and inode number of the source.
    linked: HashMap<(u64, u64), PathBuf>,
    tally: Tally,
    buffer: Vec<u8>,
}

impl Copy<'_> {
    fn all(&mut self, source: &mut Source<'_>, to: PathBuf) -> Result<()> {
        let mut steps = vec![Step::Make { from: Below::new(), kind: Kind::Unknown, to }];
        while let Some(step) = steps.pop() {
            self.files.go_on()?;
            match step {
                Step::Make { from, kind, to } => {
                    let made = source.with(&from, kind, |entry| {
                        self.one(entry, &to)?;
                        Ok(entry.kind())
                    });
                    let shown = source.shown(&from);
                    let kind = made.with_context(|| format!("copying {}", shown.display()))?;
                    self.tally.add_file(&shown);
                    if kind == Kind::Directory {
                        let entries = source.entries(&from)?;
                        steps.push(Step::Finish { from, to: to.clone() });
                        let name = |path: &Below| path.last().map(|n| to.join(OsStr::from_bytes(n)));
                        steps.extend(
                            entries.into_iter().filter_map(|(from, kind)| {
                                name(&from).map(|to| Step::Make { from, kind, to })
                            }),
                        );
                    }
                }
                Step::Finish { from, to } => {
                    let done = source.with(&from, Kind::Directory, |entry| self.attributes(entry, &to));
                    let shown = || source.shown(&from);
                    done.with_context(|| format!("attributes of {}", shown().display()))?;
                }
            }
        }
        Ok(())
    }

    fn one(&mut self, entry: &Entry, to: &Path) -> Result<()> {
        let (kind, meta) = (entry.kind(), entry.meta());
        let existing = self.files.volume.symlink_metadata(to).ok();
        let is_dir = existing.as_ref().is_some_and(segno::Metadata::is_dir);
        if is_dir && kind == Kind::Directory {
            return Ok(());
        }
        if existing.is_some() {
            let same = !is_dir && kind != Kind::Directory;
            ensure!(same, "{} on the volume is of another kind", to.display());
            ensure!(self.force, "{} exists already on the volume; overwrite it with -f", to.display());
            reason(self.files.volume.remove_file(to))?;
        }
        let key = (meta.dev(), meta.ino());
        if let Some(first) = self.linked.get(&key) {
            return reason(self.files.volume.hard_link(first, to));
        }
        let (major, minor) = (rustix::fs::major(meta.rdev()), rustix::fs::minor(meta.rdev()));
        let special = |special| reason(self.files.volume.create_special(to, special));
        match kind {
            Kind::Directory => {
                reason(self.files.volume.create_dir(to))?;
                // Not more open than the source while it is filled.
                return reason(self.files.volume.set_metadata(to, &SetMetadata::new().mode(meta.mode())));
            }
            Kind::Symlink => reason(self.files.volume.symlink(OsStr::from_bytes(&entry.target()?), to))?,
            Kind::RegularFile => self.contents(entry, to)?,
            Kind::CharacterDevice => special(Special::CharDevice { major, minor })?,
            Kind::BlockDevice => special(Special::BlockDevice { major, minor })?,
            Kind::Fifo => special(Special::Fifo)?,
            Kind::Socket => special(Special::Socket)?,
            Kind::Unknown => bail!("unknown type of file"),
        }
        self.attributes(entry, to)?;
        if meta.nlink() > 1 {
            self.linked.insert(key, to.to_owned());
        }
        Ok(())
    }

    /// Copies data and preserves holes.
    fn contents(&mut self, entry: &Entry, to: &Path) -> Result<()> {
        let meta = entry.meta();
        let options = OpenOptions::new().write(true).create_new(true).mode(meta.mode());
        let mut copy = reason(self.files.volume.open_file_with(to, &options.owner(meta.uid(), meta.gid())))?;
        let (file, size) = (entry.open()?, meta.len());
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
        // A file of procfs or sysfs has no size until it is read.
        let size = match size {
            0 => until_end(&file, &mut copy, &mut self.buffer, &mut self.tally)?,
            size => size,
        };
        reason(copy.set_len(size))
    }

    fn attributes(&mut self, entry: &Entry, to: &Path) -> Result<()> {
        let meta = entry.meta();
        for (name, value) in entry.xattrs().context("reading the extended attributes")? {
            match self.files.volume.set_xattr(to, OsStr::from_bytes(&name), &value) {
                // Name spaces that F2FS does not have.
                Err(e) if e.kind() == io::ErrorKind::Unsupported => self.tally.skip_xattrs(1),
                other => reason(other).with_context(|| format!("attribute {}", text::name(&name)))?,
            }
        }
        let time = |secs, nsec: i64| Time { secs, nsec: nsec as u32 };
        let change = SetMetadata::new()
            .owner(meta.uid(), meta.gid())
            .accessed(time(meta.atime(), meta.atime_nsec()))
            .modified(time(meta.mtime(), meta.mtime_nsec()));
        let change = if meta.is_symlink() { change } else { change.mode(meta.mode()) };
        reason(self.files.volume.set_symlink_metadata(to, &change))
    }
}
