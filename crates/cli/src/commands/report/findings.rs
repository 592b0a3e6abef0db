//! What a volume's state recommends.
use crate::commands::info::{Usage, guarded};
use crate::counters::{self, Reading};
use crate::segments::{Content, Segments};
use segno_format::Features;
use segno_format::checkpoint::CpFlags;
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

/// A fact with what to do about it.
#[derive(Debug, Serialize)]
pub struct Finding {
    pub level: Level,
    pub fact: String,
    pub advice: String,
}

/// A volume, and of a mount its counters.
pub struct State<'a> {
    /// As the caller named it.
    pub name: &'a str,
    pub segments: &'a Segments,
    pub counters: Option<&'a [Reading]>,
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

/// The serious ones first.
pub fn of(state: &State<'_>) -> Vec<Finding> {
    let mut all = damage(state);
    all.extend(space(state));
    if let Some(counters) = state.counters {
        all.extend(broken(state.name, counters));
        all.extend(speed(state.name, counters));
    }
    all.sort_by_key(|f| f.level != Level::Serious);
    all
}

fn serious(applies: bool, fact: impl Into<String>, advice: impl Into<String>) -> Option<Finding> {
    applies.then(|| Finding { level: Level::Serious, fact: fact.into(), advice: advice.into() })
}

fn advice(applies: bool, fact: impl Into<String>, advice: impl Into<String>) -> Option<Finding> {
    applies.then(|| Finding { level: Level::Advice, fact: fact.into(), advice: advice.into() })
}

/// What is recorded or seen on the volume itself.
fn damage(state: &State<'_>) -> Vec<Finding> {
    let (name, raw) = (state.name, &state.segments.superblock.raw);
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
    let percent = Usage::of(sb, cp).percent();
    let (used, sparse) = state.segments.scattered();
    let clean = match state.counters {
        Some(_) => format!("Clean while the mount is idle: `segno ctl {} gc=now`", state.name),
        None => "Mount it and clean while it is idle: `segno ctl DIR gc=now`".to_owned(),
    };
    let nodes = cp.valid_node_count.get();
    let all = [
        serious(
            percent >= NEARLY_FULL_PERCENT,
            format!("{percent} % of the space for files is in use"),
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

/// States of a mount that need somebody.
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

/// What makes a mount slower than it could be.
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
            "Make new volumes with `segno mkfs --journal 64M` and mount them with -o journal=auto; an existing one can use \
             a journal in a separate file",
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
