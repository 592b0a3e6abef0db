//! The space for a journal after the end of a volume: its size, and growing and shrinking the image file.
use super::found::Found;
use crate::image::explain;
use crate::storage::ImageArgs;
use crate::store;
use anyhow::{Context, Result, bail};
use segno::inspect;
use segno_device::{BlockDevice, FileDevice, Location, OpenOptions, StorageKind};
use segno_format::size;
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Features};
use segno_journal::{About, Area, Content, Journal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The share of a volume that its journal has, and the limits.
const SHARE: u64 = 64;
pub const LEAST_BLOCKS: u64 = (16 << 20) / BLOCK_SIZE as u64;
const MOST_BLOCKS: u64 = (256 << 20) / BLOCK_SIZE as u64;

/// The default size of a journal in blocks, for a volume of `volume_blocks` blocks.
pub fn share(volume_blocks: u64) -> u64 {
    (volume_blocks / SHARE).clamp(LEAST_BLOCKS, MOST_BLOCKS)
}

/// The default size in blocks of a journal to be made: all of the gap if it is large enough for a journal.
pub fn default_blocks(found: &Found) -> u64 {
    let gap = found.area.blocks();
    if gap >= Journal::LEAST_BLOCKS || found.file.is_some() { gap } else { share(found.volume_blocks) }
}

/// Sets the length of an image file to that of its volume and a journal of `journal_blocks` blocks after it.
pub fn fit(file: &mut FileDevice, path: &Path, volume_blocks: u64, journal_blocks: u64) -> Result<()> {
    let blocks = match journal_blocks {
        0 => volume_blocks,
        n => volume_blocks.next_multiple_of(BLOCKS_PER_SEG.into()) + n,
    };
    file.set_length(path, blocks * BLOCK_SIZE as u64).map_err(explain)
}

/// Makes an image file longer if it has no room for a journal of `blocks` blocks after its volume. Storage of
/// a fixed size is refused. `check` can refuse, too: it is called again if the image was closed and reopened.
pub fn make(
    found: Found,
    of: &ImageArgs,
    blocks: u64,
    check: impl Fn(&Found) -> Result<()>,
) -> Result<Found> {
    check(&found)?;
    let room = found.area.blocks();
    if room >= blocks {
        return Ok(found);
    }
    let [needed, room] = [blocks, room].map(|n| size::human(n * BLOCK_SIZE as u64));
    if found.file.is_some() {
        bail!("the space {} has {room}, and the journal needs {needed}", found.describe());
    }
    let volume_blocks = found.volume_blocks;
    drop(found);
    let Some((path, mut file)) = whole_file(of)? else {
        bail!(
            "a journal of {needed} needs a gap of that size after the end of the volume, which has {room}: make the partition larger, or name \
             an external journal (--journal FILE here, journal=FILE for mounts)"
        );
    };
    fit(&mut file, &path, volume_blocks, blocks)?;
    drop(file);
    let found = Found::open(of, false)?;
    check(&found)?;
    Ok(found)
}

/// Makes an image file as short as its volume and a journal of `blocks` blocks allow. Returns whether it
/// became shorter: storage of a fixed size keeps its length, and so does a file with other data after the
/// journal.
pub fn shorten(found: Found, of: &ImageArgs, blocks: u64) -> Result<bool> {
    if found.file.is_some() {
        return Ok(false);
    }
    let (volume_blocks, before) = (found.volume_blocks, found.device.block_count());
    drop(found);
    let Some((path, file)) = whole_file(of)? else { return Ok(false) };
    let file = Arc::new(file);
    if !ends_with(&file, volume_blocks, blocks)? {
        return Ok(false);
    }
    let mut file = Arc::into_inner(file).context("the image is still in use")?;
    fit(&mut file, &path, volume_blocks, blocks)?;
    Ok(file.block_count() < before)
}

/// Whether a file has nothing after its volume but a journal of `blocks` blocks. Another process may have
/// used it meanwhile.
fn ends_with(file: &Arc<FileDevice>, volume_blocks: u64, blocks: u64) -> Result<bool> {
    let sb = inspect::superblock(&**file)?;
    let Some(gap) = Area::tail(file.clone(), volume_blocks) else { return Ok(false) };
    let journal = About::read(&gap).map_or(0, |about| about.blocks());
    let rest = gap.after(blocks).content(&sb.raw.uuid)?;
    Ok(sb.geo.block_count == volume_blocks && journal == blocks && rest == Content::Nothing)
}

/// The image file of a volume, if nothing else is in it and no other device belongs to the volume. The caller has closed it.
fn whole_file(of: &ImageArgs) -> Result<Option<(PathBuf, FileDevice)>> {
    let images = of.devices()?;
    let [only] = images.as_slice() else { return Ok(None) };
    if store::is_url(only) || Location::of(only).is_part() {
        return Ok(None);
    }
    let file = FileDevice::open(only, OpenOptions::default()).map_err(explain)?;
    let probe = file.probe();
    // The bytes after the last whole block do not belong to the volume.
    let is_whole = probe.kind == StorageKind::Regular && probe.bytes.is_multiple_of(BLOCK_SIZE as u64);
    if !is_whole || inspect::superblock(&file)?.features.contains(Features::BLKZONED) {
        return Ok(None);
    }
    Ok(Some((only.clone(), file)))
}
