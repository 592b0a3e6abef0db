//! The counters of a mount: groups, descriptions, and the metric that each is exported as. A row of [`table`] is the whole
//! of a counter here; the server only sends names and values.
pub mod slow;
mod snapshot;
mod table;

pub use slow::Slow;
pub use snapshot::{AMPLIFICATION, CounterSnapshot};
pub use table::GROUPS;

/// Counters that belong together.
pub struct Group {
    pub title: &'static str,
    pub counters: Vec<Counter>,
}

/// A counter, or a family of them whose names begin the same (then the name has a `*`).
pub struct Counter {
    pub name: String,
    pub kind: Kind,
    /// One sentence without a period; `{}` stands for the rest of the name in a family.
    pub help: String,
    /// The family that it is exported in.
    pub family: String,
    /// Its labels there, `name=value,…`; `{}` as in the help.
    pub labels: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows while the volume is mounted.
    Total,
    /// A value of the moment.
    Now,
}

/// A counter with its value.
pub struct Reading {
    pub name: String,
    pub value: u64,
    /// Its row, and the part of the name that `*` stands for; `None` if this program does not know the
    /// counter.
    pub row: Option<(&'static Counter, String)>,
}

/// All rows, in their order.
pub fn all() -> impl Iterator<Item = &'static Counter> {
    GROUPS.iter().flat_map(|g| &g.counters)
}

/// The groups in their order, each with its counters.
pub fn grouped(readings: &[Reading]) -> impl Iterator<Item = (&'static str, Vec<&Reading>)> {
    GROUPS.iter().map(|g| (g.title, readings.iter().filter(|r| r.is_of(g)).collect()))
}

impl Reading {
    fn new(name: &str, value: u64) -> Self {
        let row = all().find_map(|c| Some((c, c.rest_of(name)?.to_owned())));
        Self { name: name.to_owned(), value, row }
    }

    pub fn kind(&self) -> Option<Kind> {
        self.row.as_ref().map(|(c, _)| c.kind)
    }

    pub fn is_of(&self, group: &Group) -> bool {
        self.row.as_ref().is_some_and(|(row, _)| group.counters.iter().any(|c| c.name == row.name))
    }

    pub fn help(&self) -> String {
        self.row.as_ref().map(|(c, rest)| c.help.replace("{}", rest)).unwrap_or_default()
    }
}

/// Units of counters, and of families whose name has the second word: the first that fits gives the factor.
const UNITS: [(&str, &str, f64); 4] = [
    ("_ns", "_seconds", 1e-9),
    ("_ms", "_seconds", 1e-3),
    ("bytes", "_bytes", 1.0),
    // All others that become bytes count blocks.
    ("", "_bytes", segno_format::BLOCK_SIZE as f64),
];

impl Counter {
    /// The factor from its unit to that of its family.
    pub fn scale(&self) -> f64 {
        let fits =
            |(own, family, _): &&(&str, &str, f64)| self.name.contains(own) && self.family.contains(family);
        UNITS.iter().find(fits).map_or(1.0, |(.., factor)| *factor)
    }

    /// What `*` stands for if this row describes that name.
    fn rest_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        match self.name.split_once('*') {
            Some((start, end)) => name.strip_prefix(start)?.strip_suffix(end),
            None => (self.name == name).then_some(""),
        }
    }
}

/// The value of a counter; 0 if the server does not have it.
pub fn value(readings: &[Reading], name: &str) -> u64 {
    readings.iter().find(|r| r.name == name).map_or(0, |r| r.value)
}

/// The counters of blocks that a mount writes. Data blocks that cleaning moves are counted separately, node
/// blocks are not.
pub const WRITTEN: [&str; 5] = ["data_blocks", "gc_data_blocks", "dent_blocks", "node_blocks", "meta_blocks"];

/// Bytes written to the device for each byte that callers wrote.
pub fn write_amplification(readings: &[Reading]) -> Option<f64> {
    let user = value(readings, "user_bytes") as f64;
    let blocks: u64 = WRITTEN.iter().map(|name| value(readings, name)).sum();
    (user > 0.0).then(|| blocks as f64 * segno_format::BLOCK_SIZE as f64 / user)
}

#[cfg(test)]
pub fn sample(values: &[(&str, u64)]) -> Vec<Reading> {
    values.iter().map(|(name, value)| Reading::new(name, *value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::MemDevice;
    use segno_engine::{MountOptions, Volume};
    use segno_mkfs::{Member, MkfsOptions};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    /// A counter that is added to the engine needs a row.
    #[test]
    fn every_counter_of_the_engine_is_described() {
        let device = Arc::new(MemDevice::new(100 << 8));
        let member = Member { device: device.clone(), path: String::new(), zeroed: true };
        segno_mkfs::format(&[member], &MkfsOptions::default()).unwrap();
        let volume = Volume::mount(device, MountOptions { background: false, ..Default::default() }).unwrap();
        let readings: Vec<Reading> = volume.report().iter().map(|(n, v)| Reading::new(n, *v)).collect();
        let unknown: Vec<&str> =
            readings.iter().filter(|r| r.row.is_none()).map(|r| r.name.as_str()).collect();
        assert!(unknown.is_empty(), "no row for {unknown:?}");
        let met: BTreeSet<&str> =
            readings.iter().filter_map(|r| Some(r.row.as_ref()?.0.name.as_str())).collect();
        let rows = all().map(|c| c.name.as_str());
        // Those that the server and an object store add.
        let others = |n: &str| {
            n == "read_bytes" || ["fuse_", "op_", "store_"].iter().any(|start| n.starts_with(start))
        };
        let unmet: Vec<&str> = rows.filter(|n| !met.contains(n) && !others(n)).collect();
        assert!(unmet.is_empty(), "no counter for {unmet:?}");
    }

    #[cfg(feature = "store")]
    #[test]
    fn every_counter_of_an_object_store_is_described() {
        let readings: Vec<Reading> =
            segno_store::Stats::default().report().iter().map(|(n, v)| Reading::new(n, *v)).collect();
        let unknown: Vec<&str> =
            readings.iter().filter(|r| r.row.is_none()).map(|r| r.name.as_str()).collect();
        assert!(unknown.is_empty(), "no row for {unknown:?}");
        let met: BTreeSet<&str> =
            readings.iter().filter_map(|r| Some(r.row.as_ref()?.0.name.as_str())).collect();
        let unmet: Vec<&str> =
            all().map(|c| c.name.as_str()).filter(|n| n.starts_with("store_") && !met.contains(n)).collect();
        assert!(unmet.is_empty(), "no counter for {unmet:?}");
    }

    #[test]
    fn families_have_names() {
        let all = sample(&[("fuse_read", 3), ("fsync_flush_ns_p99", 7), ("user_bytes", 1), ("nonsense", 1)]);
        let rests: Vec<Option<&str>> =
            all.iter().map(|r| r.row.as_ref().map(|(_, rest)| rest.as_str())).collect();
        assert_eq!(rests, [Some("read"), Some("flush"), Some(""), None]);
        assert_eq!(all[0].help(), "requests of type read from the kernel");
    }

    #[test]
    fn amplification_counts_every_kind_of_block_once() {
        assert_eq!(write_amplification(&sample(&[])), None);
        let mut values: Vec<(&str, u64)> = WRITTEN.iter().map(|name| (*name, 2)).collect();
        values.extend([("user_bytes", 8192), ("gc_node_blocks", 100)]);
        assert_eq!(write_amplification(&sample(&values)), Some(5.0));
    }
}
