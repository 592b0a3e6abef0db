//! `segno get`: copies files with all their attributes out of an image.
use super::cat;
use crate::confine::{ConfineOption, Confinement};
use crate::document::Schema;
use crate::exit::{Outcome, Style, usage};
use crate::files::{FileCommand, Files};
use crate::path::{ExcludeOptions, on_volume, reason, refuse_equal};
use crate::preserve::PreserveOption;
use crate::tally::Tally;
use anyhow::{Context, Result, bail, ensure};
use rustix::io::Errno;
use segno::{Exclude, FileType, Metadata, Time, Visits};
use segno_host::{Attributes, HostTree, Kind, Node, components, directory_of};
use std::collections::HashMap;
use std::fs::File;
use std::io::stdout;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

const BUFFER: usize = 1 << 20;

/// Copy files out of an image
///
/// Directories that exist are filled. Set-ID bits, device nodes, file capabilities and trusted attributes are left out without
/// --preserve.
#[derive(clap::Args)]
pub struct Args {
    /// Replace existing files
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    exclude: ExcludeOptions,
    #[command(flatten)]
    preserve: PreserveOption,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    confine: ConfineOption,
    /// Paths on the volume
    #[arg(required = true, num_args = 1..)]
    paths: Vec<PathBuf>,
    /// Destination; copies into it if it is an existing directory, as it has to be for several paths. - is standard output, for
    /// one file
    dest: PathBuf,
}

impl FileCommand for Args {
    fn changes(&self) -> bool {
        false
    }

    fn confinement(&self) -> Option<Confinement> {
        let confinement = Confinement::new(&self.confine);
        Some(match self.dest.as_os_str() == "-" {
            true => confinement,
            false => confinement.fills(target(&self.dest), self.preserve.chosen()),
        })
    }

    fn run(&self, files: &Files<'_>) -> Outcome {
        copy(self, files)
    }
}

fn copy(args: &Args, files: &Files<'_>) -> Outcome {
    if args.dest.as_os_str() == "-" {
        cat::write(files, only_path(args).map_err(usage)?, &mut stdout().lock())?;
        return Ok(ExitCode::SUCCESS);
    }
    let paths = files.paths(&args.paths);
    for path in &paths {
        on_volume(path, files.volume.symlink_metadata(path))?;
    }
    let (dir, names) = destinations(&paths, &args.dest)?;
    let host = HostTree::open(&dir, args.preserve.chosen());
    let mut copy = Copy {
        files,
        root: Path::new(""),
        exclude: args.exclude.chosen(),
        force: args.force,
        host: host.with_context(|| format!("cannot open {}", dir.display()))?,
        dir: &dir,
        linked: HashMap::new(),
        visits: Visits::new(),
        style: if args.json { Style::Json } else { Style::Text },
        tally: Tally::default(),
        buffer: vec![0; BUFFER],
    };
    for (path, name) in paths.iter().zip(names) {
        (copy.root, copy.visits) = (path, Visits::new());
        copy.all(path.clone(), name)?;
    }
    copy.tally.leave_out(copy.host.left_out());
    copy.tally.report(args.json, Schema("segno.get", 1))
}

/// The file that standard output carries.
fn only_path(args: &Args) -> Result<&Path> {
    ensure!(!args.json, "standard output carries the file: leave out --json");
    match &args.paths[..] {
        [path] => Ok(path),
        _ => bail!("standard output takes one file: `segno cat` joins several"),
    }
}

/// The directory that is copied to.
fn target(dest: &Path) -> &Path {
    if dest.is_dir() { dest } else { directory_of(dest) }
}

/// The directory that is copied to, and the name in it of each path.
fn destinations(paths: &[PathBuf], dest: &Path) -> Result<(PathBuf, Vec<PathBuf>)> {
    if !dest.is_dir() {
        ensure!(paths.len() == 1, "{} is not a directory: several files need one", dest.display());
        let name = dest.file_name().with_context(|| format!("{} has no name", dest.display()))?;
        return Ok((target(dest).to_owned(), vec![PathBuf::from(name)]));
    }
    let name = |path: &PathBuf| {
        let mut names = path.components().rev().filter_map(|c| match c {
            Component::Normal(name) => Some(PathBuf::from(name)),
            _ => None,
        });
        names.next().with_context(|| {
            format!("{} exists already; name a new directory for the whole volume", dest.display())
        })
    };
    let all = paths.iter().map(name).collect::<Result<Vec<_>>>()?;
    refuse_equal(all.iter())?;
    Ok((dest.to_owned(), all))
}

/// A directory gets its attributes after its contents, which would change them.
enum Step {
    Make { from: PathBuf, to: PathBuf },
    Finish { from: PathBuf, attr: Metadata, to: PathBuf },
}

struct Copy<'a> {
    files: &'a Files<'a>,
    root: &'a Path,
    exclude: Vec<Exclude>,
    force: bool,
    /// The directory that is copied to, and its path. Destinations are below it.
    host: HostTree,
    dir: &'a Path,
    /// Destination of the first of several hard links, by inode number.
    linked: HashMap<u32, Vec<Vec<u8>>>,
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
            self.files.go_on()?;
            match step {
                Step::Make { from, to } => {
                    if let Err(e) = self.visit(&from) {
                        self.tally.fail(self.style, e);
                        continue;
                    }
                    let shown = self.dir.join(&to);
                    let made = self.one(&from, &to, &mut steps);
                    if made.with_context(|| format!("copying to {}", shown.display()))? {
                        self.tally.add_file(&shown);
                    }
                }
                Step::Finish { from, attr, to } => {
                    let shown = self.dir.join(&to);
                    let done = self.attributes(&from, &attr, &Made::Directory(components(&to)));
                    done.with_context(|| format!("attributes of {}", shown.display()))?;
                }
            }
        }
        Ok(())
    }

    /// Damage of a part of a tree leaves that part out.
    fn visit(&mut self, from: &Path) -> Result<()> {
        let found = on_volume(from, self.files.volume.symlink_metadata(from))?;
        on_volume(from, self.files.volume.visit(&mut self.visits, from, &found))
    }

    /// Whether it was created.
    fn one(&mut self, from: &Path, to: &Path, steps: &mut Vec<Step>) -> Result<bool> {
        let attr = reason(self.files.volume.symlink_metadata(from))?;
        let place = components(to);
        if attr.is_dir() {
            self.enter(from, &place)?;
            steps.push(Step::Finish { from: from.to_owned(), attr, to: to.to_owned() });
            for entry in reason(self.files.volume.read_dir(from))? {
                let entry = reason(entry).context("reading a directory")?;
                let below = entry.path().strip_prefix(self.root).unwrap_or(entry.path());
                if self.exclude.iter().any(|e| e.covers(below.as_os_str().as_bytes())) {
                    continue;
                }
                steps.push(Step::Make { from: entry.path().to_owned(), to: to.join(entry.file_name()) });
            }
            return Ok(true);
        }
        if self.force {
            self.make_room(&place)?;
        }
        if let Some(first) = self.linked.get(&attr.ino()) {
            self.host.hard_link(first, &place)?;
            return Ok(true);
        }
        let made = match attr.file_type() {
            FileType::Regular => Made::File(self.contents(from, &attr, &place)?),
            FileType::Symlink => {
                let target = reason(self.files.volume.read_link(from))?;
                self.host.make_symlink(&place, target.as_os_str().as_bytes())?;
                Made::Node(place.clone(), (Kind::Symlink, 0, 0))
            }
            other => {
                let node = node(other, &attr)?;
                if !self.special(&place, node)? {
                    return Ok(false);
                }
                Made::Node(place.clone(), node)
            }
        };
        self.attributes(from, &attr, &made)?;
        if attr.nlink() > 1 {
            self.linked.insert(attr.ino(), place);
        }
        Ok(true)
    }

    /// Removes what a file replaces, unless the volume is on it.
    fn make_room(&mut self, place: &[Vec<u8>]) -> Result<()> {
        let found = match self.host.stat(place) {
            Ok(found) if Kind::from_raw_mode(found.st_mode) != Kind::Directory => found,
            _ => return Ok(()),
        };
        ensure!(
            !self.files.images.contains(&(found.st_dev, found.st_ino)),
            "it is the source, and would be overwritten"
        );
        Ok(self.host.remove(place)?)
    }

    /// Creates a directory, or fills one that is there.
    fn enter(&mut self, from: &Path, place: &[Vec<u8>]) -> Result<()> {
        match self.host.make_dir(place) {
            Err(Errno::EXIST) if self.host.has_dir(place) => Ok(()),
            made => made.with_context(|| format!("creating a directory for {}", from.display())),
        }
    }

    /// Copies data and preserves holes.
    fn contents(&mut self, from: &Path, attr: &Metadata, place: &[Vec<u8>]) -> Result<File> {
        let source = reason(self.files.volume.open_file(from))?;
        let file = self.host.make_file(place)?;
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
        file.set_len(attr.len())?;
        Ok(file)
    }

    /// Whether it was created.
    fn special(&mut self, place: &[Vec<u8>], node: Node) -> Result<bool> {
        match self.host.make_node(place, node) {
            Err(Errno::PERM) if !self.host.is_privileged() => bail!("only root may make device nodes"),
            made => Ok(made?),
        }
    }

    fn attributes(&mut self, from: &Path, attr: &Metadata, made: &Made) -> Result<()> {
        let mut xattrs = Vec::new();
        for name in reason(self.files.volume.list_xattrs(from))? {
            let value = reason(self.files.volume.xattr(from, &name))?.unwrap_or_default();
            xattrs.push((name, value));
        }
        let time = |t: Time| (t.secs, t.nsec);
        let attributes = Attributes {
            mode: attr.mode(),
            uid: attr.uid(),
            gid: attr.gid(),
            accessed: time(attr.accessed()),
            modified: time(attr.modified()),
            xattrs: xattrs.iter().map(|(name, value)| (name.as_bytes(), &value[..])).collect(),
        };
        let refused = match made {
            Made::File(file) => self.host.finish_file(file, &attributes)?,
            Made::Directory(place) => self.host.finish_dir(place, &attributes)?,
            Made::Node(place, node) => self.host.finish_node(place, *node, &attributes)?,
        };
        self.tally.skip_xattrs(refused);
        Ok(())
    }
}

/// A file whose attributes are set.
enum Made {
    File(File),
    Directory(Vec<Vec<u8>>),
    Node(Vec<Vec<u8>>, Node),
}

fn node(kind: FileType, attr: &Metadata) -> Result<Node> {
    let kind = match kind {
        FileType::CharDevice => Kind::CharacterDevice,
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        _ => bail!("inode {} has an unknown type", attr.ino()),
    };
    let (major, minor) = attr.device_number();
    Ok((kind, major, minor))
}
