//! Recommendations from a volume's state.
use super::state::State;
use crate::commands::info::guarded;
use crate::counters::{self, Reading};
use crate::segments::{Content, Segments};
use segno_format::Features;
use segno_format::checkpoint::CpFlags;
use segno_format::size;
use serde::Serialize;

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Data may be lost or writing fails.
    Serious,
    /// Something works worse than it could.
    Advice,
}

/// A fact with the action that it calls for.
#[derive(Debug, Serialize)]
pub struct Finding {
    pub level: Level,
    pub fact: String,
    pub advice: String,
}

/// From this share of the space in use on, cleaning moves many blocks for each free section.
const NEARLY_FULL_PERCENT: u64 = 90;
/// From this share of sparse segments on, new data is scattered too.
const SCATTERED_PERCENT: u64 = 33;
/// Fewer segments say nothing.
const SCATTERED_LEAST: u64 = 16;
/// From this share of fsyncs on, checkpoints are what fsync costs.
const CHECKPOINTS_PERCENT: u64 = 10;
/// Fewer events say nothing.
const EVENTS_LEAST: u64 = 100;
const AMPLIFIED: f64 = 3.0;
/// From this number of write requests on, their size is that of the workload.
const WRITES_LEAST: u64 = 10_000;
/// Smaller writes cost a request more than their bytes do.
const SMALL_WRITE: u64 = 16 << 10;
/// With an fsync or a file opened for fewer writes, the kernel gathers few of them.
const WRITES_TO_GATHER: u64 = 8;
/// Values of the counter `fsync_mode`.
const POSIX: u64 = 1;
const NOBARRIER: u64 = 2;
/// Above half of it, where a checkpoint frees it without a request.
const JOURNAL_FULL_PERCENT: u64 = 75;

/// The serious ones first.
pub fn of(state: &State<'_>) -> Vec<Finding> {
    let mut all = damage(state);
    all.extend(space(state));
    if let Some(counters) = state.readings() {
        all.extend(broken(&state.name, counters));
        all.extend(durability(&state.name, counters));
        all.extend(speed(&state.name, counters));
        all.extend(small_writes(&state.name, counters, &state.options));
    }
    all.extend(options(&state.name, &state.options));
    all.sort_by_key(|f| f.level != Level::Serious);
    all
}

fn serious(applies: bool, fact: impl Into<String>, advice: impl Into<String>) -> Option<Finding> {
    applies.then(|| Finding { level: Level::Serious, fact: fact.into(), advice: advice.into() })
}

fn advice(applies: bool, fact: impl Into<String>, advice: impl Into<String>) -> Option<Finding> {
    applies.then(|| Finding { level: Level::Advice, fact: fact.into(), advice: advice.into() })
}

/// Damage that is recorded in the superblock or visible on the volume.
fn damage(state: &State<'_>) -> Vec<Finding> {
    let (name, raw) = (&state.name, &state.segments.superblock.raw);
    let check = match state.counters {
        Some(_) => format!("Unmount it with `segno umount {name}`, then run `segno check` on the image"),
        None => format!("Run `segno check {name}`, which changes nothing; `segno check -y {name}` repairs"),
    };
    let stops: Vec<String> = raw.stops().iter().map(|(why, n)| format!("{why} ({n} times)")).collect();
    let seen: Vec<String> = raw.damage().iter().map(ToString::to_string).collect();
    let damaged = state.segments.all.iter().filter(|s| s.content == Content::Damaged).count();
    let is_clean = state.segments.checkpoint.flags().contains(CpFlags::UMOUNT);
    let all = [
        serious(!stops.is_empty(), format!("The volume has stopped: {}", stops.join(", ")), &check),
        serious(
            !seen.is_empty(),
            format!("Damage was seen while it was mounted: {}", seen.join(", ")),
            &check,
        ),
        serious(damaged > 0, format!("The segment table is damaged for {damaged} segments"), &check),
        advice(
            state.counters.is_none() && !is_clean,
            "The volume was not unmounted cleanly",
            "Mount it: what fsync wrote after the last checkpoint is recovered then",
        ),
    ];
    all.into_iter().flatten().collect()
}

fn space(state: &State<'_>) -> Vec<Finding> {
    let Segments { superblock: sb, checkpoint: cp, .. } = state.segments;
    if sb.features.contains(Features::RO) {
        return Vec::new();
    }
    let (percent, available) = (state.space.percent(), size::human(state.space.available_bytes));
    let (used, sparse) = state.segments.scattered();
    let clean = match state.counters {
        Some(_) => format!("Clean while the mount is idle: `segno ctl {} gc=now`", state.name),
        None => "Mount it and clean while it is idle: `segno ctl DIR gc=now`".to_owned(),
    };
    let nodes = cp.valid_node_count.get();
    let all = [
        serious(
            percent >= NEARLY_FULL_PERCENT,
            format!("{percent} % of the space for files is in use, {available} are available"),
            "Remove files, or copy them to a larger volume: `segno mkfs --size SIZE NEW`, then `segno put NEW FILES`. The \
             fuller a volume, the more blocks cleaning moves for each section it frees",
        ),
        advice(
            used >= SCATTERED_LEAST && sparse.saturating_mul(100) >= used.saturating_mul(SCATTERED_PERCENT),
            format!("{sparse} of {used} segments in use are less than half full, so free space is scattered"),
            clean,
        ),
        advice(
            !guarded(sb, cp).covers(nodes.into()),
            format!(
                "The volume has {nodes} nodes, more than its reserve guards: overwrites may fail when it is full"
            ),
            "Keep some space free; a new volume gets a larger reserve without the options -o and -Z of mkfs",
        ),
    ];
    all.into_iter().flatten().collect()
}

/// States of a mount that require action.
fn broken(dir: &str, counters: &[Reading]) -> Vec<Finding> {
    let on = |name| counters::value(counters, name) != 0;
    let all = [
        serious(
            on("stopped"),
            "The mount has stopped after an error and accepts no changes",
            format!(
                "Read the messages of the server, then `segno umount {dir}` and run `segno check` on the image"
            ),
        ),
        serious(
            on("journal_failed"),
            "The journal could not be written and is out of use",
            "Examine its device; the volume itself goes on with checkpoints. A new mount tries the journal again",
        ),
        advice(
            on("quota_needs_check"),
            "The usage of users, groups or projects is not exact",
            format!("The next mount recounts it: `segno umount {dir}`, then mount it again"),
        ),
    ];
    all.into_iter().flatten().collect()
}

/// Options of the mount that let a crash lose more, and a journal that is about to run full.
fn durability(dir: &str, counters: &[Reading]) -> Vec<Finding> {
    let value = |name| counters::value(counters, name);
    let (used, size) = (value("journal_bytes_used"), value("journal_bytes_size"));
    let remount = |options: &str| format!("`segno umount {dir}`, then mount it again {options}");
    let all = [
        serious(
            value("fsync_mode") == NOBARRIER,
            "fsync flushes nothing (fsync_mode=nobarrier): a power cut may lose what it acknowledged",
            remount("without that option, unless the device keeps its cache when the power fails"),
        ),
        advice(
            value("fsync_mode") == POSIX,
            "With fsync_mode=posix a crash during an fsync may leave the file with part of the data",
            remount("without that option"),
        ),
        advice(
            size > 0 && value("journal_guard") == 0,
            "Linux and fsck.f2fs do not know the journal: after a crash they would change the volume and lose what only \
             the journal has",
            remount("with -o guard, which makes them mount it read-only"),
        ),
        advice(
            used.saturating_mul(100) >= size.saturating_mul(JOURNAL_FULL_PERCENT) && size > 0,
            format!("{} of {} of the journal are in use", size::human(used), size::human(size)),
            format!("A checkpoint frees it: `segno sync {dir}`; if that recurs, make a larger journal"),
        ),
        advice(
            value("store_cache_pending_objects") > 0,
            format!(
                "{} that fsync acknowledged are in the local cache only, and are lost with its disk",
                size::human(value("store_cache_pending_bytes"))
            ),
            format!("`segno sync {dir}` waits until the store has them"),
        ),
    ];
    all.into_iter().flatten().collect()
}

/// Options that no counter shows.
fn options(dir: &str, given: &[String]) -> Vec<Finding> {
    let on = |name| given.iter().any(|word| word == name);
    let remount = format!("`segno umount {dir}`, then mount it again without that option");
    let all = [
        serious(
            on("unfenced"),
            "Nothing keeps a second writer out of the store (unfenced): two mounts at once destroy the volume",
            "Mount it on one host only, or copy it with `segno store export` to a store that creates objects conditionally",
        ),
        serious(
            on("insecure"),
            "Data and signed requests go to the store without encryption (insecure)",
            remount.as_str(),
        ),
        advice(
            on("shutdown"),
            "The mount can be stopped as if the power failed (shutdown), an option for crash tests",
            remount.as_str(),
        ),
        advice(
            on("norecovery") || on("disable_roll_forward"),
            "The mount shows the last checkpoint, without what was fsynced since (norecovery)",
            remount.as_str(),
        ),
    ];
    all.into_iter().flatten().collect()
}

/// Conditions that make a mount slower than it could be.
fn speed(dir: &str, counters: &[Reading]) -> Vec<Finding> {
    let value = |name| counters::value(counters, name);
    let (fsyncs, took) = (value("fsyncs"), value("fsync_checkpoints"));
    let often = took.saturating_mul(100) >= fsyncs.saturating_mul(CHECKPOINTS_PERCENT);
    let (pauses, seconds) = (value("throttle_pauses"), value("throttle_ns") / 1_000_000_000);
    let stalls = value("gc_stalls");
    let waf = counters::write_amplification(counters).unwrap_or_default();
    let all = [
        advice(
            took >= EVENTS_LEAST && often && value("journal_commits") == 0,
            format!("{took} of {fsyncs} fsyncs took a checkpoint, and there is no metadata journal"),
            "Volumes that `segno mkfs` makes have one from 256 MiB on; an existing volume can use a journal in a separate file \
             (-o journal=FILE)",
        ),
        advice(
            pauses >= EVENTS_LEAST,
            format!(
                "Writers were delayed {pauses} times, {seconds} s in all: the device is slower than they are"
            ),
            "Mount with a larger cache (-o cache=SIZE) if the writes come in bursts; otherwise the device is the limit",
        ),
        advice(
            stalls >= EVENTS_LEAST,
            format!("{stalls} operations waited for cleaning"),
            format!("Free some space, or clean ahead while the mount is idle: `segno ctl {dir} gc=now`"),
        ),
        advice(
            waf >= AMPLIFIED,
            format!("Each byte that programs wrote was written {waf:.1} times"),
            format!(
                "`segno stats --explain {dir}` tells by what: nodes (small fsyncs), metadata (checkpoints) or cleaning"
            ),
        ),
    ];
    all.into_iter().flatten().collect()
}

/// Small writes of which each is a request, and the option with which the kernel gathers them.
fn small_writes(dir: &str, counters: &[Reading], given: &[String]) -> Option<Finding> {
    let value = |name| counters::value(counters, name);
    let (writes, bytes, fsyncs) = (value("fuse_write"), value("user_bytes"), value("fsyncs"));
    let is_small = bytes <= writes.saturating_mul(SMALL_WRITE);
    let ends = fsyncs.saturating_add(value("fuse_create")).saturating_add(value("fuse_open"));
    let are_gathered = ends.saturating_mul(WRITES_TO_GATHER) <= writes;
    let has_option = given.iter().any(|word| word == "writeback_cache");
    advice(
        writes >= WRITES_LEAST && is_small && are_gathered && !has_option,
        format!(
            "{writes} write requests had {} on average, with {fsyncs} fsyncs among them",
            size::human(bytes.checked_div(writes).unwrap_or_default())
        ),
        format!(
            "`segno umount {dir}`, then mount it again with -o writeback_cache, so that the kernel gathers small writes; a crash then \
             loses more of what was not fsynced"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(found: &[Finding]) -> String {
        found.iter().map(|f| f.fact.clone() + "\n").collect()
    }

    #[test]
    fn an_idle_mount_needs_nothing() {
        let counters =
            counters::sample(&[("fsyncs", 1000), ("fsync_checkpoints", 99), ("throttle_pauses", 99)]);
        assert_eq!(facts(&speed("mnt", &counters)) + &facts(&broken("mnt", &counters)), "");
    }

    #[test]
    fn options_that_a_crash_meets_are_named() {
        let counters = counters::sample(&[
            ("fsync_mode", NOBARRIER),
            ("journal_bytes_used", 3 << 20),
            ("journal_bytes_size", 4 << 20),
        ]);
        let expected = "\
fsync flushes nothing (fsync_mode=nobarrier): a power cut may lose what it acknowledged
Linux and fsck.f2fs do not know the journal: after a crash they would change the volume and lose what only the journal has
3.0 MiB of 4.0 MiB of the journal are in use
";
        assert_eq!(facts(&durability("mnt", &counters)), expected);
        let safe = counters::sample(&[("journal_bytes_size", 4 << 20), ("journal_guard", 1)]);
        assert_eq!(facts(&durability("mnt", &safe)), "");
    }

    #[test]
    fn small_writes_without_fsync_recommend_writeback_cache() {
        let found = |writes, bytes, fsyncs, options: &[&str]| {
            let counters = counters::sample(&[
                ("fuse_write", writes),
                ("user_bytes", bytes),
                ("fsyncs", fsyncs),
                ("fuse_create", 100),
                ("fuse_open", 150),
            ]);
            let options: Vec<String> = options.iter().map(ToString::to_string).collect();
            small_writes("mnt", &counters, &options)
        };
        let small = found(10_000, 10_000 << 12, 1000, &["cache=64M"]).unwrap();
        assert_eq!(small.fact, "10000 write requests had 4.0 KiB on average, with 1000 fsyncs among them");
        assert!(small.advice.contains("-o writeback_cache"));
        for (writes, bytes, fsyncs, options) in [
            (9_999, 9_999 << 12, 0, &[][..]),
            (10_000, 10_000 << 15, 0, &[]),
            (10_000, 10_000 << 12, 1001, &[]),
            (10_000, 10_000 << 12, 0, &["writeback_cache"]),
        ] {
            assert!(found(writes, bytes, fsyncs, options).is_none(), "{writes} {bytes} {fsyncs} {options:?}");
        }
    }

    #[test]
    fn options_without_a_counter_are_named() {
        let given = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(facts(&options("mnt", &given(&["journal=auto", "cache=64M"]))), "");
        for word in ["unfenced", "insecure", "shutdown", "norecovery"] {
            let found = options("mnt", &given(&["cache=64M", word]));
            assert!(found.len() == 1 && found[0].fact.contains(&format!("({word})")), "{word}: {found:?}");
        }
    }

    #[test]
    fn counters_recommend() {
        let counters = counters::sample(&[
            ("fsyncs", 1000),
            ("fsync_checkpoints", 100),
            ("throttle_pauses", 100),
            ("throttle_ns", 7_900_000_000),
            ("gc_stalls", 100),
            ("user_bytes", 4096),
            ("node_blocks", 3),
            ("stopped", 1),
        ]);
        let expected = "\
100 of 1000 fsyncs took a checkpoint, and there is no metadata journal
Writers were delayed 100 times, 7 s in all: the device is slower than they are
100 operations waited for cleaning
Each byte that programs wrote was written 3.0 times
The mount has stopped after an error and accepts no changes
";
        assert_eq!(facts(&speed("mnt", &counters)) + &facts(&broken("mnt", &counters)), expected);
        let journaled =
            counters::sample(&[("fsyncs", 100), ("fsync_checkpoints", 100), ("journal_commits", 1)]);
        assert_eq!(facts(&speed("mnt", &journaled)), "");
    }
}
