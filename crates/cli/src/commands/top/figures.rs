//! The lines above the table: the figures that matter most, in units that are easily read.
use crate::counters::{self, CounterSnapshot, slow};
use segno_format::BLOCK_SIZE;
use segno_format::size;

/// A line: name, figures, and their description.
pub struct Line {
    pub name: &'static str,
    pub text: String,
    pub help: &'static str,
}

/// Names of lines, their figures and descriptions. A counter in braces stands for its value, with a unit for
/// a figure that [`Figures::of`] makes of it; `*` stands for all counters with that prefix.
const LINES: [(&str, &str, &str); 13] = [
    (
        "requests",
        "{fuse_* /s}: lookup {fuse_lookup Hz}, read {fuse_read Hz}, write {fuse_write Hz}, create {fuse_create Hz}, \
         unlink {fuse_unlink Hz}",
        "requests from the kernel, and some kinds of them; what the kernel has cached does not arrive here",
    ),
    (
        "latency",
        "read {op_read_ns p}, write {op_write_ns p}, fsync {op_fsync_ns p} ms (p50/p99)",
        "time to answer requests for data since mount, in milliseconds: the median, and the time that 99 of 100 stay below",
    ),
    (
        "of names",
        "lookup {op_lookup_ns p}, create {op_create_ns p}, remove {op_remove_ns p}, list {op_list_ns p}",
        "the same for names: lookup, creation of files, directories and links, removal, and listing of directories",
    ),
    ("slowest", "{slowest}", slow::HELP),
    (
        "bytes",
        "in {user_bytes B/s}, device {written B/s}, amplification {amplification}, out {read_bytes B/s}",
        "bytes from programs, bytes to the device (data, directories, nodes, metadata, moved data), the bytes written to \
         the device for each byte from programs since mount, and bytes read for programs",
    ),
    (
        "space",
        "{valid_block_count blocks} of {user_block_count blocks} ({used %}), free sections {free_sections}, \
         prefree segments {prefree_segments}",
        "what is in use of the space for files; sections that logs can open; segments that the next checkpoint frees",
    ),
    (
        "opened",
        "{opened_sections_* .1/s}, sections for data {data logs}, nodes {node logs}, streams {opened_sections_stream}, \
         cleaning {opened_sections_cleaning}",
        "free sections that were opened, all a second, and since mount by the hot, warm and cold logs of data and of nodes, by \
         streams, and by data logs for blocks that cleaning moved; nodes that it moves count for the logs of nodes",
    ),
    (
        "checkpoints",
        "{checkpoints} ({checkpoints .1/s}), blocked p50 {checkpoint_blocked_ns_p50 ms} p99 {checkpoint_blocked_ns_p99 ms} \
         max {checkpoint_blocked_ns_max ms} ms",
        "checkpoints since mount, and how long they blocked operations",
    ),
    (
        "fsync",
        "{fsyncs /s}, p50 {fsync_total_ns_p50 ms} p99 {fsync_total_ns_p99 ms} ms, flush p50 {fsync_flush_ns_p50 ms} p99 \
         {fsync_flush_ns_p99 ms} ms",
        "calls of fsync and fdatasync, how long they took, and how long flushing the device's cache took of that",
    ),
    (
        "journal",
        "in use {journal_bytes_used B}, {journal_commits} commits ({journal_commits .1/s}), commit p50 \
         {journal_commit_ns_p50 ms} p99 {journal_commit_ns_p99 ms} ms",
        "bytes of the metadata journal that the next checkpoint frees, epochs committed, and how long that took; zeros without \
         a journal",
    ),
    (
        "writeback",
        "dirty {dirty_data_pages blocks}, contexts {writeback_contexts}, threads {writeback_threads}, streams \
         {streams_shared}+{streams_exclusive}, delayed {throttle_pauses .1/s}",
        "data that waits to be written, files that are written in parallel, threads that do it, streams of several files and \
         of one, and how often writers were delayed",
    ),
    (
        "cleaning",
        "{gc_sections} sections ({gc_sections .1/s}), moved {gc_data_blocks blocks}, stalls {gc_stalls}, by operations \
         {gc_foreground}",
        "sections that cleaning emptied, data that it moved, operations that waited for it, and times that one had to clean \
         itself",
    ),
    (
        "cache",
        "{cache_bytes B}: {cached_inodes} inodes, {cached_nodes} nodes, {cached_pages} pages",
        "memory of all cached data and metadata, which cache= limits, and what is in it",
    ),
];

/// All lines.
pub fn lines(now: &CounterSnapshot, earlier: Option<&CounterSnapshot>) -> Vec<Line> {
    let figures = Figures { now, earlier };
    // The parts between braces are every other part.
    let part = |(i, part): (usize, &str)| if i % 2 == 0 { part.to_owned() } else { figures.of(part) };
    let text = |template: &str| template.split(['{', '}']).enumerate().map(part).collect();
    LINES.into_iter().map(|(name, template, help)| Line { name, text: text(template), help }).collect()
}

/// Values and rates by name.
struct Figures<'a> {
    now: &'a CounterSnapshot,
    earlier: Option<&'a CounterSnapshot>,
}

impl Figures<'_> {
    /// A counter with its unit, or a figure of several.
    fn of(&self, figure: &str) -> String {
        let (name, unit) = figure.split_once(' ').unwrap_or((figure, ""));
        let bytes = |blocks: u64| blocks.saturating_mul(BLOCK_SIZE as u64);
        match (name, unit) {
            ("slowest", _) if self.now.slowest.is_empty() => "-".to_owned(),
            ("slowest", _) => self.now.slowest.iter().map(slow::Slow::text).collect::<Vec<_>>().join("; "),
            ("amplification", _) => counters::write_amplification(&self.now.readings)
                .map_or_else(|| "-".to_owned(), |waf| format!("{waf:.3}")),
            ("used", _) => {
                let used = self.value("valid_block_count").saturating_mul(100);
                format!("{} %", used.checked_div(self.value("user_block_count")).unwrap_or(0))
            }
            // As write amplification counts them.
            ("written", _) => {
                let blocks = sum(counters::WRITTEN.iter().map(|name| self.rate(name)));
                format!("{}/s", size::human((blocks * BLOCK_SIZE as f64) as u64))
            }
            (class, "logs") => {
                let of = |log| self.value(&format!("opened_sections_{log}_{class}")).to_string();
                ["hot", "warm", "cold"].map(of).join("/")
            }
            (ns, "p") => ["p50", "p99"]
                .map(|figure| short(self.value(&format!("{ns}_{figure}")) as f64 / 1e6))
                .join("/"),
            (_, "ms") => format!("{:.1}", self.value(name) as f64 / 1e6),
            (_, "B") => size::human(self.value(name)),
            (_, "blocks") => size::human(bytes(self.value(name))),
            (_, "B/s") => format!("{}/s", size::human(self.rate(name) as u64)),
            (_, "Hz") => format!("{:.0}", self.rate(name)),
            (_, "/s") => format!("{:.0}/s", self.rate(name)),
            (_, ".1/s") => format!("{:.1}/s", self.rate(name)),
            _ => self.value(name).to_string(),
        }
    }

    fn value(&self, name: &str) -> u64 {
        counters::value(&self.now.readings, name)
    }

    fn rate(&self, name: &str) -> f64 {
        let is_of = |own: &str| name.strip_suffix('*').map_or(own == name, |start| own.starts_with(start));
        let of = self.now.readings.iter().filter(|r| is_of(&r.name));
        sum(of.filter_map(|r| self.now.rate(r, self.earlier?)))
    }
}

/// The sum of nothing is -0.0 in Rust, and would be shown so.
fn sum(rates: impl Iterator<Item = f64>) -> f64 {
    rates.fold(0.0, |all, rate| all + rate)
}

/// Three digits.
fn short(ms: f64) -> String {
    let digits = if ms < 10.0 { 2 } else { usize::from(ms < 100.0) };
    format!("{ms:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// A figure without a row in the table would always be 0.
    #[test]
    fn every_figure_has_its_counter() {
        let name = |figure: &str| {
            let (name, unit) = figure.split_once(' ').unwrap_or((figure, ""));
            match (name, unit) {
                ("slowest" | "amplification" | "used" | "written", _) => "user_bytes".to_owned(),
                (class, "logs") => format!("opened_sections_hot_{class}"),
                (ns, "p") => format!("{ns}_p99"),
                (name, "" | "ms" | "B" | "blocks" | "B/s" | "Hz" | "/s" | ".1/s") => name.replace('*', "any"),
                _ => panic!("{figure}"),
            }
        };
        for figure in LINES.iter().flat_map(|(_, template, _)| template.split(['{', '}']).skip(1).step_by(2))
        {
            let reading = &counters::sample(&[(&name(figure), 1)])[0];
            assert!(reading.row.is_some(), "{figure}");
        }
        let nothing =
            CounterSnapshot { at: Instant::now(), volume: None, readings: Vec::new(), slowest: Vec::new() };
        assert!(lines(&nothing, None).iter().all(|line| !line.text.contains(['{', '}', '_'])));
    }
}
