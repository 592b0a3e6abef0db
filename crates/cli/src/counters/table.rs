//! All counters, by group.
use super::{Counter, Group, Kind, Metric};

const BLOCK: f64 = segno_format::BLOCK_SIZE as f64;
const NS: f64 = 1e-9;

const fn row(
    kind: Kind,
    name: &'static str,
    metric: (&'static str, &'static str, f64),
    help: &'static str,
) -> Counter {
    let (family, labels, scale) = metric;
    Counter { name, kind, help, metric: Metric { family, labels, scale } }
}

const fn total(name: &'static str, metric: (&'static str, &'static str, f64), help: &'static str) -> Counter {
    row(Kind::Total, name, metric, help)
}

const fn now(name: &'static str, metric: (&'static str, &'static str, f64), help: &'static str) -> Counter {
    row(Kind::Now, name, metric, help)
}

pub const GROUPS: [Group; 12] = [
    Group { title: "Written", counters: WRITTEN },
    Group { title: "Space", counters: SPACE },
    Group { title: "Cleaning", counters: CLEANING },
    Group { title: "Checkpoints", counters: CHECKPOINTS },
    Group { title: "fsync", counters: FSYNC },
    Group { title: "Journal", counters: JOURNAL },
    Group { title: "Memory", counters: MEMORY },
    Group { title: "Writeback", counters: WRITEBACK },
    Group { title: "Object store", counters: STORE },
    Group { title: "State", counters: STATE },
    Group { title: "Latency", counters: LATENCY },
    Group { title: "Requests", counters: REQUESTS },
];

const WRITTEN: &[Counter] = &[
    total("user_bytes", ("segno_user_bytes", "", 1.0), "bytes that programs wrote"),
    total(
        "read_bytes",
        ("segno_read_bytes", "", 1.0),
        "bytes that the kernel read for programs; what its page cache has is not read again",
    ),
    total("data_blocks", ("segno_written_bytes", "kind=\"data\"", BLOCK), "data blocks written for programs"),
    total(
        "gc_data_blocks",
        ("segno_written_bytes", "kind=\"moved_data\"", BLOCK),
        "data blocks that cleaning moved",
    ),
    total("dent_blocks", ("segno_written_bytes", "kind=\"directory\"", BLOCK), "directory blocks written"),
    total(
        "node_blocks",
        ("segno_written_bytes", "kind=\"node\"", BLOCK),
        "node blocks written, those that cleaning moved included",
    ),
    total("gc_node_blocks", ("segno_moved_node_bytes", "", BLOCK), "node blocks that cleaning made dirty"),
    total(
        "meta_blocks",
        ("segno_written_bytes", "kind=\"metadata\"", BLOCK),
        "blocks of NAT, SIT, SSA and checkpoint packs written",
    ),
    total("flushes", ("segno_device_flushes", "", 1.0), "flushes of the device's cache"),
    total(
        "flushes_asked",
        ("segno_device_flush_requests", "", 1.0),
        "requests for such a flush; several share one",
    ),
    total("discards", ("segno_discarded_segments", "", 1.0), "segments discarded, or reset with their zone"),
];

const SPACE: &[Counter] = &[
    now("user_block_count", ("segno_volume_bytes", "kind=\"user\"", BLOCK), "blocks available to users"),
    now("valid_block_count", ("segno_volume_bytes", "kind=\"used\"", BLOCK), "blocks in use"),
    now("valid_node_count", ("segno_nodes", "", 1.0), "nodes in use"),
    now("valid_inode_count", ("segno_inodes", "", 1.0), "inodes in use"),
    now(
        "free_sections",
        ("segno_free_sections", "", 1.0),
        "sections with nothing valid in them, which logs can open",
    ),
    total(
        "opened_sections_*",
        ("segno_opened_sections", "by=\"{}\"", 1.0),
        "free sections opened by {}: a log, streams, or cleaning, for data that it moved",
    ),
    now("free_segments", ("segno_free_segments", "", 1.0), "segments with nothing valid in them"),
    now(
        "prefree_segments",
        ("segno_prefree_segments", "", 1.0),
        "segments that are free after the next checkpoint",
    ),
    now(
        "undiscarded_segments",
        ("segno_undiscarded_segments", "", 1.0),
        "free segments that wait for their discard",
    ),
    now(
        "parked_blocks",
        ("segno_parked_bytes", "", BLOCK),
        "free blocks in segments that streams left unfinished",
    ),
    total("alloc_calls", ("segno_allocations", "", 1.0), "times a data log was locked to place blocks"),
    total("alloc_ns", ("segno_allocation_seconds", "", NS), "time data logs were locked, in nanoseconds"),
];

const CLEANING: &[Counter] = &[
    total(
        "gc_foreground",
        ("segno_gc_runs", "when=\"foreground\"", 1.0),
        "times an operation had to clean before it went on",
    ),
    total(
        "gc_background",
        ("segno_gc_runs", "when=\"background\"", 1.0),
        "sections that cleaning tried in the background",
    ),
    total("gc_sections", ("segno_gc_sections", "", 1.0), "sections that cleaning emptied"),
    total("gc_stalls", ("segno_gc_stalls", "", 1.0), "operations that waited for cleaning"),
    now(
        "gc_stall_blocks_p50",
        ("segno_gc_stall_blocks", "quantile=\"0.5\"", 1.0),
        "blocks moved while an operation waited: median",
    ),
    now(
        "gc_stall_blocks_p99",
        ("segno_gc_stall_blocks", "quantile=\"0.99\"", 1.0),
        "blocks moved while an operation waited: 99 of 100 below",
    ),
    now(
        "gc_stall_blocks_max",
        ("segno_gc_stall_blocks_max", "", 1.0),
        "blocks moved while an operation waited: most",
    ),
];

const CHECKPOINTS: &[Counter] = &[
    total("checkpoints", ("segno_checkpoints", "", 1.0), "checkpoints written"),
    total("checkpoint_ns", ("segno_checkpoint_seconds", "", NS), "time spent in checkpoints, in nanoseconds"),
    now(
        "checkpoint_blocked_ns_p50",
        ("segno_checkpoint_blocked_seconds", "quantile=\"0.5\"", NS),
        "time a checkpoint blocked operations: median",
    ),
    now(
        "checkpoint_blocked_ns_p99",
        ("segno_checkpoint_blocked_seconds", "quantile=\"0.99\"", NS),
        "time a checkpoint blocked operations: 99 of 100 below",
    ),
    now(
        "checkpoint_blocked_ns_max",
        ("segno_checkpoint_blocked_seconds_max", "", NS),
        "time a checkpoint blocked operations: longest",
    ),
];

const FSYNC: &[Counter] = &[
    total("fsyncs", ("segno_fsyncs", "", 1.0), "calls of fsync and fdatasync"),
    total(
        "fsyncs_shared",
        ("segno_fsyncs_shared", "", 1.0),
        "of these, served by the fsync of another caller",
    ),
    total(
        "fsync_checkpoints",
        ("segno_fsync_checkpoints", "", 1.0),
        "of these, those that took a checkpoint",
    ),
    total(
        "fsync_cp_*",
        ("segno_fsync_checkpoint_reasons", "reason=\"{}\"", 1.0),
        "fsyncs that took a checkpoint because of {}",
    ),
    total(
        "fsync_nodes_searched",
        ("segno_fsync_nodes", "what=\"searched\"", 1.0),
        "dirty nodes that fsync examined",
    ),
    total("fsync_nodes_written", ("segno_fsync_nodes", "what=\"written\"", 1.0), "nodes that fsync wrote"),
    total(
        "fsync_nodes_would_search",
        ("segno_fsync_nodes", "what=\"would_search\"", 1.0),
        "dirty nodes a search of all files would have examined (fsync_lookup=shadow)",
    ),
    total(
        "fsync_*_count",
        ("segno_fsync_phase_seconds_count", "phase=\"{}\"", 1.0),
        "fsyncs that had the phase {}",
    ),
    now(
        "fsync_*_ns_avg",
        ("segno_fsync_phase_seconds_mean", "phase=\"{}\"", NS),
        "time of the phase {} of fsync: mean",
    ),
    now(
        "fsync_*_ns_p50",
        ("segno_fsync_phase_seconds", "phase=\"{}\",quantile=\"0.5\"", NS),
        "time of the phase {} of fsync: median",
    ),
    now(
        "fsync_*_ns_p99",
        ("segno_fsync_phase_seconds", "phase=\"{}\",quantile=\"0.99\"", NS),
        "time of the phase {} of fsync: 99 of 100 below",
    ),
    now(
        "fsync_*_ns_max",
        ("segno_fsync_phase_seconds_max", "phase=\"{}\"", NS),
        "time of the phase {} of fsync: longest",
    ),
];

const JOURNAL: &[Counter] = &[
    total("journal_commits", ("segno_journal_commits", "", 1.0), "epochs written to the journal"),
    total("journal_bytes", ("segno_journal_written_bytes", "", 1.0), "bytes written to the journal"),
    now(
        "journal_bytes_used",
        ("segno_journal_used_bytes", "", 1.0),
        "bytes of the journal that the next checkpoint frees",
    ),
    now("journal_replayed", ("segno_journal_replayed", "", 1.0), "inodes and epochs replayed at mount"),
    now(
        "journal_failed",
        ("segno_journal_failed", "", 1.0),
        "1 if the journal could not be written and is out of use",
    ),
    now(
        "journal_commit_ns_p50",
        ("segno_journal_commit_seconds", "quantile=\"0.5\"", NS),
        "time of a commit: median",
    ),
    now(
        "journal_commit_ns_p99",
        ("segno_journal_commit_seconds", "quantile=\"0.99\"", NS),
        "time of a commit: 99 of 100 below",
    ),
    now("journal_commit_ns_max", ("segno_journal_commit_seconds_max", "", NS), "time of a commit: longest"),
    total(
        "journal_*_ns",
        ("segno_journal_step_seconds", "step=\"{}\"", NS),
        "time commits spent in the step {}, in nanoseconds",
    ),
];

const MEMORY: &[Counter] = &[
    now(
        "cache_bytes",
        ("segno_cache_bytes", "", 1.0),
        "memory of all cached data and metadata, which cache= limits",
    ),
    now(
        "cache_bytes_references",
        ("segno_cache_reference_bytes", "", 1.0),
        "of that, inodes that the kernel refers to",
    ),
    now("cached_inodes", ("segno_cached", "kind=\"inode\"", 1.0), "inodes in memory"),
    now("cached_nodes", ("segno_cached", "kind=\"node\"", 1.0), "nodes in memory"),
    now("cached_pages", ("segno_cached", "kind=\"page\"", 1.0), "pages in memory"),
    now("dirty_nodes", ("segno_dirty_bytes", "kind=\"node\"", BLOCK), "nodes that wait to be written"),
    now(
        "dirty_data_pages",
        ("segno_dirty_bytes", "kind=\"data\"", BLOCK),
        "pages of files that wait to be written",
    ),
    now(
        "dirty_dentry_pages",
        ("segno_dirty_bytes", "kind=\"directory\"", BLOCK),
        "directory blocks that wait to be written",
    ),
];

const WRITEBACK: &[Counter] = &[
    now(
        "writeback_contexts",
        ("segno_writeback_contexts", "", 1.0),
        "files that are written back in parallel",
    ),
    now("writeback_threads", ("segno_writeback_threads", "", 1.0), "threads that do it"),
    now(
        "oldest_dirty_ms",
        ("segno_oldest_dirty_seconds", "", 1e-3),
        "age of the oldest data that waits to be written, in milliseconds",
    ),
    total(
        "throttle_pauses",
        ("segno_throttle_pauses", "", 1.0),
        "times a writer was delayed because it was faster than the device",
    ),
    total("throttle_ns", ("segno_throttle_seconds", "", NS), "time writers were delayed, in nanoseconds"),
    total("migrations", ("segno_writeback_migrations", "", 1.0), "files that moved to another context"),
    total("promotions", ("segno_stream_promotions", "", 1.0), "files that got a stream of their own"),
    total("demotions", ("segno_stream_demotions", "", 1.0), "files that lost it"),
    now("streams_shared", ("segno_streams", "kind=\"shared\"", 1.0), "streams of several files"),
    now("streams_exclusive", ("segno_streams", "kind=\"exclusive\"", 1.0), "streams of one file"),
    total("stream_segments", ("segno_stream_segments", "", 1.0), "segments that streams opened"),
    total(
        "stream_claims_*",
        ("segno_stream_claims", "kind=\"{}\"", 1.0),
        "claims of sections by streams: {}",
    ),
    total(
        "stream_refusals",
        ("segno_stream_refusals", "", 1.0),
        "requests that a stream passed to the log of its type",
    ),
    total(
        "park_blocks",
        ("segno_stream_ssa_bytes", "", BLOCK),
        "summaries written because a stream was open at a checkpoint",
    ),
];

/// `{}` is the cause: data, commit, map, compaction, read, readahead, open, delete.
const STORE: &[Counter] = &[
    total(
        "store_*_puts",
        ("segno_store_requests", "cause=\"{}\",kind=\"put\"", 1.0),
        "objects sent to the store, attempts that failed included; cause: {}",
    ),
    total(
        "store_*_gets",
        ("segno_store_requests", "cause=\"{}\",kind=\"get\"", 1.0),
        "objects or ranges read from the store; cause: {}",
    ),
    total(
        "store_*_others",
        ("segno_store_requests", "cause=\"{}\",kind=\"other\"", 1.0),
        "listings, headers and deletions; cause: {}",
    ),
    total(
        "store_*_put_bytes",
        ("segno_store_put_bytes", "cause=\"{}\"", 1.0),
        "bytes sent to the store; cause: {}",
    ),
    total(
        "store_*_got_bytes",
        ("segno_store_got_bytes", "cause=\"{}\"", 1.0),
        "bytes received from the store; cause: {}",
    ),
    total(
        "store_*_retries",
        ("segno_store_retries", "cause=\"{}\"", 1.0),
        "requests that failed and were repeated; cause: {}",
    ),
    total(
        "store_cache_hits",
        ("segno_store_cache_reads", "result=\"hit\"", 1.0),
        "pieces read from the local cache",
    ),
    total(
        "store_cache_misses",
        ("segno_store_cache_reads", "result=\"miss\"", 1.0),
        "pieces that the local cache did not have",
    ),
    total(
        "store_cache_errors",
        ("segno_store_cache_errors", "", 1.0),
        "objects that the local cache could not take, so that a writer waited for the store",
    ),
    now(
        "store_cache_pending_objects",
        ("segno_store_cache_pending_objects", "", 1.0),
        "objects acknowledged in the local cache that the store does not have yet; they are lost with its disk",
    ),
    now("store_cache_pending_bytes", ("segno_store_cache_pending_bytes", "", 1.0), "bytes of these objects"),
];

const STATE: &[Counter] = &[
    now(
        "stopped",
        ("segno_stopped", "", 1.0),
        "1 after an error in metadata: the volume accepts no more changes",
    ),
    now("orphans", ("segno_orphans", "", 1.0), "removed files that are still open"),
    now(
        "quota_needs_check",
        ("segno_quota_needs_check", "", 1.0),
        "1 if the next mount recounts quota usage",
    ),
];

const LATENCY: &[Counter] = &[
    total(
        "op_*_count",
        ("segno_operation_seconds_count", "operation=\"{}\"", 1.0),
        "requests of the kind {} that were answered",
    ),
    total(
        "op_*_ns_sum",
        ("segno_operation_seconds_sum", "operation=\"{}\"", NS),
        "time to answer requests of the kind {}: sum, in nanoseconds",
    ),
    now(
        "op_*_ns_p50",
        ("segno_operation_seconds", "operation=\"{}\",quantile=\"0.5\"", NS),
        "time to answer requests of the kind {}: median",
    ),
    now(
        "op_*_ns_p99",
        ("segno_operation_seconds", "operation=\"{}\",quantile=\"0.99\"", NS),
        "time to answer requests of the kind {}: 99 of 100 below",
    ),
    now(
        "op_*_ns_max",
        ("segno_operation_seconds_max", "operation=\"{}\"", NS),
        "time to answer requests of the kind {}: longest",
    ),
];

const REQUESTS: &[Counter] =
    &[total("fuse_*", ("segno_requests", "operation=\"{}\"", 1.0), "requests of type {} from the kernel")];
