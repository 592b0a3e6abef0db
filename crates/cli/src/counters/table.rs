//! All counters, by group.
use super::{Counter, Group, Kind};
use std::sync::LazyLock;

/// The figures of a spread: suffix of the name, suffixes of family and labels, and end of the description.
const SPREAD: [(&str, &str, &str, &str); 3] = [
    ("_p50", "", "quantile=0.5", "median"),
    ("_p99", "", "quantile=0.99", "99 of 100 below"),
    ("_max", "_max", "", "most"),
];

/// A counter, or three for one that is spread: [`Counter`] describes the fields.
struct Row {
    /// `None` for a spread.
    kind: Option<Kind>,
    name: &'static str,
    /// The family without `segno_`, and after a space the labels.
    metric: &'static str,
    help: &'static str,
}

const fn total(name: &'static str, metric: &'static str, help: &'static str) -> Row {
    Row { kind: Some(Kind::Total), name, metric, help }
}

const fn now(name: &'static str, metric: &'static str, help: &'static str) -> Row {
    Row { kind: Some(Kind::Now), name, metric, help }
}

/// Median, 99th percentile and maximum of a measured quantity.
const fn spread(name: &'static str, metric: &'static str, help: &'static str) -> Row {
    Row { kind: None, name, metric, help }
}

impl Row {
    fn counters(&self) -> Vec<Counter> {
        let (name, help) = (self.name, self.help);
        let (family, labels) = self.metric.split_once(' ').unwrap_or((self.metric, ""));
        let counter = |kind, name: String, end: &str, labels: String, help: String| Counter {
            kind,
            name,
            family: format!("segno_{family}{end}"),
            labels,
            help,
        };
        if let Some(kind) = self.kind {
            return vec![counter(kind, name.into(), "", labels.into(), help.into())];
        }
        let figure = |(suffix, end, quantile, what): (&str, &str, &str, &str)| {
            let labels: Vec<&str> = [labels, quantile].into_iter().filter(|l| !l.is_empty()).collect();
            let what = if what == "most" && name.ends_with("_ns") { "longest" } else { what };
            counter(Kind::Now, format!("{name}{suffix}"), end, labels.join(","), format!("{help}: {what}"))
        };
        SPREAD.map(figure).into()
    }
}

pub static GROUPS: LazyLock<Vec<Group>> = LazyLock::new(|| {
    let counters = |rows: &[Row]| rows.iter().flat_map(Row::counters).collect();
    TABLE.iter().map(|&(title, rows)| Group { title, counters: counters(rows) }).collect()
});

const TABLE: [(&str, &[Row]); 12] = [
    ("Written", WRITTEN),
    ("Space", SPACE),
    ("Cleaning", CLEANING),
    ("Checkpoints", CHECKPOINTS),
    ("fsync", FSYNC),
    ("Journal", JOURNAL),
    ("Memory", MEMORY),
    ("Writeback", WRITEBACK),
    ("Object store", STORE),
    ("State", STATE),
    ("Latency", LATENCY),
    ("Requests", REQUESTS),
];

const WRITTEN: &[Row] = &[
    total("user_bytes", "user_bytes", "bytes that programs wrote"),
    total(
        "read_bytes",
        "read_bytes",
        "bytes that the kernel read for programs; what its page cache has is not read again",
    ),
    total("data_blocks", "written_bytes kind=data", "data blocks written for programs"),
    total("gc_data_blocks", "written_bytes kind=moved_data", "data blocks that cleaning moved"),
    total("dent_blocks", "written_bytes kind=directory", "directory blocks written"),
    total(
        "node_blocks",
        "written_bytes kind=node",
        "node blocks written, those that cleaning moved included",
    ),
    total("gc_node_blocks", "moved_node_bytes", "node blocks that cleaning made dirty"),
    total(
        "meta_blocks",
        "written_bytes kind=metadata",
        "blocks of NAT, SIT, SSA and checkpoint packs written",
    ),
    total("flushes", "device_flushes", "flushes of the device's cache"),
    total("flushes_asked", "device_flush_requests", "requests for such a flush; several share one"),
    total("discards", "discarded_segments", "segments discarded, or reset with their zone"),
];

const SPACE: &[Row] = &[
    now("user_block_count", "volume_bytes kind=user", "blocks available to users"),
    now("valid_block_count", "volume_bytes kind=used", "blocks in use"),
    now("valid_node_count", "nodes", "nodes in use"),
    now("valid_inode_count", "inodes", "inodes in use"),
    now("free_sections", "free_sections", "sections with nothing valid in them, which logs can open"),
    total(
        "opened_sections_*",
        "opened_sections by={}",
        "free sections opened by {}: a log, streams, or cleaning, for data that it moved",
    ),
    now("free_segments", "free_segments", "segments with nothing valid in them"),
    now("prefree_segments", "prefree_segments", "segments that are free after the next checkpoint"),
    now("discard_never", "discard_never", "1 if freed segments are discarded on request only"),
    now("undiscarded_segments", "undiscarded_segments", "free segments that wait for their discard"),
    now("parked_blocks", "parked_bytes", "free blocks in segments that streams left unfinished"),
    total("alloc_calls", "allocations", "times a data log was locked to place blocks"),
    total("alloc_ns", "allocation_seconds", "time data logs were locked, in nanoseconds"),
];

const CLEANING: &[Row] = &[
    total("gc_foreground", "gc_runs when=foreground", "times an operation had to clean before it went on"),
    total("gc_background", "gc_runs when=background", "sections that cleaning tried in the background"),
    total("gc_sections", "gc_sections", "sections that cleaning emptied"),
    total("gc_stalls", "gc_stalls", "operations that waited for cleaning"),
    spread("gc_stall_blocks", "gc_stall_blocks", "blocks moved while an operation waited"),
];

const CHECKPOINTS: &[Row] = &[
    total("checkpoints", "checkpoints", "checkpoints written"),
    total("checkpoint_ns", "checkpoint_seconds", "time spent in checkpoints, in nanoseconds"),
    spread("checkpoint_blocked_ns", "checkpoint_blocked_seconds", "time a checkpoint blocked operations"),
    total(
        "nodes_ahead",
        "checkpoint_nodes_ahead",
        "nodes written ahead of the boundary of a checkpoint, while fsyncs go on",
    ),
];

const FSYNC: &[Row] = &[
    now("fsync_mode", "fsync_mode", "fsync_mode of the mount: 0 strict, 1 posix, 2 nobarrier"),
    total("fsyncs", "fsyncs", "calls of fsync and fdatasync"),
    total("fsyncs_shared", "fsyncs_shared", "of these, served by the fsync of another caller"),
    total("fsync_checkpoints", "fsync_checkpoints", "of these, those that took a checkpoint"),
    total("fsync_cp_*", "fsync_checkpoint_reasons reason={}", "fsyncs that took a checkpoint because of {}"),
    total("fsync_nodes_searched", "fsync_nodes what=searched", "dirty nodes that fsync examined"),
    total("fsync_nodes_written", "fsync_nodes what=written", "nodes that fsync wrote"),
    total(
        "fsync_nodes_would_search",
        "fsync_nodes what=would_search",
        "dirty nodes a search of all files would have examined (fsync_lookup=shadow)",
    ),
    total("fsync_*_count", "fsync_phase_seconds_count phase={}", "fsyncs that had the phase {}"),
    now("fsync_*_ns_avg", "fsync_phase_seconds_mean phase={}", "time of the phase {} of fsync: mean"),
    spread("fsync_*_ns", "fsync_phase_seconds phase={}", "time of the phase {} of fsync"),
];

const JOURNAL: &[Row] = &[
    total("journal_commits", "journal_commits", "epochs written to the journal"),
    total("journal_bytes", "journal_written_bytes", "bytes written to the journal"),
    now("journal_bytes_used", "journal_used_bytes", "bytes of the journal that the next checkpoint frees"),
    now("journal_bytes_size", "journal_size_bytes", "bytes that the journal has for records; 0 without one"),
    now(
        "journal_guard",
        "journal_guard",
        "1 if other implementations mount the volume read-only while it has changes in the journal",
    ),
    now("journal_replayed", "journal_replayed", "inodes and epochs replayed at mount"),
    now("journal_failed", "journal_failed", "1 if the journal could not be written and is out of use"),
    spread("journal_commit_ns", "journal_commit_seconds", "time of a commit"),
    total(
        "journal_*_ns",
        "journal_step_seconds step={}",
        "time commits spent in the step {}, in nanoseconds",
    ),
];

const MEMORY: &[Row] = &[
    now("cache_bytes", "cache_bytes", "memory of all cached data and metadata, which cache= limits"),
    now("cache_bytes_references", "cache_reference_bytes", "of that, inodes that the kernel refers to"),
    now("cached_inodes", "cached kind=inode", "inodes in memory"),
    now("cached_nodes", "cached kind=node", "nodes in memory"),
    now("cached_pages", "cached kind=page", "pages in memory"),
    now("dirty_nodes", "dirty_bytes kind=node", "nodes that wait to be written"),
    now("dirty_data_pages", "dirty_bytes kind=data", "pages of files that wait to be written"),
    now("dirty_dentry_pages", "dirty_bytes kind=directory", "directory blocks that wait to be written"),
];

const WRITEBACK: &[Row] = &[
    now("writeback_contexts", "writeback_contexts", "files that are written back in parallel"),
    now("writeback_threads", "writeback_threads", "threads that do it"),
    now(
        "oldest_dirty_ms",
        "oldest_dirty_seconds",
        "age of the oldest data that waits to be written, in milliseconds",
    ),
    total(
        "throttle_pauses",
        "throttle_pauses",
        "times a writer was delayed because it was faster than the device",
    ),
    total("throttle_ns", "throttle_seconds", "time writers were delayed, in nanoseconds"),
    total("migrations", "writeback_migrations", "files that moved to another context"),
    total("promotions", "stream_promotions", "files that got a stream of their own"),
    total("demotions", "stream_demotions", "files that lost it"),
    now("streams_shared", "streams kind=shared", "streams of several files"),
    now("streams_exclusive", "streams kind=exclusive", "streams of one file"),
    total("stream_segments", "stream_segments", "segments that streams opened"),
    total("stream_claims_*", "stream_claims kind={}", "claims of sections by streams: {}"),
    total("stream_refusals", "stream_refusals", "requests that a stream passed to the log of its type"),
    total("park_blocks", "stream_ssa_bytes", "summaries written because a stream was open at a checkpoint"),
];

/// `{}` is the cause: data, commit, map, compaction, read, readahead, open, delete.
const STORE: &[Row] = &[
    total(
        "store_*_puts",
        "store_requests cause={},kind=put",
        "objects sent to the store, attempts that failed included; cause: {}",
    ),
    total(
        "store_*_gets",
        "store_requests cause={},kind=get",
        "objects or ranges read from the store; cause: {}",
    ),
    total(
        "store_*_others",
        "store_requests cause={},kind=other",
        "listings, headers and deletions; cause: {}",
    ),
    total("store_*_put_bytes", "store_put_bytes cause={}", "bytes sent to the store; cause: {}"),
    total("store_*_got_bytes", "store_got_bytes cause={}", "bytes received from the store; cause: {}"),
    total("store_*_retries", "store_retries cause={}", "requests that failed and were repeated; cause: {}"),
    total("store_cache_hits", "store_cache_reads result=hit", "pieces read from the local cache"),
    total("store_cache_misses", "store_cache_reads result=miss", "pieces that the local cache did not have"),
    total(
        "store_cache_errors",
        "store_cache_errors",
        "objects that the local cache could not take, so that a writer waited for the store",
    ),
    now(
        "store_cache_pending_objects",
        "store_cache_pending_objects",
        "objects acknowledged in the local cache that the store does not have yet; they are lost with its disk",
    ),
    now("store_cache_pending_bytes", "store_cache_pending_bytes", "bytes of these objects"),
];

const STATE: &[Row] = &[
    now("stopped", "stopped", "1 after an error in metadata: the volume accepts no more changes"),
    now("orphans", "orphans", "removed files that are still open"),
    now("quota_needs_check", "quota_needs_check", "1 if the next mount recounts quota usage"),
];

const LATENCY: &[Row] = &[
    total("op_*_count", "operation_seconds_count operation={}", "requests of the kind {} that were answered"),
    total(
        "op_*_ns_sum",
        "operation_seconds_sum operation={}",
        "time to answer requests of the kind {}: sum, in nanoseconds",
    ),
    spread("op_*_ns", "operation_seconds operation={}", "time to answer requests of the kind {}"),
];

const REQUESTS: &[Row] = &[total("fuse_*", "requests operation={}", "requests of type {} from the kernel")];
