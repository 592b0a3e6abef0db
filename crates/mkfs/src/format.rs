//! Carries out a layout.
use crate::checkpoint::Packs;
use crate::content::Content;
use crate::layout::plan_within;
use crate::superblock::superblock;
use crate::target::Target;
use crate::{Layout, Member, MkfsError, MkfsOptions, zones};
use segno_device::Contents;
use segno_format::nat::RawNatEntry;
use segno_format::sit::LogType;
use segno_format::superblock::SUPERBLOCK_COPIES;
use segno_format::{BLOCKS_PER_SEG, Block, BlockAddr, Geometry};
use segno_layout::nat_block;
use std::time::{SystemTime, UNIX_EPOCH};

/// The new volume.
#[derive(Clone, Debug)]
pub struct Report {
    /// Where everything is.
    pub layout: Layout,
    /// The volume's id.
    pub uuid: [u8; 16],
    /// Version of the first checkpoint.
    pub checkpoint_ver: u32,
}

/// Formats a volume on these devices; the first one gets the superblocks. Contents are refused, and with
/// `force` lost.
///
/// Up to one write the old contents are untouched. This write marks the device as being formatted, and only
/// the last ones, of the superblocks, take the mark away.
pub fn format(members: &[Member], opts: &MkfsOptions) -> Result<Report, MkfsError> {
    let zones = zones::of(members)?;
    let opts = &zones::fit(&zones, opts)?;
    opts.validate()?;
    let devices: Vec<u64> = members.iter().map(|m| m.device.block_count()).collect();
    let sizes = opts.usable(&devices)?;
    let layout = plan_within(&sizes, opts)?;
    zones::check(&zones, &layout, opts)?;
    if !opts.force {
        members.iter().try_for_each(refuse_contents)?;
    }
    let (uuid, checkpoint_ver) = (uuid(opts)?, checkpoint_ver(opts)?);
    let paths: Vec<&str> = members.iter().map(|m| m.path.as_str()).collect();
    let content = Content::build(&layout, opts, &uuid, timestamp(opts));
    let sb = superblock(&layout, opts, uuid, &paths, content.quota_inos)?;
    let trimmed = members.iter().all(|m| trims(opts, m));
    let packs = content.packs(&layout, opts, trimmed, checkpoint_ver)?;

    let target = Target::new(members, &sizes, &layout)?;
    target.mark_unfinished()?;
    target.discard(|member| opts.zoned || trims(opts, member))?;
    clear_old(&target, &layout)?;
    write_nat(&target, &layout.geo)?;
    write_content(&target, &layout, &content)?;
    write_packs(&target, &layout.geo, &packs)?;
    target.flush("flushing everything but the superblocks")?;
    write_superblocks(&target, &sb.raw)?;
    Ok(Report { layout, uuid, checkpoint_ver })
}

/// Whether the blocks of a device are discarded, or never were in use.
fn trims(opts: &MkfsOptions, member: &Member) -> bool {
    let keeps = || member.device.is_preallocated();
    opts.discard.unwrap_or_else(|| member.zeroed || opts.force && !keeps())
}

fn refuse_contents(member: &Member) -> Result<(), MkfsError> {
    if member.zeroed {
        return Ok(());
    }
    let (path, doing) = (member.path.clone(), "looking for old contents");
    match Contents::of(&*member.device) {
        Ok(contents) if contents.is_blank() => Ok(()),
        Ok(contents) => Err(MkfsError::Occupied { path, contents }),
        Err(source) => Err(MkfsError::Io { path, doing, source }),
    }
}

/// Removes everything that could be taken for a part of the new volume, or for another one.
fn clear_old(target: &Target<'_>, layout: &Layout) -> Result<(), MkfsError> {
    target.clear_signatures()?;
    target.clear_journal()?;
    clear_tables(target, &layout.geo)?;
    // A stale node block here could be taken for the start of a roll-forward chain.
    let warm_node = u64::from(layout.curseg_start(LogType::WarmNode).0);
    target.clear(warm_node..warm_node + 1)
}

/// The first copies of SIT and NAT must be zeros; the second ones are written whole before they are read.
fn clear_tables(target: &Target<'_>, geo: &Geometry) -> Result<(), MkfsError> {
    let range = |start: BlockAddr, blocks: u32| start.0.into()..u64::from(start.0) + u64::from(blocks);
    target.clear(range(geo.sit_addr(0, false), geo.segment_count_sit / 2 * BLOCKS_PER_SEG))?;
    for block in (0..geo.nat_blocks()).step_by(BLOCKS_PER_SEG as usize) {
        target.clear(range(geo.nat_addr(block, false), BLOCKS_PER_SEG))?;
    }
    Ok(())
}

fn write_nat(target: &Target<'_>, geo: &Geometry) -> Result<(), MkfsError> {
    let block = nat_block(Block::zeroed(), 0, RawNatEntry::without_node);
    target.write(geo.nat_addr(0, false), "writing the NAT", [&block])
}

fn write_content(target: &Target<'_>, layout: &Layout, content: &Content) -> Result<(), MkfsError> {
    let nodes = content.nodes.iter().map(|(_, block)| block);
    target.write(layout.curseg_start(LogType::HotNode), "writing the first inodes", nodes)?;
    let data = content.data.iter().map(|(_, block)| block);
    target.write(layout.curseg_start(LogType::HotData), "writing the first directories", data)
}

fn write_packs(target: &Target<'_>, geo: &Geometry, packs: &Packs) -> Result<(), MkfsError> {
    let mut parts = packs.parts(geo).into_iter();
    parts.try_for_each(|(at, blocks)| target.write(at, "writing the checkpoint", blocks))
}

fn write_superblocks(
    target: &Target<'_>,
    raw: &segno_format::superblock::RawSuperblock,
) -> Result<(), MkfsError> {
    let mut block = Block::zeroed();
    raw.store(&mut block.0);
    for copy in SUPERBLOCK_COPIES {
        target.write(copy, "writing the superblocks", [&block])?;
    }
    target.flush("flushing the superblocks")
}

fn uuid(opts: &MkfsOptions) -> Result<[u8; 16], MkfsError> {
    if let Some(uuid) = opts.uuid {
        return Ok(uuid);
    }
    let mut uuid: [u8; 16] = random()?;
    // These bits mark a random (version 4) UUID.
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut uuid;
    *version = *version & 0x0F | 0x40;
    *variant = *variant & 0x3F | 0x80;
    Ok(uuid)
}

/// Random, so that blocks of an earlier volume do not look like they follow this checkpoint; odd, hence not 0.
fn checkpoint_ver(opts: &MkfsOptions) -> Result<u32, MkfsError> {
    match opts.checkpoint_ver {
        Some(ver) => Ok(ver),
        None => Ok(u32::from_le_bytes(random()?) | 1),
    }
}

/// getrandom(2) returns up to 256 bytes at once.
fn random<const N: usize>() -> Result<[u8; N], MkfsError> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| MkfsError::Random(e.into()))?;
    Ok(bytes)
}

fn timestamp(opts: &MkfsOptions) -> u64 {
    // A clock before 1970 is as good as none.
    opts.timestamp.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()))
}
