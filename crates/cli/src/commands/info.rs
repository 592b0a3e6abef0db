//! `segno info`: superblock, checkpoint and usage.
use crate::document::Schema;
use crate::out::stdout;
use crate::storage::DeviceOption;
use crate::usage::Usage;
use crate::{image, show};
use anyhow::Result;
use segno::inspect;
use segno::inspect::Pack;
use segno_clean::guard::{Extent, Guarded};
use segno_dump::put_name;
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use segno_format::size;
use segno_format::superblock::{Device, Superblock, uuid_text};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG, Features, text};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::PathBuf;

/// Show superblock, checkpoint and usage of an image
#[derive(clap::Args)]
pub struct Args {
    /// Print JSON, with the kernel's field names
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    devices: DeviceOption,
    /// Image file or block device; further devices of the volume, as with --device
    #[arg(required = true)]
    image: Vec<PathBuf>,
}

pub fn run(args: &Args) -> Result<()> {
    let device = image::open(&args.devices.after(&args.image)?, image::READ_ONLY)?;
    let sb = inspect::superblock(&*device)?;
    let Pack { cp, number, external_journal, .. } = inspect::checkpoint(&*device, &sb)?;
    let has_changes = image::has_journaled_changes(&device);
    let name = args.image.first().map(|path| path.display().to_string()).unwrap_or_default();
    let mut out = stdout();
    if args.json {
        let all = json!({
            "superblock": superblock(&sb),
            "records": records(&sb),
            "checkpoint": checkpoint(&cp, number),
            "usage": usage(&sb, &cp),
            "external_journal": external_journal,
            "journal_changes": has_changes,
            "unsupported": sb.check_support().err().map(|why| why.to_string()),
        });
        Schema("segno.info", 1).print(&mut out, &all)?;
    } else {
        print(&mut out, &sb, &cp, number)?;
        if external_journal {
            writeln!(
                out,
                "journal       external, and may have changes that are not counted here: `segno journal info --journal FILE {name}` \
                 lists them"
            )?;
        }
        if has_changes {
            writeln!(
                out,
                "journal       has changes that are not counted here: `segno journal info {name}` lists them"
            )?;
        }
    }
    Ok(())
}

/// Fields of the superblock.
pub fn superblock(sb: &Superblock) -> Value {
    let raw = &sb.raw;
    let extensions = |hot| sb.extensions(hot).iter().map(|e| text::field(e).0).collect::<Vec<_>>();
    let device = |d: &Device| {
        let mut map = Map::new();
        put_name(&mut map, "path", &d.path);
        map.insert("total_segments".into(), json!(d.total_segments));
        Value::Object(map)
    };
    let devices: Vec<Value> = sb.devices.iter().map(device).collect();
    json!({
        "magic": raw.magic.get(),
        "major_ver": raw.major_ver.get(),
        "minor_ver": raw.minor_ver.get(),
        "log_sectorsize": raw.log_sectorsize.get(),
        "log_sectors_per_block": raw.log_sectors_per_block.get(),
        "log_blocksize": raw.log_blocksize.get(),
        "log_blocks_per_seg": raw.log_blocks_per_seg.get(),
        "segs_per_sec": raw.segs_per_sec.get(),
        "secs_per_zone": raw.secs_per_zone.get(),
        "checksum_offset": raw.checksum_offset.get(),
        "block_count": raw.block_count.get(),
        "section_count": raw.section_count.get(),
        "segment_count": raw.segment_count.get(),
        "segment_count_ckpt": raw.segment_count_ckpt.get(),
        "segment_count_sit": raw.segment_count_sit.get(),
        "segment_count_nat": raw.segment_count_nat.get(),
        "segment_count_ssa": raw.segment_count_ssa.get(),
        "segment_count_main": raw.segment_count_main.get(),
        "segment0_blkaddr": raw.segment0_blkaddr.get(),
        "cp_blkaddr": raw.cp_blkaddr.get(),
        "sit_blkaddr": raw.sit_blkaddr.get(),
        "nat_blkaddr": raw.nat_blkaddr.get(),
        "ssa_blkaddr": raw.ssa_blkaddr.get(),
        "main_blkaddr": raw.main_blkaddr.get(),
        "root_ino": raw.root_ino.get(),
        "node_ino": raw.node_ino.get(),
        "meta_ino": raw.meta_ino.get(),
        "uuid": uuid_text(&raw.uuid),
        "volume_name": sb.label(),
        "extension_list": extensions(false),
        "hot_extension_list": extensions(true),
        "cp_payload": raw.cp_payload.get(),
        "version": version(&raw.version),
        "init_version": version(&raw.init_version),
        "feature": raw.feature.get(),
        "features": sb.features.names(),
        "devs": devices,
        "qf_ino": raw.qf_ino.map(|q| q.get()),
        "s_encoding": raw.s_encoding.get(),
        "s_encoding_flags": raw.s_encoding_flags.get(),
    })
}

/// Records of a stop or of damage that the volume carries.
fn records(sb: &Superblock) -> Value {
    let stops = sb.raw.stops();
    json!({
        "s_stop_reason": sb.raw.s_stop_reason,
        "s_errors": sb.raw.s_errors,
        "stops": stops.iter().map(|(why, n)| json!({ "reason": why, "count": n })).collect::<Vec<_>>(),
        "damage": sb.raw.damage(),
    })
}

/// Fields of the checkpoint, and its pack.
pub fn checkpoint(cp: &RawCheckpoint, pack: usize) -> Value {
    let flags: Vec<String> = cp.flags().iter_names().map(|(name, _)| name.to_ascii_lowercase()).collect();
    json!({
        "pack": pack,
        "checkpoint_ver": cp.checkpoint_ver.get(),
        "user_block_count": cp.user_block_count.get(),
        "valid_block_count": cp.valid_block_count.get(),
        "rsvd_segment_count": cp.rsvd_segment_count.get(),
        "overprov_segment_count": cp.overprov_segment_count.get(),
        "free_segment_count": cp.free_segment_count.get(),
        "cur_node_segno": cp.cur_node_segno.map(|n| n.get()),
        "cur_node_blkoff": cp.cur_node_blkoff.map(|n| n.get()),
        "cur_data_segno": cp.cur_data_segno.map(|n| n.get()),
        "cur_data_blkoff": cp.cur_data_blkoff.map(|n| n.get()),
        "ckpt_flags": cp.ckpt_flags.get(),
        "flags": flags,
        "cp_pack_total_block_count": cp.cp_pack_total_block_count.get(),
        "cp_pack_start_sum": cp.cp_pack_start_sum.get(),
        "valid_node_count": cp.valid_node_count.get(),
        "valid_inode_count": cp.valid_inode_count.get(),
        "next_free_nid": cp.next_free_nid.get(),
        "sit_ver_bitmap_bytesize": cp.sit_ver_bitmap_bytesize.get(),
        "nat_ver_bitmap_bytesize": cp.nat_ver_bitmap_bytesize.get(),
        "checksum_offset": cp.checksum_offset.get(),
        "elapsed_time": cp.elapsed_time.get(),
        "alloc_type": cp.alloc_type,
    })
}

pub fn usage(sb: &Superblock, cp: &RawCheckpoint) -> Value {
    let u = Usage::of(sb, cp);
    json!({
        "device_bytes": u.device,
        "user_bytes": u.user,
        "used_bytes": u.used,
        "free_bytes": u.user.saturating_sub(u.used),
        "utilization_percent": u.percent(),
        "inodes": cp.valid_inode_count.get(),
        "nodes": cp.valid_node_count.get(),
        "guarded_nodes": guarded(sb, cp).most_nodes().unwrap_or(cp.user_block_count.get()),
        "inodes_max": sb.geo.max_nid(),
        "segments": sb.geo.segment_count_main,
        "free_segments": cp.free_segment_count.get(),
        "clean_unmount": cp.flags().contains(CpFlags::UMOUNT),
    })
}

/// The number of nodes up to which cleaning always finds space.
pub fn guarded(sb: &Superblock, cp: &RawCheckpoint) -> Guarded {
    Extent {
        sections: sb.geo.section_count.into(),
        blocks_per_section: sb.geo.blocks_per_sec().into(),
        user_blocks: cp.user_block_count.get(),
    }
    .guarded()
}

fn print(out: &mut impl Write, sb: &Superblock, cp: &RawCheckpoint, pack: usize) -> Result<()> {
    let u = Usage::of(sb, cp);
    let label = text::name(sb.label().as_bytes());
    let features = sb.features.names();
    let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
    let state = if cp.flags().contains(CpFlags::UMOUNT) { "clean" } else { "not unmounted cleanly" };
    writeln!(out, "label         {}", or_none(label))?;
    writeln!(out, "uuid          {}", uuid_text(&sb.raw.uuid))?;
    writeln!(out, "features      {}", or_none(features.join(", ")))?;
    if let Err(why) = sb.check_support() {
        writeln!(out, "unsupported   {why}")?;
    }
    for d in &sb.devices {
        writeln!(out, "device        {} ({} segments)", text::name(&d.path), d.total_segments)?;
    }
    writeln!(
        out,
        "size          {} = {} segments of {}, {} a section, {} sections a zone",
        size::human(u.device),
        sb.geo.segment_count,
        size::human(u64::from(BLOCKS_PER_SEG) * BLOCK_SIZE as u64),
        sb.geo.segs_per_sec,
        sb.geo.secs_per_zone
    )?;
    writeln!(out, "used          {} of {} ({} %)", size::human(u.used), size::human(u.user), u.percent())?;
    writeln!(out, "inodes        {}, nodes {}", cp.valid_inode_count.get(), cp.valid_node_count.get())?;
    writeln!(
        out,
        "segments      {} free of {}, {} for overprovision, {} reserved",
        cp.free_segment_count.get(),
        sb.geo.segment_count_main,
        cp.overprov_segment_count.get(),
        cp.rsvd_segment_count.get()
    )?;
    if !sb.features.contains(Features::RO) {
        writeln!(out, "space         {}", show::guarded(guarded(sb, cp)))?;
    }
    for (why, n) in sb.raw.stops() {
        writeln!(out, "stopped       {n} times: {why}")?;
    }
    for kind in sb.raw.damage() {
        writeln!(out, "damage seen   {kind}")?;
    }
    Ok(writeln!(out, "checkpoint    version {:#x} in pack {pack}, {state}", cp.checkpoint_ver.get())?)
}

fn version(bytes: &[u8]) -> String {
    text::field(up_to_nul(bytes)).0.trim_end().to_owned()
}

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}
