//! Write amplification of overwrites on nearly full volumes: Segno's mount compared with Linux's F2FS, on the
//! same geometry.

mod linux;
mod load;
mod pace;
mod segno;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;

use load::{Case, Measured};

/// Size of the volume. Its sections are single segments of 2 MiB, the reserve is the default.
const VOLUME_MIB: u32 = 1024;
/// Shares of the space for users that the file takes, in percent.
const FILLS: [u64; 2] = [85, 96];
/// As fio names them.
const PATTERNS: [&str; 2] = ["random", "zipf:0.9"];

/// Measure bytes written to the device per byte overwritten and how long a write takes, by Segno and by Linux; needs fio and root
#[derive(Args)]
pub struct Waf {
    /// Only rows whose name contains this, such as segno, linux, zipf or 96
    #[arg(long, default_value = "")]
    only: String,
    /// The program to test; an optimised build
    #[arg(long, env = "SEGNO", default_value_os_t = crate::paths::target_dir().join("release/segno"))]
    segno: PathBuf,
    /// Where images and the mount point go; needs 3 GiB on a file system with O_DIRECT
    #[arg(long, default_value_os_t = crate::paths::target_dir().join("waf"))]
    work: PathBuf,
}

impl Waf {
    pub fn run(&self) -> Result<ExitCode> {
        fs::create_dir_all(&self.work).with_context(|| format!("making {}", self.work.display()))?;
        println!(
            "{:6} {:9} {:>4}  {:>9} {:>10} {:>7} {:>11} {:>11}",
            "by", "pattern", "fill", "fio, MiB", "device, MiB", "WAF", "p99.9, ms", "longest, ms"
        );
        let mut failed = 0;
        for fill in FILLS {
            for pattern in PATTERNS {
                let case = Case { pattern, fill };
                failed += self.row("segno", case, || segno::measure(&self.segno, &self.work, case));
                failed += self.row("linux", case, || linux::measure(&self.segno, &self.work, case));
            }
        }
        if failed > 0 {
            bail!("{failed} rows could not be measured");
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Measures and prints a row that is asked for; returns the number of failures.
    fn row(&self, by: &str, case: Case, measure: impl FnOnce() -> Result<Measured>) -> u32 {
        let Case { pattern, fill } = case;
        let name = format!("{by:6} {pattern:9} {fill:>2} %");
        if !name.contains(&self.only) {
            return 0;
        }
        match measure() {
            Ok(m) => {
                let (written, device) = (m.written >> 20, m.device >> 20);
                let [p999, longest] = [m.p999, m.longest].map(|time| time.as_secs_f64() * 1e3);
                println!(
                    "{name}  {written:>9} {device:>11} {:>7.3} {p999:>11.2} {longest:>11.2}  {}",
                    m.amplification(),
                    m.detail
                );
                0
            }
            Err(e) => {
                println!("{name}  FAILED: {e:#}");
                1
            }
        }
    }
}
