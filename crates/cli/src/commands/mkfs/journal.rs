//! The journal that a new volume gets.
use super::{Args, room as size_of};
use crate::commands::journal::{found, room};
use crate::exit::usage;
use crate::external_journal;
use crate::image::explain;
use crate::store;
use anyhow::{Context, Result, anyhow};
use segno::inspect;
use segno_device::{
    BlockDevice, FileDevice, Location, MultiDevice, OpenOptions, is_removable, unfinished_format,
};
use segno_format::{BLOCK_SIZE, Features, size};
use segno_journal::{About, Area, Content};
use segno_mkfs::{Member, MkfsOptions, plan};
use std::path::Path;
use std::sync::Arc;

/// A smaller volume gets none unless asked for.
const LEAST_VOLUME: u64 = 256 << 20;
/// On a device that cannot grow, the journal takes up to this share: the first of several devices may be
/// small compared with the volume.
const PART_OF_FIRST: u64 = 4;

/// `--journal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// 1/64 of the volume, or none where it would do harm.
    Auto,
    None,
    Bytes(u64),
}

/// Where the journal of a volume goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere, and why.
    Nowhere(&'static str),
    /// At the end of the device or partition, with this number of blocks: the volume becomes smaller.
    Within(u64),
    /// Behind the volume, with this number of blocks: the image file becomes longer.
    Behind(u64),
    /// In the file or device of `--journal-device`. A new file gets this number of blocks.
    Beside(u64),
}

/// The devices of a new volume.
pub struct Devices {
    pub members: Vec<Member>,
    /// The first, if it is an image file that may get longer.
    pub file: Option<Arc<FileDevice>>,
}

impl Choice {
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            bytes => size::parse(bytes).map(Self::Bytes).map_err(|e| format!("{e}; or auto, or none")),
        }
    }

    /// Refuses a size that this volume cannot have, before anything is opened.
    pub fn check(self, args: &Args, options: &MkfsOptions) -> Result<()> {
        let is_beside = args.journal_device.is_some();
        if is_beside && (self == Self::None || options.features.contains(Features::RO)) {
            return Err(usage(anyhow!("--journal-device is not for a volume without a journal")));
        }
        let Self::Bytes(bytes) = self else { return Ok(()) };
        found::blocks_of(bytes)?;
        if is_beside {
            return Ok(());
        }
        let impossible = [
            (args.sparse, "a sparse image"),
            (args.sectors.is_some(), "a number of sectors"),
            (
                options.zoned && args.devices.is_empty(),
                "a single device with zones; a second device takes them, with -c",
            ),
            (options.features.contains(Features::RO), "a volume that is never written"),
        ];
        if let Some((_, what)) = impossible.into_iter().find(|(is, _)| *is) {
            return Err(usage(anyhow!("--journal SIZE is not for {what}")));
        }
        Ok(())
    }

    /// Blocks of the journal of a volume of `volume_blocks` blocks, where the file grows by it.
    fn blocks(self, volume_blocks: u64) -> Result<u64> {
        match self {
            Self::None => Ok(0),
            Self::Auto => Ok(room::share(volume_blocks)),
            Self::Bytes(bytes) => found::blocks_of(bytes),
        }
    }

    /// Where the journal goes. `blocks` is the part of the volume on the first of these devices, without the
    /// journal.
    pub fn place(self, args: &Args, options: &MkfsOptions, devices: &Devices, blocks: u64) -> Result<Place> {
        let may_grow = devices.file.is_some() && devices.ends_with_a_block();
        let volume_blocks = blocks + devices.further_blocks().sum::<u64>();
        let most = if may_grow { u64::MAX } else { blocks / PART_OF_FIRST };
        let why_not = match self {
            Self::None => Some("as asked for"),
            Self::Auto if args.journal_device.is_none() => {
                unsuited(args, options, devices, volume_blocks, most)?
            }
            Self::Auto | Self::Bytes(_) => None,
        };
        if let Some(why) = why_not {
            return Ok(Place::Nowhere(why));
        }
        let journal = self.blocks(volume_blocks)?;
        Ok(match args.journal_device {
            Some(_) => Place::Beside(journal),
            None if may_grow => Place::Behind(journal),
            None if self == Self::Auto => Place::Within(journal.min(most)),
            None => Place::Within(journal),
        })
    }
}

/// Why a volume of `volume_blocks` blocks gets no journal, of up to `most` blocks, unless one is requested.
fn unsuited(
    args: &Args,
    options: &MkfsOptions,
    devices: &Devices,
    volume_blocks: u64,
    most: u64,
) -> Result<Option<&'static str>> {
    let zones = devices.members.first().map(|first| first.device.zones()).transpose();
    let has_zones = zones.context("cannot read the zones")?.is_some_and(|zones| !zones.is_empty());
    let is_alone = devices.members.len() == 1;
    let on_store = store::is_url(&args.image);
    let has_end = on_store || Location::of(&args.part.of(&args.image)?).by_offset()?.has_end()?;
    let all = [
        (on_store, "the volume is on an object store"),
        (!has_end, "only --length says where its part of the image ends"),
        (has_zones || (options.zoned && is_alone), "zones that are written in order are no place for one"),
        (options.features.contains(Features::RO), "the volume is never written"),
        (args.sectors.is_some(), "what is behind these sectors is not the volume's"),
        (volume_blocks < LEAST_VOLUME / BLOCK_SIZE as u64, "the volume is smaller than 256 MiB"),
        (most < room::LEAST_BLOCKS, "the first device is too small beside the others"),
        (!devices.ends_with_a_block(), "what is in the last part of a block of the file is not the volume's"),
        (is_removable(&args.image), "the device is removable, and other systems do not know it"),
    ];
    Ok(all.into_iter().find(|(applies, _)| *applies).map(|(_, why)| why))
}

impl Devices {
    /// Whether the length of an image file is a multiple of a block. Otherwise data that is not the volume's
    /// follows it.
    fn ends_with_a_block(&self) -> bool {
        self.file.as_ref().is_none_or(|file| file.probe().bytes.is_multiple_of(BLOCK_SIZE as u64))
    }

    fn further_blocks(&self) -> impl Iterator<Item = u64> {
        self.members.iter().skip(1).map(|member| member.device.block_count())
    }

    /// The blocks of the first device, without a journal that an earlier format put after its volume.
    pub fn blocks(&self, choice: Choice) -> u64 {
        let volume = self.file.as_ref().and_then(|file| end_of_volume(file, choice));
        volume.unwrap_or_else(|| self.members.first().map_or(0, |first| first.device.block_count()))
    }

    /// Takes an earlier journal off the image file that is formatted again, so that a format which is cut off leaves no trace of it. As in
    /// every format, the first write is a mark.
    pub fn without_journal(self, image: &Path, options: &MkfsOptions, blocks: u64) -> Result<Self> {
        let Some(file) = self.file.as_ref().filter(|file| options.force && file.block_count() > blocks)
        else {
            return Ok(self);
        };
        let sizes: Vec<u64> = std::iter::once(blocks).chain(self.further_blocks()).collect();
        plan(&sizes, options).map_err(|e| size_of::explain(e, options, blocks))?;
        file.write(0, &[&unfinished_format()])
            .and_then(|()| file.flush())
            .context("cannot mark the image")?;
        let Self { mut members, file } = self;
        let path = members.remove(0).path;
        let mut file = file.and_then(Arc::into_inner).context("the image is still in use")?;
        room::fit(&mut file, image, blocks, 0)?;
        let file = Arc::new(file);
        members.insert(0, Member { device: file.clone(), path, zeroed: false });
        Ok(Self { members, file: Some(file) })
    }
}

/// The end of the volume on a file that is exactly as long as a format leaves it: with a journal, or with zeros where a format was cut off
/// before it made that.
fn end_of_volume(file: &Arc<FileDevice>, choice: Choice) -> Option<u64> {
    let sb = inspect::superblock(&**file).ok()?;
    let end = if sb.devices.is_empty() { sb.geo.block_count } else { sb.device_blocks().0 };
    let gap = Area::tail(file.clone(), end)?;
    let expected = || choice.blocks(sb.geo.block_count).ok();
    let journal = About::read(&gap).map_or_else(|_| expected(), |about| Some(about.blocks()))?;
    let is_data = || matches!(gap.content(&sb.raw.uuid), Err(_) | Ok(Content::Data { .. }));
    (gap.blocks() == journal && !is_data()).then_some(end)
}

impl Place {
    /// Options of a volume on a device of `blocks` blocks, without an earlier journal, that leave room for
    /// this one.
    pub fn leaving_room(self, options: MkfsOptions, blocks: u64) -> MkfsOptions {
        match self {
            Self::Nowhere(_) | Self::Beside(_) => options,
            Self::Within(gap_blocks) => MkfsOptions { gap_blocks, ..options },
            Self::Behind(_) => MkfsOptions { blocks: Some(blocks), ..options },
        }
    }

    /// Devices without an earlier journal after the volume, if this one goes there.
    pub fn taking_off(
        self,
        devices: Devices,
        image: &Path,
        options: &MkfsOptions,
        blocks: u64,
    ) -> Result<Devices> {
        match self {
            Self::Behind(_) => devices.without_journal(image, options, blocks),
            Self::Nowhere(_) | Self::Within(_) | Self::Beside(_) => Ok(devices),
        }
    }

    /// Why the volume has no journal; `None` if it has one.
    pub fn why_not(self) -> Option<&'static str> {
        if let Self::Nowhere(why) = self { Some(why) } else { None }
    }

    /// Makes the journal of a volume that has `blocks` blocks on the first device. Returns its size.
    pub fn make(self, args: &Args, devices: Devices, blocks: u64) -> Result<Option<u64>> {
        let Devices { members, file } = devices;
        let mut members = members.into_iter().map(|member| member.device);
        let first = match (self, members.next()) {
            (Self::Nowhere(_), _) | (_, None) => return Ok(None),
            (Self::Beside(journal), Some(first)) => {
                let path = args.journal_device.as_deref().context("no file for the journal")?;
                return beside(args, path, journal, &joined(first, members.collect())?).map(Some);
            }
            (Self::Within(_), Some(first)) => first,
            (Self::Behind(journal), Some(first)) => {
                drop(first);
                let mut file = file.and_then(Arc::into_inner).context("the image is still in use")?;
                room::fit(&mut file, &args.image, blocks, journal)?;
                Arc::new(file)
            }
        };
        found::make(&joined(first, members.collect())?).map(Some)
    }
}

/// The devices of a new volume as one.
fn joined(first: Arc<dyn BlockDevice>, others: Vec<Arc<dyn BlockDevice>>) -> Result<Arc<dyn BlockDevice>> {
    if others.is_empty() {
        return Ok(first);
    }
    let (share, shares) = inspect::superblock(&*first)?.device_blocks();
    let members = std::iter::once((first, share)).chain(others.into_iter().zip(shares)).collect();
    Ok(Arc::new(MultiDevice::of_volume(members).context("cannot join the devices")?))
}

/// Makes the journal of a volume on a device, or in a file; a new file gets `blocks` blocks.
fn beside(args: &Args, path: &Path, blocks: u64, volume: &Arc<dyn BlockDevice>) -> Result<u64> {
    let device: Arc<dyn BlockDevice> = if path.exists() {
        let images: Vec<_> = std::iter::once(&args.image).chain(&args.devices).cloned().collect();
        external_journal::open(path, &images, OpenOptions::default())?
    } else {
        Arc::new(FileDevice::create(path, blocks * BLOCK_SIZE as u64, false).map_err(explain)?)
    };
    let sb = inspect::superblock(&**volume)?;
    let checkpoint = inspect::checkpoint(&**volume, &sb)?.journaled(&sb);
    let area = Area::whole(device);
    let space = if args.force { area.clear() } else { area.vacant(&checkpoint.volume) };
    let space = space.with_context(|| path.display().to_string())?;
    let bytes = space.blocks() * BLOCK_SIZE as u64;
    found::make_in(space, &checkpoint)?;
    Ok(bytes)
}
