//! What a row took besides time.
use super::rows::Done;
use crate::mounts::{FileSystem, Site};
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fs;

/// One run of a row.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Found {
    pub rate: f64,
    /// Processor time of the whole machine, of which a server in user space is only a part.
    pub cpu_seconds: f64,
    /// Resident set of the server at the end.
    pub rss_mib: Option<f64>,
    /// Segno's requests from the kernel for a unit of work, without FORGET, whose sender does not wait.
    pub requests: Option<f64>,
    /// Microseconds that Segno's operations took for a unit of work, with what they waited for.
    pub server_us: Option<f64>,
}

impl Found {
    /// Runs a row.
    pub fn of(peer: FileSystem, site: &Site, run: impl FnOnce() -> Result<Done>) -> Result<Self> {
        let (before, busy) = (server_stats(peer, site)?, busy_seconds()?);
        let done = run()?;
        let cpu_seconds = busy_seconds()? - busy;
        let counters = before.zip(server_stats(peer, site)?);
        let since = |counted: fn(&str) -> bool| {
            counters
                .as_ref()
                .map(|(before, after)| (sum(after, counted) - sum(before, counted)) as f64 / done.units)
        };
        Ok(Self {
            rate: done.units / done.seconds,
            cpu_seconds,
            rss_mib: resident_mib(peer, site)?,
            requests: since(is_request),
            server_us: since(is_operation_time).map(|ns| ns / 1e3),
        })
    }
}

/// Counters of Segno's mount.
fn server_stats(peer: FileSystem, site: &Site) -> Result<Option<Map<String, Value>>> {
    (peer == FileSystem::Segno).then(|| site.stats()).transpose()
}

fn is_request(name: &str) -> bool {
    name.starts_with("fuse_") && !name.contains("forget")
}

fn is_operation_time(name: &str) -> bool {
    name.starts_with("op_") && name.ends_with("_ns_sum")
}

fn sum(stats: &Map<String, Value>, counted: fn(&str) -> bool) -> u64 {
    stats.iter().filter(|(name, _)| counted(name)).filter_map(|(_, value)| value.as_u64()).sum()
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
