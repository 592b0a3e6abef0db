//! Job files of fio as rows.
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Input and output operations per second of all jobs of a file, in a directory of their own.
pub fn rate(dir: &Path, job_file: &Path) -> Result<f64> {
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
    let iops = |job: &Value| ["read", "write"].map(|way| job[way]["iops"].as_f64().unwrap_or(0.0));
    Ok(jobs.iter().flat_map(iops).sum())
}
