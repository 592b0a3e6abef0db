//! The load, the same for both: a file written once in order, then overwritten in blocks of 4 KiB.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::paths::{run, tool};

const BLOCK: u64 = 4096;
/// Size of the writes that make the file.
const FILL: u64 = 1 << 20;
/// Bytes overwritten, as a multiple of the file.
const TIMES: u64 = 4;
/// Bytes of the file that may be dirty. Both keep half of that dirty, a hundredth of the file.
pub const DIRTY_LIMIT: u64 = 16 << 20;

/// A load to measure.
#[derive(Clone, Copy)]
pub struct Case {
    /// Distribution of the offsets, as fio names it.
    pub pattern: &'static str,
    /// Share of the space for users that the file takes, in percent.
    pub fill: u64,
}

/// Bytes of the overwrites.
pub struct Measured {
    /// By fio.
    pub written: u64,
    /// By the file system to its device.
    pub device: u64,
    /// How long the longest of 1,000 writes took, and the longest of all.
    pub p999: Duration,
    pub longest: Duration,
    /// Further facts, as text.
    pub detail: String,
}

impl Measured {
    pub fn amplification(&self) -> f64 {
        self.device as f64 / self.written as f64
    }
}

/// The two runs of fio.
pub struct Load {
    pub fill: Vec<String>,
    pub overwrite: Vec<String>,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes that the second one writes.
    pub written: u64,
}

impl Load {
    /// The load on a file of this path, on a volume with `user_bytes` for files.
    pub fn of(case: Case, file: &Path, user_bytes: u64) -> Self {
        // fio writes whole requests: it would leave the file shorter than it is to be, and begin the second run with a new, empty one.
        let size = user_bytes * case.fill / 100 / FILL * FILL;
        let written = size * TIMES;
        let common = [
            "--name=waf".to_owned(),
            format!("--filename={}", file.display()),
            format!("--filesize={size}"),
            "--ioengine=psync".into(),
            "--thread".into(),
            "--fallocate=none".into(),
            "--end_fsync=1".into(),
            "--output-format=json".into(),
        ];
        let with = |more: &[String]| common.iter().chain(more).cloned().collect();
        let fill = ["--rw=write".into(), format!("--bs={FILL}")];
        let overwrite = [
            "--rw=randwrite".into(),
            format!("--bs={BLOCK}"),
            "--norandommap".into(),
            format!("--io_size={written}"),
            format!("--random_distribution={}", case.pattern),
        ];
        Self { fill: with(&fill), overwrite: with(&overwrite), size, written }
    }
}

/// Bytes that users may fill.
pub fn user_bytes(segno: &Path, image: &Path) -> Result<u64> {
    let info = run(Command::new(segno).args(["info", "--json"]).arg(image))?;
    let info: serde_json::Value = serde_json::from_str(&info).context("segno info --json")?;
    info.pointer("/usage/user_bytes")
        .and_then(serde_json::Value::as_u64)
        .context("segno info has no user_bytes")
}

/// The writes in fio's report.
#[derive(Debug, PartialEq, Eq)]
pub struct Reported {
    pub bytes: u64,
    /// How long the longest of 1,000 writes took, and the longest of all.
    pub p999: Duration,
    pub longest: Duration,
}

impl Reported {
    pub fn of(report: &str) -> Result<Self> {
        let report = parse(report)?;
        let number = |at: &str| {
            report.pointer(at).and_then(Value::as_u64).with_context(|| format!("fio reports no {at}"))
        };
        let time = |at: &str| number(&format!("/jobs/0/write/clat_ns/{at}")).map(Duration::from_nanos);
        Ok(Self {
            bytes: number("/jobs/0/write/io_bytes")?,
            p999: time("percentile/99.900000")?,
            longest: time("max")?,
        })
    }
}

/// How long fio's reads or writes took in sum.
pub fn total_time(report: &str, which: &str) -> Result<Duration> {
    let report = parse(report)?;
    let of = |name: &str| report.pointer(&format!("/jobs/0/{which}/{name}")).and_then(Value::as_f64);
    let nanos = of("total_ios").zip(of("lat_ns/mean")).context("fio reports no times")?;
    Ok(Duration::from_nanos((nanos.0 * nanos.1) as u64))
}

fn parse(report: &str) -> Result<Value> {
    // Notes may precede the report.
    let report = report.find('{').and_then(|at| report.get(at..)).unwrap_or_default();
    serde_json::from_str(report).context("the report of fio")
}

pub fn fio() -> Result<Command> {
    Ok(Command::new(tool("fio", "fio")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_takes_its_share_in_whole_requests() {
        let load = Load::of(Case { pattern: "random", fill: 85 }, Path::new("/f"), 1001 * FILL + 5);
        assert_eq!((load.size, load.written), (850 * FILL, 850 * FILL * TIMES));
        assert!(load.fill.contains(&format!("--filesize={}", 850 * FILL)));
        assert!(load.overwrite.contains(&format!("--io_size={}", load.written)));
        assert!(load.overwrite.contains(&"--random_distribution=random".to_owned()));
    }

    #[test]
    fn what_fio_wrote_and_how_long_it_took_is_in_its_report() {
        let report = r#"fio: a note
            {"jobs": [{"read": {"io_bytes": 7, "total_ios": 3, "lat_ns": {"mean": 1000.5}}, "write": {"io_bytes": 4096,
            "clat_ns": {"max": 5000, "percentile": {"99.900000": 3000}}}}]}"#;
        let [p999, longest] = [3, 5].map(Duration::from_micros);
        assert_eq!(Reported::of(report).unwrap(), Reported { bytes: 4096, p999, longest });
        assert_eq!(total_time(report, "read").unwrap(), Duration::from_nanos(3001));
        assert!(Reported::of("").is_err() && Reported::of("{\"jobs\": []}").is_err());
    }
}
