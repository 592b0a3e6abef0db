//! OpenMetrics, and the older text format of Prometheus. The encoder is our own: prometheus-client writes the first only, the
//! crate prometheus the second only, and both encode metrics that they count themselves; these come from another process.
use crate::counters::{self, Counter, Kind, Reading, Slow};
use segno_format::text;
use std::collections::BTreeMap;
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// OpenMetrics 1.0
    #[value(name = "openmetrics")]
    Openmetrics,
    /// Prometheus's text format 0.0.4, which promtool checks
    Prometheus,
}

impl Format {
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Openmetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A mount and its counters.
pub struct Source {
    pub volume: String,
    pub image: String,
    pub dir: String,
    pub readings: Vec<Reading>,
    pub slowest: Vec<Slow>,
}

/// Samples of one name and type.
pub struct Family {
    pub name: &'static str,
    pub kind: Type,
    help: &'static str,
    samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Counter,
    Gauge,
    Summary,
}

struct Sample {
    /// Behind the family's name, for count and sum of a summary.
    suffix: &'static str,
    labels: String,
    value: f64,
}

/// Descriptions of families that have several counters; the others have the description of their counter.
const SHARED: &[(&str, &str)] = &[
    ("segno_written_bytes", "Bytes written to the device by kind"),
    ("segno_volume_bytes", "Bytes of the volume: for users, and in use"),
    ("segno_opened_sections", "Free sections opened, by log, by streams, and for blocks that cleaning moved"),
    ("segno_gc_runs", "Runs of cleaning, in the foreground and in the background"),
    ("segno_gc_stall_blocks", "Blocks moved while an operation waited for cleaning, since mount"),
    ("segno_checkpoint_blocked_seconds", "Time that a checkpoint blocked operations, since mount"),
    ("segno_fsync_checkpoint_reasons", "Fsyncs that took a checkpoint, by reason"),
    ("segno_fsync_nodes", "Nodes that fsync searched and wrote"),
    ("segno_fsync_phase_seconds", "Time of the phases of fsync, since mount"),
    ("segno_fsync_phase_seconds_mean", "Mean time of the phases of fsync, since mount"),
    ("segno_fsync_phase_seconds_max", "Longest time of the phases of fsync, since mount"),
    ("segno_journal_commit_seconds", "Time of a commit of the journal, since mount"),
    ("segno_journal_step_seconds", "Time that commits of the journal spent in each step"),
    ("segno_cached", "Objects in memory by kind"),
    ("segno_dirty_bytes", "Bytes that wait to be written, by kind"),
    ("segno_streams", "Streams in use by kind"),
    ("segno_stream_claims", "Claims of sections by streams, by outcome"),
    ("segno_operation_seconds", "Time to answer requests by kind of operation, since mount"),
    ("segno_operation_seconds_max", "Longest time to answer a request by kind of operation, since mount"),
    ("segno_store_requests", "Requests to the object store by cause and kind"),
    ("segno_store_put_bytes", "Bytes sent to the object store by cause"),
    ("segno_store_got_bytes", "Bytes received from the object store by cause"),
    ("segno_store_retries", "Requests to the object store that failed and were repeated, by cause"),
    ("segno_store_cache_reads", "Pieces asked of the local cache of an object store, by result"),
    ("segno_store_cache_errors", "Objects that the local cache of an object store could not take"),
    ("segno_store_cache_pending_objects", "Objects that are in the local cache and not in the object store"),
    (
        "segno_store_cache_pending_bytes",
        "Bytes of objects that are in the local cache and not in the object store",
    ),
    ("segno_requests", "Requests from the kernel by operation"),
];

impl Family {
    /// All families that have a sample, in the order of the table.
    pub fn of(sources: &[Source]) -> Vec<Self> {
        let mut all = vec![Self::build(), Self::info(sources)];
        for counter in counters::all() {
            let samples: Vec<Sample> = sources.iter().flat_map(|s| samples(s, counter)).collect();
            if samples.is_empty() {
                continue;
            }
            let (name, _) = split(&counter.family);
            match all.iter_mut().find(|f| f.name == name) {
                Some(family) => family.samples.extend(samples),
                None => all.push(Self::new(name, counter, samples)),
            }
        }
        all.extend(Self::slowest(sources));
        for family in &mut all {
            // The samples of a mount stand together, as OpenMetrics demands of a summary.
            family.samples.sort_by(|a, b| a.labels.cmp(&b.labels));
        }
        all
    }

    fn new(name: &'static str, counter: &'static Counter, samples: Vec<Sample>) -> Self {
        let shared = SHARED.iter().find(|(family, _)| *family == name);
        let is_summary = counters::all().any(|c| c.family == name && c.labels.contains("quantile="));
        let kind = match counter.kind {
            _ if is_summary => Type::Summary,
            Kind::Total => Type::Counter,
            Kind::Now => Type::Gauge,
        };
        Self { name, kind, help: shared.map_or(&*counter.help, |(_, help)| help), samples }
    }

    /// A family that no row of the table describes.
    fn gauge(name: &'static str, help: &'static str, samples: impl Iterator<Item = (String, f64)>) -> Self {
        let samples = samples.map(|(labels, value)| Sample { suffix: "", labels, value }).collect();
        Self { name, kind: Type::Gauge, help, samples }
    }

    fn build() -> Self {
        let version = (label("version", crate::command_line::VERSION), 1.0);
        Self::gauge("segno_build_info", "Version of the exporter", [version].into_iter())
    }

    /// By operation: with inodes as labels a collector would keep a series for each file.
    fn slowest(sources: &[Source]) -> Option<Self> {
        let mut longest: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (source, s) in sources.iter().flat_map(|source| source.slowest.iter().map(move |s| (source, s))) {
            let ns = longest.entry((&source.volume, &s.op)).or_default();
            *ns = s.ns.max(*ns);
        }
        let samples = longest.into_iter().map(|((volume, op), ns)| {
            (format!("{},{}", label("volume", volume), label("operation", op)), ns as f64 * 1e-9)
        });
        let help = "Slowest requests of the last minute: the longest time by operation";
        (samples.len() > 0).then(|| Self::gauge("segno_slowest_request_seconds", help, samples))
    }

    fn info(sources: &[Source]) -> Self {
        let labels =
            |s: &Source| [label("volume", &s.volume), label("image", &s.image), label("dir", &s.dir)];
        let samples = sources.iter().map(|s| (labels(s).join(","), 1.0));
        Self::gauge("segno_mount_info", "Image and directory of a mount", samples)
    }
}

fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", escape(value))
}

/// Name of the family, and the suffix of its samples.
fn split(family: &'static str) -> (&'static str, &'static str) {
    let suffix = ["_count", "_sum"].into_iter().find(|suffix| family.ends_with(suffix)).unwrap_or_default();
    (family.strip_suffix(suffix).unwrap_or(family), suffix)
}

fn samples(source: &Source, counter: &'static Counter) -> Vec<Sample> {
    let of_row = source.readings.iter().filter_map(|r| {
        let (row, rest) = r.row.as_ref()?;
        (row.name == counter.name).then_some((r, rest))
    });
    let (_, suffix) = split(&counter.family);
    let one = |(r, rest): (&Reading, &String)| {
        let own = counter.labels.split(',').filter_map(|label| label.split_once('='));
        let own = own.map(|(name, value)| format!(",{}", label(name, &value.replace("{}", rest))));
        let labels = label("volume", &source.volume) + &own.collect::<String>();
        Sample { suffix, labels, value: r.value as f64 * counter.scale() }
    };
    of_row.map(one).collect()
}

fn escape(text: &str) -> String {
    text::lines(text.as_bytes()).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

pub fn render(families: &[Family], format: Format) -> String {
    let mut out = String::new();
    for f in families {
        let (total, kind) = match f.kind {
            Type::Counter => ("_total", "counter"),
            Type::Gauge => ("", "gauge"),
            Type::Summary => ("", "summary"),
        };
        // OpenMetrics names the family of a counter without the suffix of its samples.
        let name = match format {
            Format::Openmetrics => f.name.to_owned(),
            Format::Prometheus => format!("{}{total}", f.name),
        };
        let mut help = f.help.to_owned();
        if let Some(first) = help.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        // Writing to a string does not fail.
        let _ = writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {}", escape(&help));
        for s in &f.samples {
            let _infallible = writeln!(out, "{}{total}{}{{{}}} {}", f.name, s.suffix, s.labels, s.value);
        }
    }
    if format == Format::Openmetrics {
        out += "# EOF\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::sample;
    use std::collections::BTreeSet;

    fn sources() -> Vec<Source> {
        let readings = sample(&[
            ("user_bytes", 10),
            ("data_blocks", 2),
            ("node_blocks", 3),
            ("checkpoint_ns", 1_500_000_000),
            ("fsync_flush_count", 4),
            ("fsync_flush_ns_p50", 2_000_000),
            ("fsync_flush_ns_p99", 3_000_000),
            ("fuse_read", 7),
            ("op_read_count", 7),
            ("op_read_ns_sum", 14_000_000),
            ("op_read_ns_p99", 3_000_000),
            ("stopped", 0),
            ("of_the_future", 1),
        ]);
        let slow = |op: &str, ns| Slow { op: op.into(), ino: 5, ns, age_ms: 0 };
        let slowest = vec![slow("read", 2_000_000_000), slow("fsync", 5), slow("read", 9)];
        vec![Source { volume: "id".into(), image: "a\"b\\".into(), dir: "/m".into(), readings, slowest }]
    }

    #[test]
    fn counters_become_metrics() {
        let text = render(&Family::of(&sources()), Format::Openmetrics);
        for line in [
            "segno_mount_info{volume=\"id\",image=\"a\\\"b\\\\\",dir=\"/m\"} 1",
            "# TYPE segno_written_bytes counter",
            "segno_written_bytes_total{volume=\"id\",kind=\"data\"} 8192",
            "segno_written_bytes_total{volume=\"id\",kind=\"node\"} 12288",
            "segno_checkpoint_seconds_total{volume=\"id\"} 1.5",
            "# TYPE segno_fsync_phase_seconds summary",
            "segno_fsync_phase_seconds{volume=\"id\",phase=\"flush\",quantile=\"0.99\"} 0.003",
            "segno_fsync_phase_seconds_count{volume=\"id\",phase=\"flush\"} 4",
            "segno_requests_total{volume=\"id\",operation=\"read\"} 7",
            "# TYPE segno_operation_seconds summary",
            "segno_operation_seconds_count{volume=\"id\",operation=\"read\"} 7",
            "segno_operation_seconds_sum{volume=\"id\",operation=\"read\"} 0.014",
            "segno_operation_seconds{volume=\"id\",operation=\"read\",quantile=\"0.99\"} 0.003",
            "segno_slowest_request_seconds{volume=\"id\",operation=\"read\"} 2",
            "segno_stopped{volume=\"id\"} 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n") && !text.contains("future"));
        let text = render(&Family::of(&sources()), Format::Prometheus);
        assert!(
            text.contains("# TYPE segno_written_bytes_total counter\n") && !text.contains("EOF"),
            "{text}"
        );
    }

    #[test]
    fn shared_descriptions_are_used() {
        let families: BTreeSet<&str> = counters::all().map(|c| c.family.as_str()).collect();
        for (family, _) in SHARED {
            assert!(families.contains(family), "{family}");
        }
        let several = |f: &str| counters::all().filter(|c| c.family == f).count() > 1;
        for family in families {
            assert!(
                !several(family) || SHARED.iter().any(|(f, _)| *f == family),
                "{family} needs a description"
            );
        }
    }

    /// Families that counters of different kinds share would have two types.
    #[test]
    fn a_family_has_one_type() {
        for a in counters::all() {
            for b in counters::all().filter(|b| b.family == a.family) {
                assert_eq!(a.kind, b.kind, "{} and {}", a.name, b.name);
            }
        }
    }
}
