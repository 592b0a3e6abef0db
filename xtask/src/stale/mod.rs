//! Tests a journal whose volume was used by a program that does not know the journal: Linux, fsck.f2fs, a
//! backup.

mod cases;
mod linux;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use self::cases::{CASES, Case, Prepared, Visit};
use crate::paths::target_dir;
use crate::twin::Machine;

/// Journaled volumes change hands: cleanly unmounted, crashed, repaired, restored (needs root and /dev/fuse)
///
/// Each volume is checked with fsck.f2fs and `segno check` before and after. Two boots of the kernel twin for all.
#[derive(Args)]
pub struct Stale {
    /// Only cases whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// The segno program [default: target/release/segno]
    #[arg(long, env = "SEGNO", value_name = "PROGRAM")]
    segno: Option<PathBuf>,
    /// The machine that runs Linux
    #[arg(long, value_enum, default_value = "qemu")]
    machine: Machine,
    /// Folder for images and logs
    #[arg(long, value_name = "DIR", default_value = "/tmp/segno-stale")]
    work: PathBuf,
    /// Limit of one boot, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 600)]
    timeout: u64,
}

/// A volume on its way.
struct Row {
    case: &'static Case,
    volume: Option<Prepared>,
    /// The state that was found, or an error.
    result: Result<String>,
}

impl Stale {
    pub fn run(self) -> Result<ExitCode> {
        let program = self.segno.clone().unwrap_or_else(|| target_dir().join("release/segno"));
        let program = program
            .canonicalize()
            .with_context(|| format!("no program {}; name one with --segno", program.display()))?;
        let mut rows: Vec<Row> = CASES
            .iter()
            .filter(|case| case.name.contains(&self.only))
            .map(|case| prepare(case, &program, &self.work))
            .collect();
        for visit in [Visit::Unmounts, Visit::LosesPower] {
            self.visit(&mut rows, visit)?;
        }
        for row in &mut rows {
            if let (Some(volume), Ok(said)) = (&row.volume, &row.result) {
                let judged = (row.case.judge)(volume).map(|found| format!("{said}{found}"));
                row.result = judged.and_then(|found| volume.check_after().map(|()| found));
            }
        }
        let failed = rows.iter().filter(|row| row.result.is_err()).count();
        for row in &rows {
            match &row.result {
                Ok(found) => println!("{:<13} {:<62} ok: {found}", row.case.name, row.case.what),
                Err(e) => println!("{:<13} {:<62} FAILED: {e:#}", row.case.name, row.case.what),
            }
        }
        println!("stale: {} of {} as they should be", rows.len() - failed, rows.len());
        if failed > 0 {
            println!("images are kept in {}", self.work.display());
            return Ok(ExitCode::FAILURE);
        }
        drop(rows);
        fs::remove_dir_all(&self.work).with_context(|| format!("removing {}", self.work.display()))?;
        Ok(ExitCode::SUCCESS)
    }

    /// One boot for all volumes that Linux gets in this way.
    fn visit(&self, rows: &mut [Row], visit: Visit) -> Result<()> {
        let mut these: Vec<&mut Row> =
            rows.iter_mut().filter(|row| row.case.visit == visit && row.result.is_ok()).collect();
        let guests: Vec<linux::Guest<'_>> = these
            .iter()
            .filter_map(|row| {
                let image = row.volume.as_ref()?.image();
                Some(linux::Guest {
                    name: row.case.name,
                    image,
                    mount: row.case.mount,
                    script: row.case.script,
                })
            })
            .collect();
        if guests.is_empty() {
            return Ok(());
        }
        let results = linux::visit(
            self.machine,
            &guests,
            visit == Visit::LosesPower,
            Duration::from_secs(self.timeout),
        )?;
        drop(guests);
        for (row, result) in these.iter_mut().zip(results) {
            if let Err(e) = result {
                row.result = Err(e);
            }
        }
        Ok(())
    }
}

fn prepare(case: &'static Case, program: &Path, work: &Path) -> Row {
    let made = Prepared::new(program, &work.join(case.name)).and_then(|mut volume| {
        (case.prepare)(&mut volume)?;
        volume.check_before().context("before anybody else had it")?;
        volume.give()?;
        Ok(volume)
    });
    match made {
        Ok(volume) => Row { case, volume: Some(volume), result: Ok(String::new()) },
        Err(e) => Row { case, volume: None, result: Err(e) },
    }
}
