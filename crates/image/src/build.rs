//! Formats the image, writes the tree, and finds the size.
use crate::clock::BuildClock;
use crate::options::{BuildOptions, Headroom, Size};
use crate::size::{SEGMENT, segments_for, with_headroom};
use crate::tree::{Kind, Tree};
use crate::{Error, Result, estimate, identity, scan, writer};
use segno_device::{BlockDevice, FileDevice, OpenOptions};
use segno_engine::options::{CheckpointMode, ContextSetting};
use segno_engine::{Error as VolumeError, MountOptions, Time, Volume};
use segno_format::{BLOCK_SIZE, Features};
use segno_mkfs::{Member, MkfsOptions};
use std::path::Path;
use std::sync::Arc;

/// How far a build is. A build that looks for the smallest size writes the tree more than once.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// What was written last.
    pub path: &'a Path,
    /// Names written so far.
    pub files: u64,
    /// Bytes of content written so far.
    pub bytes: u64,
}

/// What was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Size of the image in bytes.
    pub image_bytes: u64,
    /// Space that is left for files, in bytes.
    pub free_bytes: u64,
    /// Names in the image, with the root.
    pub files: u64,
    /// Sizes of all files, each counted once.
    pub content_bytes: u64,
    /// The volume's id.
    pub uuid: [u8; 16],
}

/// Builds an image of the directory `source` in the regular file `image`, which exists and is overwritten. After an
/// error the file holds nothing of use.
pub fn build(
    source: &Path,
    image: &Path,
    options: &BuildOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Report> {
    if options.volume.features.contains(Features::RO) {
        return Err(Error::ReadOnlyLayout);
    }
    let tree = scan::scan(source, options)?;
    let (volume, uuid) = volume_options(&tree, options);
    let mut build = Build { tree: &tree, image, volume: &volume, progress };
    let (bytes, used) = match options.size {
        Size::Auto(headroom) => build.smallest(headroom)?,
        Size::Bytes(given) => build.of_size(given)?,
    };
    let content = tree.entries.iter().map(|e| match &e.kind {
        Kind::File(source) => source.size,
        _ => 0,
    });
    Ok(Report {
        image_bytes: bytes,
        free_bytes: used.free * BLOCK_SIZE as u64,
        files: tree.entries.len() as u64,
        content_bytes: content.sum(),
        uuid,
    })
}

/// How to format: without anything random, and without the time of the build.
fn volume_options(tree: &Tree, options: &BuildOptions) -> (MkfsOptions, [u8; 16]) {
    let root = tree.entries.first();
    let time = options.time.or(options.volume.timestamp);
    let time = time.or_else(|| root.and_then(|r| u64::try_from(r.time.secs).ok()));
    let mut volume = MkfsOptions {
        discard: false,
        timestamp: Some(time.unwrap_or(0)),
        root_owner: root.map_or((0, 0), |r| (r.uid, r.gid)),
        ..options.volume.clone()
    };
    let uuid = options.volume.uuid.unwrap_or_else(|| identity::derived(tree, &volume));
    volume.uuid = Some(uuid);
    volume.checkpoint_ver = Some(identity::checkpoint_ver(&uuid));
    (volume, uuid)
}

/// Blocks of a volume that was built.
#[derive(Clone, Copy)]
struct Used {
    blocks: u64,
    free: u64,
}

struct Build<'a, 'b> {
    tree: &'a Tree,
    image: &'a Path,
    volume: &'a MkfsOptions,
    progress: &'b mut dyn FnMut(Progress<'_>),
}

impl Build<'_, '_> {
    fn of_size(&mut self, given: u64) -> Result<(u64, Used)> {
        let bytes = given / BLOCK_SIZE as u64 * BLOCK_SIZE as u64;
        match self.attempt(bytes)? {
            Some(used) => Ok((bytes, used)),
            None => {
                let (enough, _) = self.smallest(Headroom::Bytes(0))?;
                // A volume that is no whole number of segments may have less room than a smaller one that is.
                let enough = enough.max(given.next_multiple_of(SEGMENT));
                Err(Error::TooSmall { given, missing: enough - given, enough })
            }
        }
    }

    /// Writes the tree to a volume that has room for it, to measure it, and then to the smallest one that accepts it.
    fn smallest(&mut self, headroom: Headroom) -> Result<(u64, Used)> {
        let guess = with_headroom(estimate::blocks(self.tree), headroom);
        let (large, used) = self.from(segments_for(guess, 1, self.volume)?)?;
        let floor = segments_for(with_headroom(used.blocks, headroom), 1, self.volume)?;
        if floor == large {
            return Ok((large * SEGMENT, used));
        }
        let (small, used) = self.from(floor)?;
        Ok((small * SEGMENT, used))
    }

    /// The first of these sizes, each a segment larger, at which the tree fits.
    fn from(&mut self, mut segments: u64) -> Result<(u64, Used)> {
        loop {
            match self.attempt(segments * SEGMENT)? {
                Some(used) => return Ok((segments, used)),
                None => segments = segments_for(0, segments + 1, self.volume)?,
            }
        }
    }

    /// Builds the image with this size; `None` if the tree does not fit.
    fn attempt(&mut self, bytes: u64) -> Result<Option<Used>> {
        let device = self.empty(bytes)?;
        let member = Member { device: Arc::clone(&device), path: String::new(), zeroed: true };
        let layout = match segno_mkfs::format(&[member], self.volume) {
            Ok(report) => report.layout,
            Err(e) if e.is_about_size() => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let epoch = Time { secs: self.volume.timestamp.unwrap_or(0).cast_signed(), nsec: 0 };
        let clock = Arc::new(BuildClock::new(epoch));
        let volume =
            Volume::mount_with_clock(device, mount_options(), clock.clone()).map_err(Error::Volume)?;
        let written = writer::write(self.tree, &volume, &clock, self.progress);
        let written = written.and_then(|()| {
            clock.set(epoch);
            volume.sync().map_err(Error::Volume)?;
            let free = volume.statfs().bfree;
            volume.unmount().map_err(Error::Volume)?;
            Ok(Used { blocks: layout.reserve.user_block_count.saturating_sub(free), free })
        });
        match written {
            Ok(used) => Ok(Some(used)),
            Err(Error::Entry { source: VolumeError::NoSpace, .. } | Error::Volume(VolumeError::NoSpace)) => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// The image file with this size and no content.
    fn empty(&self, bytes: u64) -> Result<Arc<dyn BlockDevice>> {
        let failed = |e| Error::host("write", self.image, e);
        let file = std::fs::File::options().write(true).open(self.image).map_err(failed)?;
        file.set_len(0).map_err(failed)?;
        file.set_len(bytes).map_err(failed)?;
        Ok(Arc::new(FileDevice::open(self.image, OpenOptions::default())?))
    }
}

/// Everything happens in the calls of one thread, in an order that does not depend on the machine.
fn mount_options() -> MountOptions {
    MountOptions {
        background: false,
        background_gc: false,
        discard: false,
        contexts: ContextSetting::Fixed(1),
        exclusive_streams: Some(0),
        checkpoint: CheckpointMode::Blocking,
        lifetime: false,
        ..MountOptions::default()
    }
}
