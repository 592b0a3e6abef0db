//! Sums of the runs of each command, and broken rules.
use crate::measure::Usage;
use crate::table::Row;
use std::collections::BTreeMap;
use std::fmt;

const PEAK_KIB: u64 = 256 << 10;
const CPU_MS: u64 = 10_000;
/// Words of a program that failed by a bug.
const BUGS: [&str; 4] = ["panicked at", "memory allocation of", "overflowed its stack", "attempt to"];

#[derive(Default)]
struct Sum {
    runs: u64,
    codes: BTreeMap<i32, u64>,
    peak_kib: u64,
    cpu_ms: u64,
    wall_ms: u64,
}

#[derive(Default)]
pub struct Tally {
    rows: BTreeMap<&'static str, Sum>,
    pub findings: u64,
}

impl Tally {
    /// Adds a run; the rules that it broke.
    pub fn add(&mut self, row: &Row, usage: &Usage, untimed: bool) -> Vec<String> {
        let sum = self.rows.entry(row.name).or_default();
        sum.runs += 1;
        *sum.codes.entry(usage.code.unwrap_or(-1)).or_default() += 1;
        sum.peak_kib = sum.peak_kib.max(usage.peak_kib);
        sum.cpu_ms = sum.cpu_ms.max(usage.cpu_ms);
        sum.wall_ms = sum.wall_ms.max(usage.wall_ms);
        let mut broken = Vec::new();
        if usage.peak_kib > PEAK_KIB {
            broken.push(format!("{} MiB of memory", usage.peak_kib >> 10));
        }
        if usage.cpu_ms > CPU_MS && !untimed {
            broken.push(format!("{} ms of processor time", usage.cpu_ms));
        }
        match usage.code {
            None => broken.push(format!("ended by a signal after {} ms", usage.wall_ms)),
            Some(code) if !row.codes.contains(&code) => {
                let last = usage.said.lines().last().unwrap_or_default();
                broken.push(format!("exit code {code}: {last}"));
            }
            Some(_) => {}
        }
        let bugs = usage.said.lines().filter(|line| BUGS.iter().any(|bug| line.contains(bug)));
        broken.extend(bugs.map(|line| format!("it says: {line}")));
        self.findings += broken.len() as u64;
        broken
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:20} {:>6} {:>9} {:>8} {:>8}  exit codes", "command", "runs", "peak", "cpu", "wall")?;
        for (name, sum) in &self.rows {
            let codes: Vec<String> = sum.codes.iter().map(|(code, n)| format!("{code}: {n}")).collect();
            let (mib, codes) = (sum.peak_kib as f64 / 1024.0, codes.join(", "));
            writeln!(
                f,
                "{name:20} {:>6} {mib:>5.1} MiB {:>5} ms {:>5} ms  {codes}",
                sum.runs, sum.cpu_ms, sum.wall_ms
            )?;
        }
        let max = |of: fn(&Sum) -> u64| self.rows.values().map(of).max().unwrap_or_default();
        let runs: u64 = self.rows.values().map(|sum| sum.runs).sum();
        writeln!(
            f,
            "{runs} runs, peak {} MiB, longest {} ms of processor time, {} ms in all, {} findings",
            max(|s| s.peak_kib) >> 10,
            max(|s| s.cpu_ms),
            max(|s| s.wall_ms),
            self.findings
        )
    }
}
