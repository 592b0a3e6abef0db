//! A guest without F2FS works on a volume that `segno export` serves.

mod export;
mod peer;
mod requests;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use self::export::Export;
use crate::paths::{run, target_dir};
use crate::twin::{Boot, Kill, Run};
use crate::{fsck, suites};

const GUEST: &str = include_str!("guest.sh");
const SMOKE: &str = include_str!("smoke.sh");
const WORKLOAD: &str = include_str!("workload.sh");
const DURABLE: &str = include_str!("durable.sh");
const RESETS: &str = include_str!("resets.sh");

const IMAGE_BYTES: u64 = 1 << 30;
/// Printed when enough files are synced for the power to fail.
const CUT: &str = "virtiofs: cut";
/// Time of writing before the cut. It grows by this time each round, and starts again after [`CUT_STEPS`]
/// rounds.
const CUT_AFTER: Duration = Duration::from_millis(150);
const CUT_STEPS: u32 = 10;

/// Boots Linux without F2FS on a volume of `segno export`: smoke test, requests compared with those of a
/// mount, power cuts, resets
///
/// The volume is checked with `segno check` and fsck.f2fs after each boot.
#[derive(Args)]
pub struct Virtiofs {
    /// The segno program [default: target/release/segno]
    #[arg(long, env = "SEGNO", value_name = "PROGRAM")]
    segno: Option<PathBuf>,
    /// Folder for image and socket
    #[arg(long, value_name = "DIR", default_value = "/tmp/segno-virtiofs")]
    work: PathBuf,
    /// Options of the export
    #[arg(short, long, default_value = "")]
    options: String,
    /// Number of power cuts; after every second one the server is killed as well
    #[arg(long, default_value_t = 6)]
    cuts: u32,
    /// Number of times that the guest resets itself while it writes
    #[arg(long, default_value_t = 3)]
    resets: u32,
    /// Run pjdfstest in the guest, and nothing else
    #[arg(long, group = "only")]
    pjdfstest: bool,
    /// Run fsx in the guest, and nothing else
    #[arg(long, group = "only")]
    fsx: bool,
    /// Compare the times of a few workloads with QEMU's virtiofsd on ext4 in ROUNDS rounds, and do nothing
    /// else; needs root
    #[arg(long, group = "only", value_name = "ROUNDS")]
    virtiofsd: Option<u32>,
    /// Limit of one boot, in seconds
    #[arg(long, value_name = "SECS", default_value_t = 1800)]
    timeout: u64,
}

impl Virtiofs {
    pub fn run(mut self) -> Result<ExitCode> {
        let segno = self.segno.take().unwrap_or_else(|| target_dir().join("release/segno"));
        let segno = segno
            .canonicalize()
            .with_context(|| format!("no program {}; name one with --segno", segno.display()))?;
        fs::create_dir_all(&self.work)?;
        let place = Place { segno, image: self.work.join("image"), socket: self.work.join("socket") };
        place.format()?;
        if self.pjdfstest {
            suites::Pjdfstest::install()?;
            self.suite(&place, "pjdfstest")?;
        } else if self.fsx {
            suites::Fsx::install()?;
            self.suite(&place, "fsx")?;
        } else if let Some(rounds) = self.virtiofsd {
            peer::compare(&self, &place, rounds)?;
        } else {
            self.boot(&place, SMOKE, None)?;
            println!("smoke test passed");
            requests::compare(&self.boot(&place, WORKLOAD, None)?, &place, &self.work)?;
            (0..self.cuts).try_for_each(|round| self.cut(&place, round))?;
            self.reset(&place)?;
        }
        fs::remove_dir_all(&self.work)?;
        Ok(ExitCode::SUCCESS)
    }

    /// One boot with a new export.
    fn boot(&self, place: &Place, script: &str, cut: Option<Cut>) -> Result<Run> {
        let export = Export::start(place, &self.options)?;
        let cuts_server = cut.as_ref().is_some_and(|cut| cut.kills_server);
        let run = self.guest(&place.socket, script, cut)?;
        if cuts_server {
            drop(export);
        } else {
            export.end()?;
            place.check()?;
        }
        Ok(run)
    }

    /// One boot with the server that listens on a socket.
    fn guest(&self, socket: &Path, script: &str, cut: Option<Cut>) -> Result<Run> {
        let boot = Boot {
            virtiofs: Some(socket.to_owned()),
            // Of a script that resets the machine.
            reboots: script.contains("sysrq-trigger"),
            kill: cut.as_ref().map(|cut| Kill { on_line: Some(CUT.into()), after: cut.after }),
            echo: self.pjdfstest || self.fsx,
            ..Boot::new(format!("{GUEST}{script}"), Vec::new(), Duration::from_secs(self.timeout))
        };
        boot.run_to_end()
    }

    /// The guest resets itself again and again; the server stays.
    fn reset(&self, place: &Place) -> Result<()> {
        let run = self.boot(place, &RESETS.replace("@RESETS@", &self.resets.to_string()), None)?;
        let last = run.output.last().context("the guest said nothing")?;
        println!("{last}: all synced files are there");
        Ok(())
    }

    /// Kills the guest during fsyncs, and every second time the server, too. Acknowledged files have to be
    /// there.
    fn cut(&self, place: &Place, round: u32) -> Result<()> {
        let script = DURABLE.replace("@ROUND@", &round.to_string());
        let cut = Cut { after: CUT_AFTER * (round % CUT_STEPS + 1), kills_server: round % 2 == 1 };
        let run = self.boot(place, &script, Some(cut))?;
        let synced = run
            .output
            .iter()
            .filter_map(|l| l.strip_prefix("synced ")?.parse::<u64>().ok())
            .max()
            .unwrap_or(0);
        ensure!(synced > 0, "nothing was synced");
        // Replays what the server left.
        place.segno(&["check", "-a"], &[])?;
        for i in 1..=synced {
            let path = format!("/durable/{round}-{i}");
            let content = place.segno(&["cat"], &[&path]).with_context(|| format!("{path} is lost"))?;
            ensure!(content == format!("content of {i}\n"), "{path}: {content:?}");
        }
        place.check()?;
        println!("cut {}: {synced} synced files are there", round + 1);
        Ok(())
    }

    /// Runs a suite from elsewhere.
    fn suite(&self, place: &Place, name: &str) -> Result<()> {
        let xtask = std::env::current_exe().context("where this program is")?;
        let script = format!("{} {name} $dir && umount $dir\n", xtask.display());
        let run = self.boot(place, &script, None)?;
        let last = run.output.iter().rfind(|l| l.starts_with(name)).context("the suite said nothing")?;
        println!("in the guest: {last}");
        Ok(())
    }
}

/// How a guest loses its power.
struct Cut {
    after: Duration,
    /// The server is killed at the same time.
    kills_server: bool,
}

/// Program, image and socket.
struct Place {
    segno: PathBuf,
    image: PathBuf,
    socket: PathBuf,
}

impl Place {
    /// Runs a command on the image.
    fn segno(&self, before: &[&str], after: &[&str]) -> Result<String> {
        run(Command::new(&self.segno).args(before).arg(&self.image).args(after))
    }

    /// An empty volume.
    fn format(&self) -> Result<()> {
        File::create(&self.image)?.set_len(IMAGE_BYTES)?;
        self.segno(&["mkfs", "-q", "-f"], &[]).map(drop)
    }

    /// Demands that two checkers find nothing.
    fn check(&self) -> Result<()> {
        self.segno(&["check"], &[])?;
        fsck::require_clean(&self.image)
    }
}
