//! Single-row transactions through the program `sqlite3`, on a mounted file system.
use super::job::Sqlite;
use anyhow::{Context, Result, ensure};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Transactions per second for each journal mode.
pub fn run(dir: &Path, job: &Sqlite) -> Result<Vec<(String, f64)>> {
    job.journals.iter().map(|journal| Ok((journal.clone(), one(dir, job, journal)?))).collect()
}

fn one(dir: &Path, job: &Sqlite, journal: &str) -> Result<f64> {
    let database = dir.join(format!("{journal}.db"));
    let mut script = format!(
        "PRAGMA journal_mode={journal}; PRAGMA synchronous=FULL; CREATE TABLE t(k INTEGER PRIMARY KEY, v BLOB);\n"
    );
    for i in 0..job.transactions {
        writeln!(script, "INSERT INTO t VALUES({i}, randomblob(100));")?;
    }
    script.push_str("SELECT count(*) FROM t;\n");
    let begun = Instant::now();
    let mut child = Command::new("sqlite3")
        .arg(&database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("sqlite3 is needed for this job")?;
    child.stdin.take().context("no input to sqlite3")?.write_all(script.as_bytes())?;
    let out = child.wait_with_output()?;
    let seconds = begun.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&out.stdout);
    let counted = said.lines().last().and_then(|l| l.parse::<u32>().ok());
    ensure!(out.status.success() && counted == Some(job.transactions), "sqlite3 with {journal}: {said}");
    Ok(f64::from(job.transactions) / seconds)
}
