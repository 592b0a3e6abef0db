//! The lines above the table: the figures that matter most, in units that are easily read.
use crate::counters::{self, Moment, slow};
use crate::size;
use segno_format::BLOCK_SIZE;

/// Name, figures, and what they are.
pub struct Line {
    pub name: &'static str,
    pub text: String,
    pub help: &'static str,
}

/// Values and rates by name.
struct Figures<'a> {
    now: &'a Moment,
    rates: Vec<(&'a str, f64)>,
}

impl Figures<'_> {
    fn value(&self, name: &str) -> u64 {
        counters::value(&self.now.readings, name)
    }

    fn rate(&self, name: &str) -> f64 {
        self.rates.iter().find(|(n, _)| *n == name).map_or(0.0, |(_, rate)| *rate)
    }

    fn bytes(&self, blocks: &str) -> String {
        size::human(self.value(blocks).saturating_mul(BLOCK_SIZE as u64))
    }

    fn ms(&self, name: &str) -> f64 {
        self.value(name) as f64 / 1e6
    }

    /// Median and 99th percentile of the time of each kind, in milliseconds.
    fn latencies(&self, kinds: &[&str]) -> String {
        let of = |kind: &&str| {
            let ms = |figure| short(self.ms(&format!("op_{kind}_ns_{figure}")));
            format!("{kind} {}/{}", ms("p50"), ms("p99"))
        };
        kinds.iter().map(of).collect::<Vec<_>>().join(", ")
    }

    fn requests(&self) -> f64 {
        sum(self.rates.iter().filter(|(n, _)| n.starts_with("fuse_")).map(|(_, rate)| *rate))
    }

    /// Bytes a second to the device, as write amplification counts them.
    fn device_rate(&self) -> f64 {
        counters::WRITTEN.iter().map(|name| self.rate(name)).sum::<f64>() * BLOCK_SIZE as f64
    }
}

/// All lines.
pub fn lines(now: &Moment, earlier: Option<&Moment>) -> Vec<Line> {
    let f = Figures { now, rates: earlier.map(|e| now.rates(e)).unwrap_or_default() };
    vec![
        requests(&f),
        data_latency(&f),
        name_latency(&f),
        slowest(&f),
        bytes(&f),
        space(&f),
        opened(&f),
        checkpoints(&f),
        fsync(&f),
        journal(&f),
        writeback(&f),
        cleaning(&f),
        cache(&f),
    ]
}

/// The sum of nothing is -0.0 in Rust, and would be shown so.
fn sum(rates: impl Iterator<Item = f64>) -> f64 {
    rates.fold(0.0, |all, rate| all + rate)
}

fn per_second(bytes: f64) -> String {
    format!("{}/s", size::human(bytes as u64))
}

/// Three digits.
fn short(ms: f64) -> String {
    let digits = if ms < 10.0 { 2 } else { usize::from(ms < 100.0) };
    format!("{ms:.digits$}")
}

fn requests(f: &Figures<'_>) -> Line {
    let of = |name| f.rate(name);
    Line {
        name: "requests",
        text: format!(
            "{:.0}/s: lookup {:.0}, read {:.0}, write {:.0}, create {:.0}, unlink {:.0}",
            f.requests(),
            of("fuse_lookup"),
            of("fuse_read"),
            of("fuse_write"),
            of("fuse_create"),
            of("fuse_unlink")
        ),
        help: "requests from the kernel, and some kinds of them; what the kernel has cached does not arrive here",
    }
}

fn data_latency(f: &Figures<'_>) -> Line {
    Line {
        name: "latency",
        text: format!("{} ms (p50/p99)", f.latencies(&["read", "write", "fsync"])),
        help: "time to answer requests for data since mount, in milliseconds: the median, and the time that 99 of 100 stay below",
    }
}

fn name_latency(f: &Figures<'_>) -> Line {
    Line {
        name: "of names",
        text: f.latencies(&["lookup", "create", "remove", "list"]),
        help: "the same for names: lookup, creation of files, directories and links, removal, and listing of directories",
    }
}

fn slowest(f: &Figures<'_>) -> Line {
    let all: Vec<String> = f.now.slowest.iter().map(slow::Slow::text).collect();
    let text = if all.is_empty() { "-".to_owned() } else { all.join("; ") };
    Line { name: "slowest", text, help: slow::HELP }
}

fn bytes(f: &Figures<'_>) -> Line {
    let waf = counters::write_amplification(&f.now.readings);
    let waf = waf.map_or_else(|| "-".to_owned(), |waf| format!("{waf:.3}"));
    Line {
        name: "bytes",
        text: format!(
            "in {}, device {}, amplification {waf}, out {}",
            per_second(f.rate("user_bytes")),
            per_second(f.device_rate()),
            per_second(f.rate("read_bytes"))
        ),
        help: "bytes from programs, bytes to the device (data, directories, nodes, metadata, moved data), the bytes written to \
               the device for each byte from programs since mount, and bytes read for programs",
    }
}

fn space(f: &Figures<'_>) -> Line {
    let used = f.value("valid_block_count").saturating_mul(100);
    let percent = used.checked_div(f.value("user_block_count")).unwrap_or(0);
    Line {
        name: "space",
        text: format!(
            "{} of {} ({percent} %), free sections {}, prefree segments {}",
            f.bytes("valid_block_count"),
            f.bytes("user_block_count"),
            f.value("free_sections"),
            f.value("prefree_segments")
        ),
        help: "what is in use of the space for files; sections that logs can open; segments that the next checkpoint frees",
    }
}

fn opened(f: &Figures<'_>) -> Line {
    let of = |by: &str| f.value(&format!("opened_sections_{by}"));
    let logs =
        |class: &str| ["hot", "warm", "cold"].map(|log| of(&format!("{log}_{class}")).to_string()).join("/");
    let all = f.rates.iter().filter(|(name, _)| name.starts_with("opened_sections_"));
    Line {
        name: "opened",
        text: format!(
            "{:.1}/s, sections for data {}, nodes {}, streams {}, cleaning {}",
            sum(all.map(|(_, rate)| *rate)),
            logs("data"),
            logs("node"),
            of("stream"),
            of("cleaning")
        ),
        help: "free sections that were opened, all a second, and since mount by the hot, warm and cold logs of data and of nodes, by \
               streams, and by data logs for blocks that cleaning moved; nodes that it moves count for the logs of nodes",
    }
}

fn checkpoints(f: &Figures<'_>) -> Line {
    Line {
        name: "checkpoints",
        text: format!(
            "{} ({:.1}/s), blocked p50 {:.1} p99 {:.1} max {:.1} ms",
            f.value("checkpoints"),
            f.rate("checkpoints"),
            f.ms("checkpoint_blocked_ns_p50"),
            f.ms("checkpoint_blocked_ns_p99"),
            f.ms("checkpoint_blocked_ns_max")
        ),
        help: "checkpoints since mount, and how long they blocked operations",
    }
}

fn fsync(f: &Figures<'_>) -> Line {
    let phase = |name: &str| {
        let of = |what: &str| f.ms(&format!("fsync_{name}_ns_{what}"));
        format!("p50 {:.1} p99 {:.1} ms", of("p50"), of("p99"))
    };
    Line {
        name: "fsync",
        text: format!("{:.0}/s, {}, flush {}", f.rate("fsyncs"), phase("total"), phase("flush")),
        help: "calls of fsync and fdatasync, how long they took, and how long flushing the device's cache took of that",
    }
}

fn journal(f: &Figures<'_>) -> Line {
    Line {
        name: "journal",
        text: format!(
            "in use {}, {} commits ({:.1}/s), commit p50 {:.1} p99 {:.1} ms",
            size::human(f.value("journal_bytes_used")),
            f.value("journal_commits"),
            f.rate("journal_commits"),
            f.ms("journal_commit_ns_p50"),
            f.ms("journal_commit_ns_p99")
        ),
        help: "bytes of the metadata journal that the next checkpoint frees, epochs committed, and how long that took; zeros without \
               a journal",
    }
}

fn writeback(f: &Figures<'_>) -> Line {
    Line {
        name: "writeback",
        text: format!(
            "dirty {}, contexts {}, threads {}, streams {}+{}, delayed {:.1}/s",
            f.bytes("dirty_data_pages"),
            f.value("writeback_contexts"),
            f.value("writeback_threads"),
            f.value("streams_shared"),
            f.value("streams_exclusive"),
            f.rate("throttle_pauses")
        ),
        help: "data that waits to be written, files that are written in parallel, threads that do it, streams of several files and \
               of one, and how often writers were delayed",
    }
}

fn cleaning(f: &Figures<'_>) -> Line {
    Line {
        name: "cleaning",
        text: format!(
            "{} sections ({:.1}/s), moved {}, stalls {}, by operations {}",
            f.value("gc_sections"),
            f.rate("gc_sections"),
            f.bytes("gc_data_blocks"),
            f.value("gc_stalls"),
            f.value("gc_foreground")
        ),
        help: "sections that cleaning emptied, data that it moved, operations that waited for it, and times that one had to clean \
               itself",
    }
}

fn cache(f: &Figures<'_>) -> Line {
    Line {
        name: "cache",
        text: format!(
            "{}: {} inodes, {} nodes, {} pages",
            size::human(f.value("cache_bytes")),
            f.value("cached_inodes"),
            f.value("cached_nodes"),
            f.value("cached_pages")
        ),
        help: "memory of all cached data and metadata, which cache= limits, and what is in it",
    }
}
