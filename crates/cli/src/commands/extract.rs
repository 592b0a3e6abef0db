//! `segno extract`: takes the tree out of an image.
use crate::confine::{ConfineOption, Confinement};
use crate::document::Schema;
use crate::exit::usage;
use crate::image::explain_image;
use crate::new_file::NewFile;
use crate::preserve::{self, PreserveOption};
use crate::progress::Progress;
use crate::storage::ImageArgs;
use crate::{image, out, show};
use anyhow::{Context, Result, anyhow, ensure};
use segno_dump::put_name;
use segno_format::size;
use segno_host::NewDir;
use segno_image::{ExtractOptions, Extracted, OpenImage, Target, extract};
use serde_json::{Map, Value, json};
use std::io::{BufWriter, Write, stdout};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const BUFFER: usize = 1 << 18;

/// Take the tree out of an image, raw or sparse, into a directory or a tar archive
///
/// A directory gets no set-ID bits, devices, file capabilities and trusted attributes without --preserve. Without root the host
/// cannot store owners and some attributes either. --tar, --manifest and --fs-config have everything, and build reads it back.
#[derive(clap::Args)]
pub struct Args {
    /// Write a tar archive instead of a directory; - is standard output
    #[arg(long, value_name = "FILE|-", conflicts_with = "dest")]
    tar: Option<PathBuf>,
    /// Replace existing files; a directory must be new or empty
    #[arg(short, long)]
    force: bool,
    /// Path on the volume to extract, with everything below it
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: PathBuf,
    /// Prefix of paths in --fs-config and --file-contexts
    #[arg(short = 't', long, value_name = "DIR", default_value = "/")]
    mount_point: String,
    /// Write owners, modes and capabilities as Android's canned fs_config
    #[arg(long, value_name = "FILE")]
    fs_config: Option<PathBuf>,
    /// Write the SELinux label of each path
    #[arg(long, value_name = "FILE")]
    file_contexts: Option<PathBuf>,
    /// Write all metadata, for build
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    preserve: PreserveOption,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    confine: ConfineOption,
    #[command(flatten)]
    of: ImageArgs,
    /// Directory that is made, or is empty
    #[arg(required_unless_present = "tar")]
    dest: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<()> {
    let (image, devices) = args.of.storage.devices.apart(&args.of.image)?;
    let options = ExtractOptions {
        path: args.path.clone(),
        journal: args.of.storage.journal.path()?,
        devices,
        mount_point: args.mount_point.clone(),
        fs_config: args.fs_config.clone(),
        file_contexts: args.file_contexts.clone(),
        manifest: args.manifest.clone(),
        preserve: args.preserve.chosen(),
    };
    for list in [&args.fs_config, &args.file_contexts, &args.manifest].into_iter().flatten() {
        ensure!(args.force || !list.exists(), "{} exists already; overwrite it with -f", list.display());
    }
    let mode = image::copy_mode(options.devices.iter().chain([&image]));
    let image = OpenImage::open(&image, &options.devices, options.journal.as_deref());
    let (image, target) = (image.map_err(explain_image)?, Opened::open(args, mode)?);
    confinement(args).enter();
    let mut progress = Progress::default();
    let mut show = |p: segno_image::Progress<'_>| {
        progress.show_files(p.files, p.bytes, || show::path(&(p.path)()));
    };
    let write = |target: Target<'_>| extract(image, target, &options, &mut show).map_err(explain_image);
    let done = match target {
        Opened::Stdout => {
            let mut out = BufWriter::with_capacity(BUFFER, stdout().lock());
            let done = write(Target::Tar(&mut out))?;
            out.flush().context("cannot write the archive")?;
            done.notes.iter().for_each(|note| eprintln!("segno: note: {note}"));
            return Ok(());
        }
        Opened::Archive(new) => {
            let mut out = BufWriter::with_capacity(BUFFER, new.file());
            let done = write(Target::Tar(&mut out))?;
            out.flush().context("cannot write the archive")?;
            drop(out);
            new.finish()?;
            done
        }
        Opened::Directory(dir, made) => {
            let done = write(Target::Directory(dir))?;
            made.keep();
            done
        }
    };
    drop(progress);
    report(&done, args)
}

/// Where the tree goes.
enum Opened<'a> {
    Stdout,
    Archive(NewFile),
    Directory(&'a Path, NewDir),
}

impl<'a> Opened<'a> {
    /// `mode` is that of an archive.
    fn open(args: &'a Args, mode: u32) -> Result<Self> {
        match (&args.tar, &args.dest) {
            (Some(tar), _) if tar.as_os_str() == "-" => {
                if args.json {
                    let why = "standard output carries the archive: leave out --json";
                    return Err(usage(anyhow!(why)));
                }
                Ok(Self::Stdout)
            }
            (Some(tar), _) => Ok(Self::Archive(NewFile::create(tar, args.force, mode)?)),
            (None, dest) => {
                let dest = dest.as_deref().context("a directory or --tar is needed")?;
                let made = NewDir::create(dest).with_context(|| format!("cannot create {}", dest.display()));
                Ok(Self::Directory(dest, made?))
            }
        }
    }
}

fn confinement(args: &Args) -> Confinement {
    let lists = [&args.tar, &args.fs_config, &args.file_contexts, &args.manifest];
    let made = lists.into_iter().flatten().filter(|path| path.as_os_str() != "-");
    let confinement = made.fold(Confinement::new(&args.confine), |all, path| all.makes(path));
    match &args.dest {
        Some(dir) => confinement.fills(dir, args.preserve.chosen()).removes(dir),
        None => confinement,
    }
}

fn report(done: &Extracted, args: &Args) -> Result<()> {
    let Extracted { files, bytes, renamed, incomplete, left_out, notes } = done;
    notes.iter().for_each(|note| eprintln!("segno: note: {note}"));
    if args.json {
        let each = |(name, host): &(PathBuf, PathBuf)| {
            let mut map = Map::new();
            put_name(&mut map, "path", name.as_os_str().as_bytes());
            put_name(&mut map, "host", host.as_os_str().as_bytes());
            Value::Object(map)
        };
        let renamed: Vec<_> = renamed.iter().map(each).collect();
        let report = json!({ "files": files, "bytes": bytes, "renamed": renamed, "incomplete": incomplete, "left_out": left_out, "notes": notes });
        return Ok(Schema("segno.extract", 1).print(out::stdout(), &report)?);
    }
    writeln!(out::stdout(), "{files} files, {} of data", size::human(*bytes))?;
    for (name, host) in renamed {
        eprintln!("segno: note: {} is stored as {}", show::path(name), show::path(host));
    }
    preserve::note(left_out);
    if *incomplete > 0 {
        let where_else = match &args.manifest {
            Some(path) => format!("{} has it", path.display()),
            None => "use --manifest to keep it".to_owned(),
        };
        eprintln!("segno: note: {incomplete} files have metadata that cannot be stored here; {where_else}");
    }
    Ok(())
}
