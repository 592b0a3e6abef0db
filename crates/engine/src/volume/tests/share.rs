//! Data logs that may open no section write to each other's.
use super::rig::Rig;
use crate::space::Space;
use segno_format::sit::LogType;
use segno_format::summary::RawSummary;
use segno_format::{Features, Nid};

fn owners(count: u64) -> Vec<RawSummary> {
    (0..count).map(|i| RawSummary::data(Nid(100), 0, (i % 900) as u16)).collect()
}

#[test]
fn a_data_log_opens_a_section_only_if_none_has_room_or_nodes_do_not_need_it() {
    let rig = Rig::new(Features::empty());
    let space = &rig.volume.space;
    let before = space.free_sections();
    let room = |space: &Space| space.log_room().data.iter().map(|left| left - 1).sum::<u64>();

    space.leave_to_nodes(before);
    let count = room(space);
    let placed = space.allocate(LogType::ColdData, &owners(count)).unwrap();
    assert_eq!((space.free_sections(), room(space)), (before, 0), "each log keeps a block");
    let segments: std::collections::BTreeSet<_> =
        placed.addrs.iter().map(|&addr| space.geo.seg_of(addr).unwrap().0).collect();
    assert!(segments.len() >= 3, "{segments:?}");

    let next = space.allocate(LogType::HotData, &owners(2)).unwrap();
    assert_eq!(space.free_sections(), before - 1, "no log has room");
    let left = room(space);
    space.leave_to_nodes(0);
    let rest = space.allocate(LogType::WarmData, &owners(1)).unwrap();
    assert_eq!((space.free_sections(), room(space) > left), (before - 2, true), "nodes need none");
    let opened = space.alloc.opened_sections().into_iter().filter(|(_, count)| *count > 0);
    let opened: Vec<_> = opened.collect();
    assert_eq!(opened, [("opened_sections_hot_data", 1), ("opened_sections_warm_data", 1)]);
    drop((placed, next, rest));
}

/// Data logs share their sections until the room is assessed again, regardless of queries meanwhile.
#[test]
fn a_query_does_not_change_what_data_logs_leave_to_nodes() {
    let rig = Rig::lfs(Features::empty());
    let (v, space) = (&rig.volume, &rig.volume.space);
    let before = space.free_sections();
    let left = || space.log_room().data.map(|left| left - 1);
    space.leave_to_nodes(before);
    assert!(v.files.room.figures().free_sections > 0 && v.statfs().bfree > 0 && !v.report().is_empty());
    assert!(!v.files.room.is_spent() && v.files.room.can_place() && v.files.room.spare_sections() > 0);
    let shared = space.allocate(LogType::ColdData, &owners(left().iter().sum())).unwrap();
    assert_eq!((space.free_sections(), left()), (before, [0; 3]), "logs share");
    assert!(!v.files.room.assess());
    let own = space.allocate(LogType::ColdData, &owners(1)).unwrap();
    assert_eq!(space.free_sections(), before - 1, "nodes need none");
    drop((shared, own));
}
