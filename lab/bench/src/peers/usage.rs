//! What a row took besides time.
use super::rows::Done;
use crate::mounts::{FileSystem, Site};
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;

/// One run of a row.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    pub rate: f64,
    /// Processor time of the whole machine, of which a server in user space is only a part.
    pub cpu_seconds: f64,
    /// Resident set of the server at the end.
    pub rss_mib: Option<f64>,
    /// Microseconds of processor time of the server for a unit of work, user and kernel.
    pub server_cpu_us: Option<f64>,
    /// Of file systems that count their requests.
    pub session: Option<Session>,
}

/// Counters of the session for a unit of work.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Session {
    /// Requests by operation, without FORGET, whose sender does not wait.
    pub requests: BTreeMap<String, f64>,
    /// Microseconds that operations took, with what they waited for.
    pub server_us: f64,
    /// Flushes of the device. Those of the journal are its commits.
    pub flushes: f64,
}

/// Counters at one moment.
struct CounterSnapshot {
    busy: f64,
    server: Option<f64>,
    counters: Option<Map<String, Value>>,
}

impl CounterSnapshot {
    fn of(peer: FileSystem, site: &Site) -> Result<Self> {
        let counters = peer.counts_requests().then(|| site.stats()).transpose()?;
        let server = site.server(peer)?.map(processor_seconds).transpose()?;
        Ok(Self { busy: busy_seconds()?, server, counters })
    }
}

impl Found {
    /// Runs a row.
    pub fn of(peer: FileSystem, site: &Site, run: impl FnOnce() -> Result<Done>) -> Result<Self> {
        let before = CounterSnapshot::of(peer, site)?;
        let done = run()?;
        let after = CounterSnapshot::of(peer, site)?;
        let server = before.server.zip(after.server);
        Ok(Self {
            rate: done.units / done.seconds,
            cpu_seconds: after.busy - before.busy,
            rss_mib: resident_mib(peer, site)?,
            server_cpu_us: server.map(|(before, after)| (after - before).max(0.0) * 1e6 / done.units),
            session: before.counters.zip(after.counters).map(|(b, a)| Session::between(&b, &a, done.units)),
        })
    }
}

impl Session {
    fn between(before: &Map<String, Value>, after: &Map<String, Value>, units: f64) -> Self {
        let value = |counters: &Map<String, Value>, name: &str| {
            counters.get(name).and_then(Value::as_u64).unwrap_or(0)
        };
        let since = |name: &str| value(after, name).saturating_sub(value(before, name)) as f64 / units;
        let requests = after.keys().filter(|name| is_request(name)).map(|name| (name, since(name)));
        let requests = requests.filter(|(_, n)| *n > 0.0);
        Self {
            requests: requests.map(|(name, n)| (name.trim_start_matches(REQUEST).to_owned(), n)).collect(),
            server_us: after
                .keys()
                .filter(|name| is_operation_time(name))
                .map(|name| since(name))
                .sum::<f64>()
                / 1e3,
            flushes: since("flushes") + since("journal_commits"),
        }
    }

    /// All requests.
    pub fn total(&self) -> f64 {
        self.requests.values().sum()
    }
}

/// Beginning of the names of counters of requests.
const REQUEST: &str = "fuse_";

fn is_request(name: &str) -> bool {
    name.starts_with(REQUEST) && !name.contains("forget")
}

fn is_operation_time(name: &str) -> bool {
    name.starts_with("op_") && name.ends_with("_ns_sum")
}

/// Processor time of all threads of a process.
fn processor_seconds(pid: u32) -> Result<f64> {
    let mut ns = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        // A thread may end meanwhile.
        let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
        ns += text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    }
    Ok(ns / 1e9)
}

/// Time that all processors have worked since boot.
fn busy_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let first = text.lines().next().context("/proc/stat is empty")?;
    // user, nice, system, idle, iowait, irq, softirq; the rest is time in guests and of other machines.
    let ticks: Vec<u64> = first.split_whitespace().skip(1).take(7).map_while(|w| w.parse().ok()).collect();
    let busy: u64 = ticks.iter().enumerate().filter(|(i, _)| !matches!(i, 3 | 4)).map(|(_, t)| t).sum();
    Ok(busy as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// `None` for a file system in the kernel.
fn resident_mib(peer: FileSystem, site: &Site) -> Result<Option<f64>> {
    let Some(pid) = site.server(peer)? else { return Ok(None) };
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).context("a server without memory")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(Some(kib / 1024.0))
}
