//! What a checkpoint block cannot say, and what is said of it.
use super::volume;
use segno_device::BlockDevice;
use segno_format::checkpoint::{CpFlags, LogPosition, RawCheckpoint};
use segno_format::sit::LogType;
use segno_format::{Geometry, SegNo};
use segno_layout::{Packs, check_checkpoint};

fn moved(cp: &mut RawCheckpoint, change: impl FnOnce(&mut LogPosition)) {
    let mut position = cp.position(LogType::WarmNode);
    change(&mut position);
    cp.set_position(&position);
}

#[test]
fn every_field_that_a_mount_depends_on_is_judged() {
    let cases: [(&str, fn(&mut RawCheckpoint, &Geometry)); 19] = [
        ("reserved segments", |cp, geo| cp.rsvd_segment_count.set(geo.segment_count)),
        ("reserved segments", |cp, _| cp.rsvd_segment_count.set(u32::MAX)),
        ("reserved or overprovision segments are 0", |cp, _| cp.rsvd_segment_count.set(0)),
        ("reserved or overprovision segments are 0", |cp, _| cp.overprov_segment_count.set(0)),
        ("user_block_count", |cp, _| cp.user_block_count.set(0)),
        ("user_block_count", |cp, geo| cp.user_block_count.set(geo.main_blocks())),
        ("valid_block_count", |cp, _| cp.valid_block_count.set(cp.user_block_count.get() + 1)),
        ("valid_node_count", |cp, geo| cp.valid_node_count.set(geo.max_nid() - 2)),
        ("segment of a log", |cp, geo| moved(cp, |p| p.seg = SegNo(geo.segment_count_main))),
        ("segment of a log", |cp, _| moved(cp, |p| p.seg = SegNo::NONE)),
        ("offset of a log", |cp, _| moved(cp, |p| p.blkoff = 512)),
        ("two logs in one segment", |cp, _| {
            let seg = cp.position(LogType::HotData).seg;
            moved(cp, |p| p.seg = seg);
        }),
        ("alloc_type", |cp, _| moved(cp, |p| p.alloc_type = 2)),
        ("sit_ver_bitmap_bytesize", |cp, _| cp.sit_ver_bitmap_bytesize += 1),
        ("nat_ver_bitmap_bytesize", |cp, _| cp.nat_ver_bitmap_bytesize.set(0)),
        ("cp_pack_start_sum", |cp, _| cp.cp_pack_start_sum.set(0)),
        ("cp_pack_start_sum", |cp, _| cp.cp_pack_start_sum.set(506)),
        ("checksum offset of the large_nat_bitmap layout", |cp, _| {
            cp.ckpt_flags.set((cp.flags() | CpFlags::LARGE_NAT_BITMAP).bits());
        }),
        ("the volume stopped on an error; run a check first", |cp, _| {
            cp.ckpt_flags.set((cp.flags() | CpFlags::ERROR).bits());
        }),
    ];
    let (device, sb) = volume(false);
    let pack = Packs::load(&*device as &dyn BlockDevice, &sb.geo).unwrap().in_force().unwrap();
    check_checkpoint(pack.cp(), &sb.geo, pack.start).unwrap();
    for (why, change) in cases {
        let mut block = pack.header().clone();
        change(block.view_mut(), &sb.geo);
        let damage = check_checkpoint(block.view(), &sb.geo, pack.start).unwrap_err();
        assert_eq!((damage.why, damage.at), (why, u64::from(pack.start.0)), "{why}");
    }
}
