//! `segno build`: makes an image of a directory tree.
use super::mkfs::{VolumeArgs, owner};
use crate::exit::Outcome;
use crate::new_file::NewFile;
use crate::progress::Progress;
use crate::{show, size};
use anyhow::{Context, Result, bail};
use segno_image::{BuildOptions, Exclude, Headroom, Owner, Report, Size, build};
use serde_json::json;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make an image of a directory tree, without a mount and without root
///
/// The same tree and options give the same bytes. Whatever of the tree cannot be stored is an error, and no image is left.
/// A volume id that is not given is derived from the tree. Without -T each file gets its time of modification;
/// SOURCE_DATE_EPOCH in the environment replaces later ones.
#[derive(clap::Args)]
pub struct Args {
    /// Replace an existing image
    #[arg(short, long)]
    force: bool,
    /// Size of the image, or auto: the smallest volume that holds the tree
    #[arg(long, value_name = "SIZE|auto", default_value = "auto", value_parser = chosen_size)]
    size: Chosen,
    /// Space to leave free with --size auto: bytes, or percent of the space that the tree takes
    #[arg(long, value_name = "SIZE|N%", default_value = "0", value_parser = headroom)]
    headroom: Headroom,
    /// Owner of all files: keep, root, or numbers; by default keep for root and root for other users
    #[arg(long, value_name = "keep|root|UID:GID", value_parser = chosen_owner)]
    owner: Option<Owner>,
    /// Leave out this path and everything below it
    #[arg(long, value_name = "PATH")]
    exclude_path: Vec<PathBuf>,
    /// Leave out paths in which this regular expression matches, and everything below them
    #[arg(long, value_name = "REGEX", value_parser = Exclude::regex)]
    exclude_regex: Vec<Exclude>,
    #[command(flatten)]
    volume: VolumeArgs,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Directory to make an image of
    source: PathBuf,
    /// Image file
    image: PathBuf,
}

/// Value of --size.
#[derive(Clone, Copy)]
enum Chosen {
    Auto,
    Bytes(u64),
}

pub fn run(args: &Args) -> Outcome {
    let options = options(args)?;
    refuse_inside(&args.image, &args.source)?;
    let new = NewFile::create(&args.image, args.force)?;
    let mut progress = Progress::new();
    let built = build(&args.source, new.temporary(), &options, &mut |p| {
        progress.show(|| format!("{} files, {}  {}", p.files, size::human(p.bytes), p.path.display()));
    });
    drop(progress);
    let report = built?;
    new.finish()?;
    print(&args.image, &report, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// An image in the tree that it is made of would have to contain itself.
fn refuse_inside(image: &Path, source: &Path) -> Result<()> {
    let absolute =
        |path: &Path| path.canonicalize().with_context(|| format!("cannot read {}", path.display()));
    let dir = image.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if absolute(dir)?.starts_with(absolute(source)?) {
        bail!("{} is inside {}; put the image elsewhere", image.display(), source.display());
    }
    Ok(())
}

fn options(args: &Args) -> Result<BuildOptions> {
    let volume = args.volume.options()?;
    let is_root = rustix::process::geteuid().is_root();
    let paths = args.exclude_path.iter().map(|p| Exclude::path(p));
    Ok(BuildOptions {
        time: volume.timestamp,
        latest: source_date_epoch()?,
        volume,
        size: match args.size {
            Chosen::Auto => Size::Auto(args.headroom),
            Chosen::Bytes(bytes) => Size::Bytes(bytes),
        },
        owner: args.owner.unwrap_or(if is_root { Owner::Keep } else { Owner::All(0, 0) }),
        exclude: paths.chain(args.exclude_regex.iter().cloned()).collect(),
    })
}

/// The variable of reproducible builds, in seconds since 1970.
fn source_date_epoch() -> Result<Option<u64>> {
    let Some(value) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let text = value.to_string_lossy();
    let seconds =
        text.parse().with_context(|| format!("SOURCE_DATE_EPOCH is {text:?}, not a number of seconds"))?;
    Ok(Some(seconds))
}

fn print(image: &Path, report: &Report, as_json: bool) -> Result<()> {
    let Report { image_bytes, free_bytes, files, content_bytes, uuid } = *report;
    let uuid = show::uuid(&uuid);
    if as_json {
        let report = json!({
            "image": image.display().to_string(),
            "image_bytes": image_bytes,
            "free_bytes": free_bytes,
            "files": files,
            "content_bytes": content_bytes,
            "uuid": uuid,
        });
        writeln!(stdout(), "{report}")?;
    } else {
        let (size, content) = (size::human(image_bytes), size::human(content_bytes));
        writeln!(stdout(), "{}: {size}, {files} files with {content}, volume {uuid}", image.display())?;
    }
    Ok(())
}

fn chosen_size(text: &str) -> Result<Chosen, String> {
    if text == "auto" { Ok(Chosen::Auto) } else { size::parse(text).map(Chosen::Bytes) }
}

fn headroom(text: &str) -> Result<Headroom, String> {
    match text.strip_suffix('%') {
        Some(percent) => percent.parse().map(Headroom::Percent).map_err(|e| format!("{text:?}: {e}")),
        None => size::parse(text).map(Headroom::Bytes),
    }
}

fn chosen_owner(text: &str) -> Result<Owner, String> {
    match text {
        "keep" => Ok(Owner::Keep),
        "root" => Ok(Owner::All(0, 0)),
        numbers => owner(numbers).map(|(uid, gid)| Owner::All(uid, gid)),
    }
}
