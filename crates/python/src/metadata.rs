//! Attributes as numbers, which Python makes `os.stat_result` and the like of.
use pyo3::prelude::*;
use segno::{Metadata, Time};

/// `st_mode`, `st_ino`, `st_nlink`, `st_uid`, `st_gid`, `st_size`, `st_blocks`, device number, and atime, mtime, ctime and
/// birth time in nanoseconds.
#[derive(IntoPyObject)]
pub(crate) struct Stat(u32, u32, u32, u32, u32, u64, u64, (u32, u32), i128, i128, i128, Option<i128>);

impl From<Metadata> for Stat {
    fn from(m: Metadata) -> Self {
        Self(
            m.mode(),
            m.ino(),
            m.nlink(),
            m.uid(),
            m.gid(),
            m.len(),
            m.blocks(),
            m.device_number(),
            ns(m.accessed()),
            ns(m.modified()),
            ns(m.changed()),
            m.created().map(ns),
        )
    }
}

fn ns(t: Time) -> i128 {
    i128::from(t.secs) * 1_000_000_000 + i128::from(t.nsec)
}

/// A time from nanoseconds.
pub(crate) fn time(ns: i128) -> PyResult<Time> {
    let secs = i64::try_from(ns.div_euclid(1_000_000_000))?;
    Ok(Time { secs, nsec: u32::try_from(ns.rem_euclid(1_000_000_000))? })
}
