//! Volumes in an fstab of Linux: made, lost power, checked, mounted again, shut down.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::fsck;
use crate::paths::{run, target_dir};
use crate::twin::{Boot, Kill, Run};

const COMMON: &str = include_str!("common.sh");
const FIRST: &str = include_str!("first.sh");
const SECOND: &str = include_str!("second.sh");
const THIRD: &str = include_str!("third.sh");

const IMAGE_BYTES: u64 = 512 << 20;
/// Printed when enough files are synced for the power to fail.
const CUT: &str = "boot: cut";
/// Time of writing before the cut.
const CUT_AFTER: Duration = Duration::from_millis(700);
/// The line of `fsck.segno -a` for a volume that lost power. A replay is no error, so the exit code stays 0.
const REPLAYED: &str = "what a crash left was replayed";
const DIRS: [&str; 2] = ["/mnt/plain", "/mnt/journal"];

/// Boots Linux three times with volumes in fstab: power cut, fsck -A -a, mount -a, shutdown
///
/// mount(8) and fsck(8) of the host call segno as mount.segno and fsck.segno. One volume has a journal. Every file that
/// was synced before the cut has to be there.
#[derive(Args)]
pub struct BootTest {
    /// The segno program [default: target/release/segno]
    #[arg(long, env = "SEGNO", value_name = "PROGRAM")]
    segno: Option<PathBuf>,
    /// Folder for the images
    #[arg(long, value_name = "DIR", default_value = "/tmp/segno-boot")]
    work: PathBuf,
    /// Limit of one boot, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 300)]
    timeout: u64,
}

impl BootTest {
    pub fn run(self) -> Result<ExitCode> {
        let segno = self.segno.clone().unwrap_or_else(|| target_dir().join("release/segno"));
        let segno = segno
            .canonicalize()
            .with_context(|| format!("no program {}; name one with --segno", segno.display()))?;
        fs::create_dir_all(&self.work)?;
        let images = ["plain", "journal"].map(|name| self.work.join(name));
        for image in &images {
            File::create(image)?.set_len(IMAGE_BYTES)?;
        }
        let first = self.boot(&segno, &images, FIRST, true)?;
        ensure!(codes(&first) == ["0"], "fsck of new volumes: {:?}", codes(&first));
        let last = DIRS.map(|dir| last_synced(&first, dir));
        println!("first boot: power cut after {} and {} synced files", last[0], last[1]);

        let with_counts = |script: &str| {
            script.replace("@PLAIN@", &last[0].to_string()).replace("@JOURNAL@", &last[1].to_string())
        };
        let second = self.boot(&segno, &images, &with_counts(SECOND), false)?;
        ensure!(codes(&second) == ["0", "0"], "fsck after the cut: {:?}", codes(&second));
        let replayed = second.output.iter().filter(|l| l.contains(REPLAYED)).count();
        ensure!(replayed == DIRS.len(), "fsck replayed {replayed} volumes");
        println!(
            "second boot: fsck -A -a wrote what the cut left; every synced file is there; clean shutdown"
        );

        let third = self.boot(&segno, &images, &with_counts(THIRD), false)?;
        ensure!(codes(&third) == ["0"], "fsck after the shutdown: {:?}", codes(&third));
        for image in &images {
            run(Command::new(&segno).arg("check").arg(image))?;
            fsck::require_clean(image)?;
        }
        println!("third boot: clean; segno check and fsck.f2fs find nothing");
        fs::remove_dir_all(&self.work)?;
        Ok(ExitCode::SUCCESS)
    }

    fn boot(&self, segno: &Path, images: &[PathBuf], script: &str, cut: bool) -> Result<Run> {
        let program = segno.to_str().context("the program's path is not UTF-8")?;
        let boot = Boot {
            kill: cut.then(|| Kill { on_line: Some(CUT.into()), after: CUT_AFTER }),
            ..Boot::new(
                format!("{COMMON}{script}").replace("@SEGNO@", program),
                images.to_vec(),
                Duration::from_secs(self.timeout),
            )
        };
        boot.run_to_end()
    }
}

/// Exit codes of fsck(8).
fn codes(run: &Run) -> Vec<&str> {
    run.output.iter().filter_map(|l| l.strip_prefix("boot: fsck ")).collect()
}

/// The number of the last file in a directory that was acknowledged.
fn last_synced(run: &Run, dir: &str) -> u64 {
    let start = format!("synced {dir} ");
    run.output.iter().filter_map(|l| l.strip_prefix(&start)?.parse().ok()).max().unwrap_or(0)
}
