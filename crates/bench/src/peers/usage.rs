//! What a row took besides time.
use crate::mounts::{FileSystem, Site};
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;

/// One run of a row.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Found {
    pub rate: f64,
    /// Processor time of the whole machine, of which a server in user space is only a part.
    pub cpu_seconds: f64,
    /// Resident set of the server at the end.
    pub rss_mib: Option<f64>,
}

impl Found {
    /// Runs a row, which returns its rate.
    pub fn of(peer: FileSystem, site: &Site, run: impl FnOnce() -> Result<f64>) -> Result<Self> {
        let before = busy_seconds()?;
        let rate = run()?;
        Ok(Self { rate, cpu_seconds: busy_seconds()? - before, rss_mib: resident_mib(peer, site)? })
    }
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
