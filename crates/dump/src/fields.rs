//! Fields of raw structures under their names.
use segno_format::checkpoint::RawCheckpoint;
use segno_format::inode::RawInode;
use segno_format::node::RawNodeFooter;
use segno_format::superblock::RawSuperblock;
use segno_format::{BlockAddr, Corrupt, text};
use serde_json::{Map, Value, json};

/// An object of the named fields of a structure.
macro_rules! fields {
    ($of:expr; $($field:ident),* $(,)?) => {{
        let mut map = Map::new();
        $(map.insert(stringify!($field).into(), json!($of.$field.get()));)*
        map
    }};
}

/// Puts a name under a key. If its bytes are not UTF-8, they are escaped, and `KEY_bytes` has them in hexadecimal.
pub fn put_name(map: &mut Map<String, Value>, key: &str, name: &[u8]) {
    let (text, hex) = text::field(name);
    map.insert(key.into(), json!(text));
    map.extend(hex.map(|hex| (format!("{key}_bytes"), json!(hex))));
}

pub(crate) fn superblock(sb: &RawSuperblock) -> Map<String, Value> {
    let mut map = fields!(sb;
        magic, major_ver, minor_ver, log_sectorsize, log_sectors_per_block, log_blocksize, log_blocks_per_seg,
        segs_per_sec, secs_per_zone, checksum_offset, block_count, section_count, segment_count, segment_count_ckpt,
        segment_count_sit, segment_count_nat, segment_count_ssa, segment_count_main, segment0_blkaddr, cp_blkaddr,
        sit_blkaddr, nat_blkaddr, ssa_blkaddr, main_blkaddr, root_ino, node_ino, meta_ino, extension_count, cp_payload,
        feature, s_encoding, s_encoding_flags, crc
    );
    map.insert("uuid".into(), json!(hex(&sb.uuid)));
    map.insert("volume_name".into(), json!(sb.label()));
    put_name(&mut map, "version", up_to_nul(&sb.version));
    put_name(&mut map, "init_version", up_to_nul(&sb.init_version));
    map.insert("hot_ext_count".into(), json!(sb.hot_ext_count));
    let features = segno_format::Features::from_bits_retain(sb.feature.get());
    map.insert("features".into(), json!(features.names()));
    map.insert("qf_ino".into(), json!(sb.qf_ino.map(|q| q.get())));
    let devs = sb.devs.iter().filter(|d| d.path.first() != Some(&0));
    let devs = devs.map(|d| {
        let mut dev = Map::new();
        put_name(&mut dev, "path", up_to_nul(&d.path));
        dev.insert("total_segments".into(), json!(d.total_segments.get()));
        Value::Object(dev)
    });
    map.insert("devs".into(), devs.collect());
    map.insert(
        "s_stop_reason".into(),
        sb.stops().into_iter().map(|(why, n)| json!({ "why": why, "count": n })).collect(),
    );
    map.insert("s_errors".into(), json!(sb.damage()));
    map
}

pub(crate) fn checkpoint(cp: &RawCheckpoint) -> Map<String, Value> {
    let mut map = fields!(cp;
        checkpoint_ver, user_block_count, valid_block_count, rsvd_segment_count, overprov_segment_count,
        free_segment_count, ckpt_flags, cp_pack_total_block_count, cp_pack_start_sum, valid_node_count,
        valid_inode_count, next_free_nid, sit_ver_bitmap_bytesize, nat_ver_bitmap_bytesize, checksum_offset,
        elapsed_time
    );
    let flags = cp.flags();
    let names: Vec<_> = flags.iter_names().map(|(name, _)| name).filter(|n| *n != "_").collect();
    map.insert("flags".into(), json!(names));
    map.insert("cur_node_segno".into(), json!(cp.cur_node_segno.map(|s| s.get())));
    map.insert("cur_node_blkoff".into(), json!(cp.cur_node_blkoff.map(|s| s.get())));
    map.insert("cur_data_segno".into(), json!(cp.cur_data_segno.map(|s| s.get())));
    map.insert("cur_data_blkoff".into(), json!(cp.cur_data_blkoff.map(|s| s.get())));
    map.insert("alloc_type".into(), json!(cp.alloc_type));
    map
}

pub(crate) fn footer(f: &RawNodeFooter) -> Map<String, Value> {
    let mut map = fields!(f; nid, ino, flag, cp_ver, next_blkaddr);
    map.insert("offset".into(), json!(f.node_offset()));
    map.insert("cold".into(), json!(f.is_cold()));
    map.insert("fsync".into(), json!(f.is_fsync()));
    map.insert("dent".into(), json!(f.is_dent()));
    map
}

pub(crate) fn inode(raw: &RawInode) -> Map<String, Value> {
    let mut map = fields!(raw;
        i_mode, i_uid, i_gid, i_links, i_size, i_blocks, i_atime, i_atime_nsec, i_ctime, i_ctime_nsec, i_mtime,
        i_mtime_nsec, i_generation, i_current_depth, i_xattr_nid, i_flags, i_pino, i_namelen
    );
    map.insert("i_advise".into(), json!(raw.i_advise));
    map.insert("i_inline".into(), json!(raw.i_inline));
    map.insert("i_dir_level".into(), json!(raw.i_dir_level));
    put_name(&mut map, "i_name", raw.name());
    let names =
        |list: Vec<&str>| list.into_iter().filter(|n| *n != "_").map(str::to_owned).collect::<Vec<_>>();
    map.insert("flags".into(), json!(names(raw.flags().iter_names().map(|(n, _)| n).collect())));
    map.insert("inline".into(), json!(names(raw.inline().iter_names().map(|(n, _)| n).collect())));
    map.insert("advise".into(), json!(names(raw.advise().iter_names().map(|(n, _)| n).collect())));
    map.insert("i_ext".into(), Value::Object(fields!(raw.i_ext; fofs, blk, len)));
    map.insert("i_nid".into(), json!(raw.i_nid.map(|n| n.get())));
    if raw.has_extra(4) {
        let e = raw.extra();
        let mut extra = fields!(e;
            i_extra_isize, i_inline_xattr_size, i_projid, i_inode_checksum, i_crtime, i_crtime_nsec, i_compr_blocks,
            i_compress_flag
        );
        extra.insert("i_compress_algorithm".into(), json!(e.i_compress_algorithm));
        extra.insert("i_log_cluster_size".into(), json!(e.i_log_cluster_size));
        map.insert("extra".into(), Value::Object(extra));
    }
    map
}

/// Slots as runs of consecutive addresses; empty ones are left out.
pub(crate) fn runs(slots: impl Iterator<Item = BlockAddr>) -> Value {
    let mut out: Vec<(u32, BlockAddr, u32)> = Vec::new();
    for (i, addr) in (0u32..).zip(slots) {
        match out.last_mut() {
            _ if addr == BlockAddr::NULL => {}
            Some((first, start, count))
                if *first + *count == i
                    && if addr.is_real() {
                        start.is_real() && start.offset(*count) == addr
                    } else {
                        *start == addr
                    } =>
            {
                *count += 1;
            }
            _ => out.push((i, addr, 1)),
        }
    }
    let each = |(slot, addr, count): (u32, BlockAddr, u32)| {
        let addr = if addr.is_real() { json!(addr.0) } else { json!(addr.to_string()) };
        json!({ "slot": slot, "addr": addr, "count": count })
    };
    out.into_iter().map(each).collect()
}

pub(crate) fn error(e: &Corrupt) -> Value {
    json!(e.to_string())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn up_to_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}
