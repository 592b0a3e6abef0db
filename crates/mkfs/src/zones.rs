//! Requirements of a zoned volume on its devices.
use crate::{Layout, Member, MkfsError, MkfsOptions};
use segno_device::{Zone, ZoneKind};
use segno_format::BLOCKS_PER_SEG;

/// The zones of each device.
pub(crate) fn of(members: &[Member]) -> Result<Vec<Vec<Zone>>, MkfsError> {
    let one = |m: &Member| {
        m.device.zones().map_err(|source| MkfsError::Io {
            path: m.path.clone(),
            doing: "asking for zones",
            source,
        })
    };
    members.iter().map(one).collect()
}

/// The options with sections as large as zones. A device with zones that must be written in order needs a
/// zoned volume.
pub(crate) fn fit(zones: &[Vec<Zone>], opts: &MkfsOptions) -> Result<MkfsOptions, MkfsError> {
    let sequential = || zones.iter().flatten().filter(|z| z.kind == ZoneKind::Sequential);
    let Some(first) = sequential().next() else {
        return if opts.zoned { Err(zoned("no device has sequential zones")) } else { Ok(opts.clone()) };
    };
    if !opts.zoned {
        return Err(zoned("a device has sequential zones: format it with -m"));
    }
    if zones.iter().flatten().any(|z| z.blocks != first.blocks) {
        return Err(zoned("the zones are not all of one size"));
    }
    if sequential().any(|z| z.capacity != z.blocks) {
        return Err(zoned("zones with a capacity below their size are not supported"));
    }
    let segments = first.blocks / u64::from(BLOCKS_PER_SEG);
    if segments == 0 || segments * u64::from(BLOCKS_PER_SEG) != first.blocks {
        return Err(zoned("the zone size is no multiple of 2 MiB"));
    }
    let segs_per_sec = u32::try_from(segments).map_err(|_| zoned("the zones are too large"))?;
    Ok(MkfsOptions { segs_per_sec, secs_per_zone: 1, ..opts.clone() })
}

/// Whether each section is one zone, and all metadata can be overwritten in place.
pub(crate) fn check(zones: &[Vec<Zone>], layout: &Layout, opts: &MkfsOptions) -> Result<(), MkfsError> {
    if !opts.zoned {
        return Ok(());
    }
    let per_zone = u64::from(layout.geo.segs_per_sec) * u64::from(BLOCKS_PER_SEG);
    let mut start = 0;
    for (i, (zones, &segments)) in zones.iter().zip(&layout.device_segments).enumerate() {
        let lead = if i == 0 { u64::from(layout.geo.segment0_blkaddr) } else { 0 };
        for z in zones.iter().filter(|z| z.kind == ZoneKind::Sequential) {
            let at = start + z.start;
            if at < u64::from(layout.geo.main_blkaddr) {
                return Err(zoned(
                    "the metadata does not fit into the conventional zones before the first sequential one",
                ));
            }
            if !(at - u64::from(layout.geo.main_blkaddr)).is_multiple_of(per_zone) {
                return Err(zoned("zones and sections would not begin at the same blocks"));
            }
        }
        start += lead + u64::from(segments) * u64::from(BLOCKS_PER_SEG);
    }
    Ok(())
}

fn zoned(why: &'static str) -> MkfsError {
    MkfsError::Zoned { why }
}
