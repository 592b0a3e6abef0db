//! Job files of fio as rows.
use super::rows::Done;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Input and output operations of all jobs of a file, in a directory of their own.
pub fn run(dir: &Path, job_file: &Path) -> Result<Done> {
    let own = dir.join("fio");
    fs::create_dir_all(&own)?;
    let out = Command::new("fio")
        .arg("--output-format=json")
        .arg(format!("--directory={}", own.display()))
        .arg(job_file)
        .stdin(Stdio::null())
        .output()
        .context("fio is not installed")?;
    let name = job_file.display();
    ensure!(out.status.success(), "fio {name}: {}", String::from_utf8_lossy(&out.stderr).trim());
    fs::remove_dir_all(&own)?;
    // Notes of fio may precede the report.
    let text = String::from_utf8_lossy(&out.stdout);
    let report: Value = serde_json::from_str(text.get(text.find('{').unwrap_or(0)..).unwrap_or_default())
        .with_context(|| format!("fio {name}"))?;
    let jobs = report["jobs"].as_array().with_context(|| format!("fio {name} reports no jobs"))?;
    let sum = |of: &str| -> f64 {
        let both = |job: &Value| ["read", "write"].map(|way| job[way][of].as_f64().unwrap_or(0.0));
        jobs.iter().flat_map(both).sum()
    };
    // Jobs run at the same time or one after the other, so their rates add up, not their times.
    let (units, rate) = (sum("total_ios"), sum("iops"));
    ensure!(rate > 0.0, "fio {name} reports no operation");
    Ok(Done { units, seconds: units / rate })
}
