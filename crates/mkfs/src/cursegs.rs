//! Where the six logs start.
use segno_format::SegNo;
use segno_format::sit::LogType;

/// Start segment of each log, indexed by [`LogType`].
pub(crate) type CurSegs = [SegNo; 6];

/// One zone for each log. Node logs and hot data come first. Warm data starts in the middle and cold data at
/// a quarter of the main area, so that each has free zones after it.
pub(crate) fn spread(zones: u32, segs_per_zone: u32) -> CurSegs {
    let quarter = (zones / 4).saturating_sub(1).max(4);
    let half = (zones / 2).saturating_sub(1).max(quarter.saturating_add(1));
    let zone_of = |log| match log {
        LogType::HotNode => 0,
        LogType::WarmNode => 1,
        LogType::ColdNode => 2,
        LogType::HotData => 3,
        LogType::ColdData => quarter,
        LogType::WarmData => half,
    };
    LogType::ALL.map(|log| SegNo(zone_of(log).saturating_mul(segs_per_zone)))
}

/// A read-only volume has hot data and hot nodes only; the other logs are stored as segment 0.
pub(crate) fn read_only() -> CurSegs {
    LogType::ALL.map(|log| SegNo(u32::from(log == LogType::HotData)))
}
