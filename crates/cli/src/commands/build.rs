//! `segno build`: makes an image of a tree.
use super::mkfs::{VolumeArgs, owner};
use crate::confine::{ConfineOption, Confinement};
use crate::document::Schema;
use crate::image::{copy_mode, explain_image};
use crate::new_file::NewFile;
use crate::out;
use crate::progress::Progress;
use crate::storage::StorageOptions;
use anyhow::{Context, Result, anyhow, bail};
use segno_format::Features;
use segno_format::size;
use segno_format::superblock::uuid_text;
use segno_host::directory_of;
use segno_image::{
    BuildOptions, Compression, Exclude, Headroom, Metadata, Owner, Report, Size, Source, build,
};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Make an image of a directory, a tar archive or another image, without a mount and without root
///
/// The same tree and options give the same bytes. Whatever of the tree cannot be stored is an error, and no image is left.
/// A volume id that is not given is derived from the tree. Without -T each file gets its time of modification;
/// SOURCE_DATE_EPOCH in the environment replaces later ones.
///
/// Files of metadata are applied in this order, and later ones win: --device-table, --fs-config, --file-contexts, --rules,
/// --manifest.
#[derive(clap::Args)]
pub struct Args {
    /// Replace an existing image
    #[arg(short, long)]
    force: bool,
    /// Size of the image, or auto: the smallest volume that holds the tree
    #[arg(long, value_name = "SIZE|auto", default_value = "auto", value_parser = chosen_size)]
    size: Size,
    /// Space to leave free with --size auto: bytes, or percent of the space that the tree takes
    #[arg(long, value_name = "SIZE|N%", default_value = "0", value_parser = headroom)]
    headroom: Headroom,
    /// Owner of all files: keep, root, or numbers. The default is keep for archives and images and for root, and else root
    #[arg(long, value_name = "keep|root|UID:GID", value_parser = chosen_owner)]
    owner: Option<Owner>,
    /// Leave out this path and everything below it
    #[arg(long, value_name = "PATH")]
    exclude_path: Vec<PathBuf>,
    /// Leave out paths in which this regular expression matches, and everything below them
    #[arg(long, value_name = "REGEX", value_parser = Exclude::regex)]
    exclude_regex: Vec<Exclude>,
    /// Leave out extended headers of an archive in whose key this regular expression matches, such as ^TWRP
    #[arg(long, value_name = "REGEX", value_parser = Exclude::regex)]
    ignore_header: Vec<Exclude>,
    /// Layout of a volume that is never written, without reserve: the same as -O ro
    #[arg(long)]
    read_only: bool,
    /// Compress files: lz4, zstd, lzo or lzo-rle; lz4 has levels from 3 to 16, zstd from 1 to 22
    #[arg(long, value_name = "ALG[:LEVEL]")]
    compress: Option<String>,
    /// Blocks of a compressed cluster, as a power of two from 2 to 8
    #[arg(long, value_name = "LOG", default_value_t = Compression::LOG_BLOCKS)]
    cluster: u8,
    /// Keep the space that compression saves reserved, so that compressed files can be written; the default unless -O ro
    #[arg(long)]
    reserved: bool,
    /// Place the data of the paths in this file first, in its order
    #[arg(long, value_name = "FILE")]
    order: Option<PathBuf>,
    /// Write the Android sparse format
    #[arg(long)]
    sparse: bool,
    /// Threads that read and compress; 0 is one for each processor. The image does not depend on it
    #[arg(short = 'j', long, value_name = "N", default_value_t = 0)]
    threads: usize,
    #[command(flatten)]
    confine: ConfineOption,
    #[command(flatten)]
    storage: StorageOptions,
    #[command(flatten)]
    metadata: MetadataArgs,
    #[command(flatten)]
    volume: VolumeArgs,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// Directory, tar archive (plain or gzip; - is standard input), or image
    source: PathBuf,
    /// Image file
    image: PathBuf,
}

/// Files with metadata.
#[derive(clap::Args)]
struct MetadataArgs {
    /// Where the volume is mounted: the prefix of paths in --fs-config and --file-contexts
    #[arg(short = 't', long, value_name = "DIR", default_value = "/")]
    mount_point: String,
    /// Owners, modes and capabilities: Android's canned fs_config
    #[arg(long, value_name = "FILE")]
    fs_config: Vec<PathBuf>,
    /// Owner and modes of paths that no --fs-config lists; without it they are an error
    #[arg(long, value_name = "UID:GID:DIRMODE:FILEMODE", value_parser = config_default)]
    fs_config_default: Option<(u32, u32, u16, u16)>,
    /// SELinux contexts; several files are one in the order given
    #[arg(long, value_name = "FILE,…", value_delimiter = ',')]
    file_contexts: Vec<PathBuf>,
    /// Accept paths that --file-contexts does not cover
    #[arg(long)]
    allow_unlabeled: bool,
    /// Device nodes and owners: a table of makedevs
    #[arg(long, value_name = "FILE")]
    device_table: Vec<PathBuf>,
    /// Compression, flags and projects by path: lines REGEX KEY=VALUE…
    #[arg(long, value_name = "FILE")]
    rules: Vec<PathBuf>,
    /// The manifest of an extraction
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
}

impl MetadataArgs {
    fn options(&self) -> Metadata {
        Metadata {
            mount_point: self.mount_point.clone(),
            device_tables: self.device_table.clone(),
            fs_config: self.fs_config.clone(),
            fs_config_default: self.fs_config_default,
            file_contexts: self.file_contexts.clone(),
            allow_unlabeled: self.allow_unlabeled,
            rules: self.rules.clone(),
            manifest: self.manifest.clone(),
        }
    }
}

pub fn run(args: &Args) -> Result<()> {
    let (source, devices) = args.storage.devices.apart(&args.source)?;
    let source = Source::of_path(&source)?;
    let options = options(args, &source, devices)?;
    let job = Job { source: &source, image: &args.image, force: args.force, options: &options };
    let report = make(&job, &args.confine)?;
    if args.quiet { Ok(()) } else { print(&args.image, &report, args.json) }
}

/// An image to make.
pub struct Job<'a> {
    pub source: &'a Source,
    pub image: &'a Path,
    /// Replace an existing one.
    pub force: bool,
    pub options: &'a BuildOptions,
}

/// Makes it, and gives it its name when it is complete.
pub fn make(job: &Job<'_>, confine: &ConfineOption) -> Result<Report> {
    let Job { source, image, force, options } = *job;
    let like = match source {
        Source::Directory(dir) => {
            refuse_inside(image, dir)?;
            dir
        }
        Source::Tar(path) | Source::Image(path) => path,
        Source::StandardInput => Path::new("-"),
    };
    let new = NewFile::create(image, force, copy_mode([like]))?;
    let opened = source.open(options).map_err(explain_image)?;
    confinement(job, confine).enter();
    let mut progress = Progress::default();
    let built = build(opened, new.temporary(), options, &mut |p| {
        progress.show_files(p.files, p.bytes, || (p.path)().display().to_string());
    });
    drop(progress);
    let report = built.map_err(explain_image)?;
    new.finish()?;
    Ok(report)
}

fn confinement(job: &Job<'_>, confine: &ConfineOption) -> Confinement {
    let confinement = Confinement::new(confine).makes(job.image);
    let confinement = match job.source {
        Source::Directory(dir) => confinement.reads_tree(dir),
        _ => confinement,
    };
    job.options.metadata.files().chain(&job.options.order).fold(confinement, |all, path| all.reads(path))
}

/// An image in the tree that it is made of would have to contain itself.
fn refuse_inside(image: &Path, source: &Path) -> Result<()> {
    let absolute =
        |path: &Path| path.canonicalize().with_context(|| format!("cannot read {}", path.display()));
    let dir = directory_of(image);
    if image.is_relative() || source.is_relative() {
        std::env::current_dir().context("the working directory is gone: change to another one")?;
    }
    if absolute(dir)?.starts_with(absolute(source)?) {
        bail!("{} is inside {}; put the image elsewhere", image.display(), source.display());
    }
    Ok(())
}

fn options(args: &Args, source: &Source, devices: Vec<PathBuf>) -> Result<BuildOptions> {
    let mut volume = args.volume.options()?;
    if args.read_only {
        volume.features |= Features::RO;
    }
    let keep = !matches!(source, Source::Directory(_)) || rustix::process::geteuid().is_root();
    let paths = args.exclude_path.iter().map(|p| Exclude::path(p));
    Ok(BuildOptions {
        time: volume.timestamp,
        latest: source_date_epoch()?,
        volume,
        size: match args.size {
            Size::Auto(_) => Size::Auto(args.headroom),
            bytes => bytes,
        },
        owner: args.owner.unwrap_or(if keep { Owner::Keep } else { Owner::All(0, 0) }),
        exclude: paths.chain(args.exclude_regex.iter().cloned()).collect(),
        ignored_headers: args.ignore_header.clone(),
        compression: compression(args)?,
        reserved: args.reserved,
        order: args.order.clone(),
        threads: args.threads,
        sparse: args.sparse,
        journal: args.storage.journal.path()?,
        devices,
        metadata: args.metadata.options(),
    })
}

fn compression(args: &Args) -> Result<Option<Compression>> {
    let parsed = args.compress.as_deref().map(|text| Compression::parse(text, args.cluster));
    parsed.transpose().map_err(|why| anyhow!("--compress: {why}"))
}

/// The variable of reproducible builds, in seconds since 1970.
fn source_date_epoch() -> Result<Option<u64>> {
    let Some(value) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let text = value.to_string_lossy();
    let seconds =
        text.parse().with_context(|| format!("SOURCE_DATE_EPOCH is {text:?}, not a number of seconds"))?;
    Ok(Some(seconds))
}

fn config_default(text: &str) -> Result<(u32, u32, u16, u16), String> {
    let fields: Vec<&str> = text.split(':').collect();
    let [uid, gid, dir, file] = fields[..] else { return Err("it is not UID:GID:DIRMODE:FILEMODE".into()) };
    let id = |text: &str| text.parse().map_err(|_| format!("{text:?} is no number"));
    let mode = |text: &str| u16::from_str_radix(text, 8).map_err(|_| format!("mode {text:?} is not octal"));
    Ok((id(uid)?, id(gid)?, mode(dir)? & 0o7777, mode(file)? & 0o7777))
}

fn print(image: &Path, report: &Report, as_json: bool) -> Result<()> {
    let Report { image_bytes, free_bytes, files, content_bytes, compressed_files, saved_bytes, .. } = *report;
    let uuid = uuid_text(&report.uuid);
    report.notes.iter().for_each(|note| eprintln!("segno: note: {note}"));
    let (size, content) = (size::human(image_bytes), size::human(content_bytes));
    let words = format!("{}: {size}, {files} files with {content}, volume {uuid}", image.display());
    let json = json!({
        "image": image.display().to_string(),
        "image_bytes": image_bytes,
        "free_bytes": free_bytes,
        "files": files,
        "content_bytes": content_bytes,
        "compressed_files": compressed_files,
        "saved_bytes": saved_bytes,
        "notes": report.notes,
        "uuid": uuid,
    });
    Ok(out::report(as_json, Schema("segno.build", 1), &json, words)?)
}

/// `auto` has no headroom here: `--headroom` is a separate option.
fn chosen_size(text: &str) -> Result<Size, String> {
    if text == "auto" { Ok(Size::Auto(Headroom::Bytes(0))) } else { size::parse(text).map(Size::Bytes) }
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
