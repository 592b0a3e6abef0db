//! Times of requests: a histogram for each kind of operation, and the slowest requests of the last minute.
use crate::wire::Opcode;
use parking_lot::Mutex;
use segno_engine::stat::Histogram;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use strum::VariantNames;

/// A request belongs to the list of slowest ones for one to two of these.
const PERIOD: Duration = Duration::from_secs(30);
/// Length of that list.
const SLOWEST: usize = 8;

/// Kinds of operation that are reported separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantNames)]
#[strum(serialize_all = "lowercase")]
enum Kind {
    Read,
    Write,
    Fsync,
    Lookup,
    Getattr,
    Setattr,
    Create,
    Remove,
    Rename,
    List,
    Xattr,
    Other,
}

impl Kind {
    /// `None` for requests for which no program waits.
    fn of(opcode: Opcode) -> Option<Self> {
        Some(match opcode {
            Opcode::Read => Self::Read,
            Opcode::Write => Self::Write,
            Opcode::Fsync | Opcode::FsyncDir | Opcode::SyncFs => Self::Fsync,
            Opcode::Lookup => Self::Lookup,
            Opcode::GetAttr | Opcode::Statx | Opcode::ReadLink => Self::Getattr,
            Opcode::SetAttr => Self::Setattr,
            Opcode::Create
            | Opcode::Mknod
            | Opcode::Mkdir
            | Opcode::Symlink
            | Opcode::Link
            | Opcode::TmpFile => Self::Create,
            Opcode::Unlink | Opcode::Rmdir => Self::Remove,
            Opcode::Rename | Opcode::Rename2 => Self::Rename,
            Opcode::ReadDir | Opcode::ReadDirPlus => Self::List,
            Opcode::GetXattr | Opcode::SetXattr | Opcode::ListXattr | Opcode::RemoveXattr => Self::Xattr,
            Opcode::Forget
            | Opcode::BatchForget
            | Opcode::Interrupt
            | Opcode::Release
            | Opcode::ReleaseDir
            | Opcode::Init
            | Opcode::Destroy => return None,
            _ => Self::Other,
        })
    }
}

/// A request that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slow {
    pub opcode: Opcode,
    /// The inode that the request names.
    pub nodeid: u64,
    pub time: Duration,
    /// When it was answered.
    end: Instant,
}

impl Slow {
    /// Time since it was answered.
    pub(crate) fn age(&self) -> Duration {
        self.end.elapsed()
    }
}

/// Times since mount.
#[derive(Debug)]
pub(crate) struct Times {
    kinds: [Histogram; Kind::VARIANTS.len()],
    read_bytes: AtomicU64,
    mounted: Instant,
    /// Requests faster than this, in nanoseconds, are not in the list of this period.
    threshold: AtomicU64,
    /// End of this period, nanoseconds since `mounted`.
    period_end: AtomicU64,
    slowest: Mutex<Periods>,
}

/// The slowest requests of this period and of the one before, each list in falling order.
#[derive(Debug, Default)]
struct Periods {
    now: Vec<Slow>,
    before: Vec<Slow>,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            kinds: std::array::from_fn(|_| Histogram::default()),
            read_bytes: AtomicU64::new(0),
            mounted: Instant::now(),
            threshold: AtomicU64::new(0),
            period_end: AtomicU64::new(PERIOD.as_nanos() as u64),
            slowest: Mutex::default(),
        }
    }
}

impl Times {
    /// Adds a request that began at `begun` and whose reply has `len` bytes. The lock is taken for the slowest requests of
    /// a period only.
    pub(crate) fn record(&self, opcode: Opcode, nodeid: u64, begun: Instant, len: usize) {
        let Some(kind) = Kind::of(opcode) else { return };
        let end = Instant::now();
        let time = end.duration_since(begun);
        let ns = time.as_nanos() as u64;
        if let Some(times) = self.kinds.get(kind as usize) {
            times.record(ns);
        }
        if kind == Kind::Read {
            self.read_bytes.fetch_add(len as u64, Ordering::Relaxed);
        }
        let since_mount = end.duration_since(self.mounted).as_nanos() as u64;
        if ns > self.threshold.load(Ordering::Relaxed)
            || since_mount >= self.period_end.load(Ordering::Relaxed)
        {
            self.note(Slow { opcode, nodeid, time, end });
        }
    }

    /// Puts a request into its place.
    fn note(&self, slow: Slow) {
        let mut periods = self.slowest.lock();
        self.begin_period(&mut periods, slow.end);
        let place = periods.now.partition_point(|s| s.time >= slow.time);
        periods.now.insert(place, slow);
        periods.now.truncate(SLOWEST);
        let least = periods.now.get(SLOWEST - 1).map_or(0, |s| s.time.as_nanos() as u64);
        self.threshold.store(least, Ordering::Relaxed);
    }

    /// Begins a period if the last one is over; forgets both if this one is over, too.
    fn begin_period(&self, periods: &mut Periods, now: Instant) {
        let now = now.duration_since(self.mounted).as_nanos() as u64;
        let (end, length) = (self.period_end.load(Ordering::Relaxed), PERIOD.as_nanos() as u64);
        if now < end {
            return;
        }
        periods.before = std::mem::take(&mut periods.now);
        if now >= end + length {
            periods.before.clear();
        }
        self.threshold.store(0, Ordering::Relaxed);
        self.period_end.store(now + length, Ordering::Relaxed);
    }

    /// The slowest requests of the last 30 to 60 seconds, the slowest first.
    pub(crate) fn slowest(&self) -> Vec<Slow> {
        let mut periods = self.slowest.lock();
        self.begin_period(&mut periods, Instant::now());
        let mut all: Vec<Slow> = periods.now.iter().chain(&periods.before).copied().collect();
        drop(periods);
        all.sort_by_key(|s| std::cmp::Reverse(s.time));
        all.truncate(SLOWEST);
        all
    }

    /// Counters by name, of the kinds that have occurred.
    pub(crate) fn report(&self) -> Vec<(String, u64)> {
        let mut out = vec![("read_bytes".to_owned(), self.read_bytes.load(Ordering::Relaxed))];
        for (name, times) in Kind::VARIANTS.iter().zip(&self.kinds) {
            let times = times.recorded();
            if times.count() == 0 {
                continue;
            }
            let figures = [
                ("count", times.count()),
                ("ns_sum", times.sum()),
                ("ns_p50", times.quantile(0.5)),
                ("ns_p99", times.quantile(0.99)),
                ("ns_max", times.max()),
            ];
            out.extend(figures.map(|(figure, value)| (format!("op_{name}_{figure}"), value)));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(times: &Times, ms: u64, ino: u64, end: Duration) {
        let time = Duration::from_millis(ms);
        times.note(Slow { opcode: Opcode::Fsync, nodeid: ino, time, end: times.mounted + end });
    }

    #[test]
    fn requests_are_counted_by_kind() {
        let times = Times::default();
        let begun = Instant::now();
        times.record(Opcode::Read, 5, begun, 4096);
        times.record(Opcode::Read, 5, begun, 100);
        times.record(Opcode::Mkdir, 1, begun, 0);
        times.record(Opcode::Forget, 1, begun, 0);
        let report = times.report();
        let value = |name: &str| report.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
        assert_eq!(value("read_bytes"), Some(4196));
        assert_eq!((value("op_read_count"), value("op_create_count")), (Some(2), Some(1)));
        assert!(value("op_read_ns_p50") <= value("op_read_ns_p99"));
        assert!(value("op_read_ns_p99") <= value("op_read_ns_max"));
        assert_eq!((value("op_write_count"), report.len()), (None, 11));
    }

    #[test]
    fn every_kind_has_its_name() {
        let at = |opcode| Kind::of(opcode).map(|k| Kind::VARIANTS[k as usize]);
        assert_eq!(at(Opcode::Read), Some("read"));
        assert_eq!(at(Opcode::Rename2), Some("rename"));
        assert_eq!(at(Opcode::ListXattr), Some("xattr"));
        assert_eq!(at(Opcode::Fallocate), Some("other"));
        assert_eq!(at(Opcode::BatchForget), None);
    }

    #[test]
    fn the_slowest_requests_are_kept_for_a_while() {
        let times = Times::default();
        for i in 0..100 {
            slow(&times, 10 + (i * 37) % 100, i, Duration::from_secs(1));
        }
        let kept: Vec<u64> = times.slowest.lock().now.iter().map(|s| s.time.as_millis() as u64).collect();
        assert_eq!(kept, [109, 108, 107, 106, 105, 104, 103, 102]);
        assert_eq!(times.threshold.load(Ordering::Relaxed), 102_000_000);
        // The next period has a new list; the list of the last period is kept.
        slow(&times, 1, 1000, PERIOD + Duration::from_secs(1));
        assert_eq!(times.threshold.load(Ordering::Relaxed), 0);
        let lengths = |t: &Times| {
            let periods = t.slowest.lock();
            (periods.now.len(), periods.before.len())
        };
        assert_eq!(lengths(&times), (1, SLOWEST));
        slow(&times, 2, 1001, PERIOD * 10);
        assert_eq!(lengths(&times), (1, 0));
    }

    #[test]
    fn a_reader_gets_both_periods_in_order() {
        let times = Times::default();
        slow(&times, 5, 1, Duration::ZERO);
        slow(&times, 7, 2, Duration::ZERO);
        let inodes: Vec<u64> = times.slowest().iter().map(|s| s.nodeid).collect();
        assert_eq!(inodes, [2, 1]);
    }
}
