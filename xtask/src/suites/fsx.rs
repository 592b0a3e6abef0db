//! fsx, the file system exerciser: random reads, writes and truncates of one file, each read checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, Result};
use clap::Args;

use super::{WorkDir, installed};
use crate::paths::target_dir;

const VERSION: &str = "0.3.2";
/// Everything fsx can do; the file reaches past the addresses of one inode into direct nodes.
const CONFIGURATION: &str = "\
flen = 6291456

[opsize]
max = 65536

[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = 3
sendfile = 2
posix_fadvise = 1
copy_file_range = 3
";

/// Run fsx on files of a mounted volume, with several seeds
#[derive(Args)]
pub struct Fsx {
    dir: PathBuf,
    /// Operations for each seed
    #[arg(long, default_value_t = 20_000)]
    ops: u64,
    /// First seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds
    #[arg(long, default_value_t = 4)]
    seeds: u64,
    /// How many at the same time
    #[arg(long, default_value_t = 4)]
    parallel: usize,
}

impl Fsx {
    /// Builds the program, for a run in a guest.
    pub fn install() -> Result<()> {
        installed("fsx", VERSION).map(drop)
    }

    /// The files of a failed seed are kept below `target/fsx`; the closing line counts seeds and operations.
    pub fn run(self) -> Result<ExitCode> {
        let program = installed("fsx", VERSION)?;
        let place = WorkDir::new(&self.dir, &format!("fsx-{}", std::process::id()))?;
        let artifacts = target_dir().join("fsx");
        fs::create_dir_all(&artifacts).with_context(|| format!("making {}", artifacts.display()))?;
        let config = artifacts.join("fsx.toml");
        fs::write(&config, CONFIGURATION).with_context(|| format!("writing {}", config.display()))?;

        let seeds: Vec<u64> = (self.seed..self.seed.saturating_add(self.seeds)).collect();
        let mut failed = Vec::new();
        for batch in seeds.chunks(self.parallel.max(1)) {
            let running = batch.iter().map(|&seed| self.start(&program, &config, &artifacts, &place.0, seed));
            for (child, seed) in running.collect::<Result<Vec<_>>>()?.into_iter().zip(batch) {
                let output = child.wait_with_output().context("waiting for fsx")?;
                if !output.status.success() {
                    failed.push(*seed);
                    let text = String::from_utf8_lossy(&output.stderr);
                    let tail: Vec<_> = text.lines().rev().take(40).collect();
                    eprintln!("fsx: seed {seed} ended with {}", output.status);
                    tail.iter().rev().for_each(|line| eprintln!("  {line}"));
                    eprintln!(
                        "fsx: repeat with: cargo run -p xtask -- fsx --ops {} --seed {seed} --seeds 1 DIR; artifacts in {}",
                        self.ops,
                        artifacts.display()
                    );
                }
            }
        }
        println!(
            "fsx {VERSION}: {} seeds of {} operations, {} passed, {} failed {failed:?}",
            seeds.len(),
            self.ops,
            seeds.len() - failed.len(),
            failed.len()
        );
        Ok(ExitCode::from(u8::from(!failed.is_empty())))
    }

    fn start(
        &self,
        program: &Path,
        config: &Path,
        artifacts: &Path,
        place: &Path,
        seed: u64,
    ) -> Result<Child> {
        Command::new(program)
            .args(["-S", &seed.to_string(), "-N", &self.ops.to_string(), "-f"])
            .arg(config)
            .arg("-P")
            .arg(artifacts)
            .arg(place.join(format!("seed-{seed}")))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting fsx")
    }
}
