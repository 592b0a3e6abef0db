//! `segno rescue`: files of a volume that cannot be mounted any more.
use crate::confine::{ConfineOption, Confinement};
use crate::document::Schema;
use crate::exit::Outcome;
use crate::external_journal::External;
use crate::image;
use crate::preserve::{self, PreserveOption};
use crate::progress::Progress;
use crate::rescue_image::{self, ImageTarget};
use crate::salvage::{self, Listing, Search};
use crate::storage::StorageOptions;
use anyhow::{Context, Result, anyhow};
use segno_device::BlockDevice;
use segno_format::text;
use segno_host::{LeftOut, NewDir};
use segno_rescue::output::{OutputOptions, Plan, Sink, Target};
use segno_rescue::scan::BadBlocks;
use segno_rescue::{Found, RescueError, Tree, Verdicts, Volume};
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Copy the files of a damaged volume to a directory or a new volume
///
/// Works without superblock, checkpoint, NAT, SIT and SSA. The source is only read. Each file gets a class: A is proven, B
/// has nothing against it, C is doubtful or has holes. The exit code is 1 if anything is doubtful, not copied or lost.
#[derive(clap::Args)]
pub struct Args {
    /// List what would be copied
    #[arg(long)]
    list: bool,
    /// Copy only paths that match; * matches slashes too
    #[arg(long, value_name = "GLOB")]
    only: Option<String>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Keep unreadable blocks in this map of ddrescue; with --resume they are not tried before the rest was read
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Keep what the search of the source finds in this file; if it is there, the source is not searched again
    #[arg(long, value_name = "FILE")]
    scan: Option<PathBuf>,
    /// Go on with a directory that is not empty; files that are there with the right size and time are kept
    #[arg(long)]
    resume: bool,
    /// Copy to a new volume in this image file, of the size of the old one
    #[arg(long, value_name = "IMAGE", conflicts_with_all = ["resume", "target", "list"])]
    to_image: Option<PathBuf>,
    #[command(flatten)]
    preserve: PreserveOption,
    #[command(flatten)]
    confine: ConfineOption,
    #[command(flatten)]
    storage: StorageOptions,
    /// Image file or block device
    source: PathBuf,
    /// Directory to copy to, made if it does not exist
    #[arg(required_unless_present_any = ["list", "to_image"])]
    target: Option<PathBuf>,
}

pub fn run(args: &Args) -> Outcome {
    let stop = salvage::set_by([SIGINT, SIGTERM])?;
    let only = args
        .only
        .as_ref()
        .map(|text| glob::Pattern::new(text).map_err(|e| RescueError::Pattern(text.clone(), e)));
    let only = only.transpose()?;
    let (paths, offset) = args.place()?;
    let device = salvage::open(&paths, offset)?;
    let journal = External::open(&args.storage.journal, &paths, image::READ_ONLY)?;
    for path in args.made().chain(args.target()) {
        salvage::refuse_inside(&paths, path)?;
    }
    let made = args.target().map(made).transpose()?;
    confinement(args).enter();
    let device = super::check::with_journal(device, &journal)?;
    image::note_unsupported(&*device);
    let kept = args.scan.as_deref();
    let target = args.target().map(|path| open_target(args, path)).transpose()?;
    let known_bad = known_bad(args)?;
    let blocks = device.block_count();
    let search = Search { sources: &paths, offset, known_bad: &known_bad, kept, stop: &stop };
    let done = salvage::with_volume(&*device, &search, |device, found| {
        if let Some(path) = &args.map {
            std::fs::write(path, found.bad.to_mapfile(blocks))
                .with_context(|| format!("cannot write the map {}", path.display()))?;
        }
        copy(args, (device, &paths), found, only, target, &stop)
    })?;
    if let Some(made) = made {
        made.keep();
    }
    Ok(done)
}

impl Args {
    /// The devices to search, and the byte that the volume starts at if only that is known: a damaged volume does not say where it ends.
    fn place(&self) -> Result<(Vec<PathBuf>, Option<u64>)> {
        let mut devices = self.storage.devices.clone();
        let offset = devices.part.offset.filter(|_| devices.part.length.is_none());
        if offset.is_some() {
            devices.part.offset = None;
        }
        Ok((devices.of(&self.source)?, offset))
    }

    /// Files that are made.
    fn made(&self) -> impl Iterator<Item = &Path> {
        [&self.scan, &self.map, &self.to_image].into_iter().flatten().map(PathBuf::as_path)
    }

    /// The directory that is filled.
    fn target(&self) -> Option<&Path> {
        self.target.as_deref().filter(|_| !self.list)
    }
}

fn confinement(args: &Args) -> Confinement {
    let confinement = args.made().fold(Confinement::new(&args.confine), |all, path| all.makes(path));
    match args.target() {
        Some(dir) => confinement.fills(dir, args.preserve.chosen()).removes(dir),
        None => confinement,
    }
}

fn made(target: &Path) -> Result<NewDir> {
    NewDir::create(target).with_context(|| format!("cannot open {}", target.display()))
}

fn open_target(args: &Args, path: &Path) -> Result<Target> {
    Ok(Target::open(path, OutputOptions { resume: args.resume, preserve: args.preserve.chosen() })?)
}

fn known_bad(args: &Args) -> Result<BadBlocks> {
    match args.map.as_ref().filter(|path| args.resume && path.exists()) {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the map {}", path.display()))?;
            Ok(BadBlocks::from_mapfile(&text, path)?)
        }
        None => Ok(BadBlocks::default()),
    }
}

fn copy(
    args: &Args,
    (device, paths): (&dyn BlockDevice, &[PathBuf]),
    found: Found,
    only: Option<glob::Pattern>,
    target: Option<Target>,
    stop: &AtomicBool,
) -> Outcome {
    let (nodes, foreign) = (found.nodes.len(), found.foreign);
    let volume = Volume::find(device, found, false);
    let tree = Tree::build(&volume);
    let mut progress = Progress::default();
    let verdicts = Verdicts::of(&volume, &tree, &mut |done, total| {
        progress.show(|| format!("judging file {done} of {total}"));
    });
    let plan = Plan { volume: &volume, tree: &tree, verdicts: &verdicts, only };
    let mut listing = Listing::new(args.json, Schema("segno.rescue", 1));
    listing.lose(plan.lost().count());
    let mut copy_to = |target: &mut dyn Sink| -> Result<()> {
        let (mut printed, mut done) = (Ok(()), 0u64);
        plan.copy(target, stop, |item| {
            done += 1;
            progress.show(|| format!("{done} files  {}", item.shown()));
            if printed.is_ok() {
                printed = listing.add(&item, true);
            }
        })
        .map_err(|e| match e {
            RescueError::Interrupted if args.to_image.is_none() => anyhow!("interrupted; --resume goes on"),
            e => e.into(),
        })?;
        printed
    };
    let mut left_out = LeftOut::default();
    match (target, &args.to_image) {
        (Some(mut target), _) => {
            copy_to(&mut target)?;
            left_out = target.left_out();
        }
        (None, Some(path)) => {
            let bytes = rescue_image::size_of(&volume, device.block_count());
            let mut target = ImageTarget::create(path, bytes, image::copy_mode(paths))?;
            copy_to(&mut target)?;
            target.close()?;
        }
        (None, None) => plan.entries().try_for_each(|e| listing.add(&plan.item(e), false))?,
    }
    drop(progress);
    let more = about(&plan, (nodes, foreign), &left_out);
    if !args.json {
        preserve::note(&left_out);
        eprintln!("segno: {}", words(&volume, &tree));
    }
    listing.finish("files and directories", more)
}

/// Describes which structures of the volume were found.
fn about(plan: &Plan<'_, '_>, (nodes, foreign): (usize, usize), left_out: &LeftOut) -> Value {
    let Plan { volume, tree, .. } = plan;
    json!({
        "base_block": volume.reader.base(),
        "superblock": volume.superblock.is_some(),
        "geometry": volume.geo.is_some(),
        "checkpoint": volume.pack.as_ref().map(segno_layout::Pack::version),
        "nat": volume.nat.is_some(),
        "sit": volume.sit.is_some(),
        "unreadable_blocks": volume.bad.count(),
        "deleted_inodes": tree.deleted.len(),
        "names_without_inode": plan.lost().map(|path| text::field(&path).0).collect::<Vec<_>>(),
        "nodes": nodes,
        "foreign_nodes": foreign,
        "left_out": left_out,
    })
}

fn words(volume: &Volume<'_>, tree: &Tree) -> String {
    let parts = [
        ("superblock", volume.superblock.is_some()),
        ("checkpoint", volume.pack.is_some()),
        ("NAT", volume.nat.is_some()),
        ("SIT", volume.sit.is_some()),
    ];
    let list = |there: bool| {
        let names: Vec<_> = parts.iter().filter(|(_, is)| *is == there).map(|(name, _)| *name).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    format!(
        "volume at block {}; usable: {}; lost: {}; {} unreadable blocks, {} names without inode, {} deleted inodes",
        volume.reader.base(),
        list(true),
        list(false),
        volume.bad.count(),
        tree.dangling.len(),
        tree.deleted.len()
    )
}
