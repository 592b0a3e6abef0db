//! A new volume in the Android sparse format.
use super::{Args, room, tell};
use crate::new_file::NewFile;
use anyhow::{Context, Result, ensure};
use segno_device::{BlockDevice, Location};
use segno_format::BLOCK_SIZE;
use segno_mkfs::{Member, MkfsOptions};
use segno_sparse::{DEFAULT_BLOCK_SIZE, pack};
use std::sync::Arc;

/// Formats a file without a name, and writes what is in it.
pub fn format(args: &Args, options: &MkfsOptions, bytes: u64) -> Result<()> {
    let image = args.part.of(&args.image)?;
    ensure!(!Location::of(&image).is_part(), "{}: a sparse image is a file of its own", image.display());
    let new = NewFile::create(&image, args.force, 0o666)?;
    let raw = tempfile::NamedTempFile::new_in(segno_host::directory_of(&image))
        .with_context(|| format!("cannot create a file beside {}", image.display()))?;
    raw.as_file().set_len(bytes - bytes % BLOCK_SIZE as u64)?;
    let device =
        segno_device::FileDevice::open(raw.path(), Default::default()).map_err(crate::image::explain)?;
    let blocks = device.block_count();
    let member = Member { device: Arc::new(device), path: String::new(), zeroed: true };
    let options = MkfsOptions { discard: Some(false), ..options.clone() };
    let report = segno_mkfs::format(&[member], &options).map_err(|e| room::explain(e, &options, blocks))?;
    pack(raw.as_file(), new.file().try_clone()?, DEFAULT_BLOCK_SIZE)
        .with_context(|| format!("packing {}", image.display()))?;
    new.finish()?;
    tell(args, &report, None, Some("a sparse image is for other systems"))
}
