//! Real programs on a mount whose server is killed: changes that were acknowledged to them must be there
//! afterwards.

mod git;
mod postgres;
mod sqlite;
pub mod volume;
mod worker;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use segno_testkit::Rng;

use volume::Volume;
use worker::Worker;

/// A program that prints each acknowledged change, and can verify afterwards that they are there.
trait Program {
    /// Its name in the table.
    fn name(&self) -> String;
    /// MiB of its volume.
    fn size(&self) -> u32;
    /// Makes the data that it works on, in an empty directory.
    fn prepare(&mut self, dir: &Path) -> Result<()>;
    /// Starts working; `from` was the last thing done.
    fn work(&mut self, dir: &Path, from: u64) -> Result<Worker>;
    /// Whether what it acknowledges after the server was killed is durable too.
    fn keeps_late(&self) -> bool {
        true
    }
    /// Its own check, and that everything up to `acknowledged` is there. Returns the last thing done.
    fn verify(&mut self, dir: &Path, acknowledged: u64) -> Result<u64>;
}

/// Kill the server again and again under git, SQLite and PostgreSQL, and check what they were promised
#[derive(Args)]
pub struct Kills {
    /// Kills in all
    #[arg(long, default_value_t = 200)]
    kills: u32,
    /// Decides when the server is killed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only programs whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// The program to test
    #[arg(long, env = "SEGNO", default_value_os_t = default_segno())]
    segno: PathBuf,
    /// Without the metadata journal
    #[arg(long)]
    no_journal: bool,
    /// Acknowledged changes may be lost after a kill, but the volume and the program's own check must be
    /// right
    #[arg(long)]
    may_lose: bool,
    /// The supervisor mounts again, with restart=remount: the time without service is measured
    #[arg(long)]
    restart: bool,
    /// Further mount options
    #[arg(short, long, value_name = "OPTION,…", default_value = "rw")]
    options: String,
    /// Where images, logs and the mount point go
    #[arg(long, default_value = "/tmp/segno-kills")]
    work: PathBuf,
}

fn default_segno() -> PathBuf {
    crate::paths::target_dir().join("debug/segno")
}

/// Kills that one volume goes through before a new one is made.
const ROUNDS: u32 = 8;
/// Fewer than the deaths within a minute after which a mount does not come back.
const ROUNDS_OF_KEPT: u32 = 2;

/// How volumes are made and mounted.
struct Setup {
    mkfs: [&'static str; 2],
    options: String,
    may_lose: bool,
    restart: bool,
}

impl Setup {
    fn new(args: &Kills) -> Self {
        let (mkfs, mut options) =
            (["--journal", if args.no_journal { "none" } else { "16M" }], args.options.clone());
        if args.restart {
            options += ",restart=remount,blk=off";
        }
        Self { mkfs, options, may_lose: args.may_lose, restart: args.restart }
    }
}

#[derive(Default)]
struct Tally {
    name: String,
    kills: u32,
    acknowledged: u64,
    /// Kills after which something acknowledged was gone, or a database without a journal on disk was made anew.
    lossy: u32,
    failures: Vec<String>,
    /// Times without service, if the mount was made again.
    outages: Vec<Duration>,
}

impl Kills {
    /// Prints a table of counts; fails if anything that was acknowledged is gone or a check finds something.
    pub fn run(self) -> Result<ExitCode> {
        let segno = self.segno.canonicalize().with_context(|| {
            format!("{} not found; cargo build -p segno-cli makes it", self.segno.display())
        })?;
        std::fs::create_dir_all(&self.work).with_context(|| format!("making {}", self.work.display()))?;
        let setup = Setup::new(&self);
        let mut programs = sqlite::modes();
        programs.push(Box::new(git::Git));
        programs.push(Box::new(postgres::Postgres::new()?));
        programs.retain(|p| p.name().contains(&self.only));
        let mut tallies: Vec<Tally> =
            programs.iter().map(|p| Tally { name: p.name(), ..Tally::default() }).collect();
        let mut rng = Rng::new(self.seed);
        let mut left = self.kills;
        while left > 0 && !programs.is_empty() {
            for (program, tally) in programs.iter_mut().zip(&mut tallies) {
                let rounds = if setup.restart { ROUNDS_OF_KEPT } else { ROUNDS }.min(left);
                left -= rounds;
                if let Err(e) = series(&segno, &self.work, &setup, program.as_mut(), rounds, &mut rng, tally)
                {
                    tally.failures.push(format!("{e:#}"));
                    eprintln!("{}: {e:#}", tally.name);
                }
                eprintln!("{}: {} kills, {} acknowledged", tally.name, tally.kills, tally.acknowledged);
            }
        }
        Ok(report(&tallies, self.seed))
    }
}

fn report(tallies: &[Tally], seed: u64) -> ExitCode {
    println!("{:<18} {:>6} {:>13} {:>6} {:>9}", "program", "kills", "acknowledged", "lossy", "failures");
    for t in tallies {
        let failures = t.failures.len();
        println!("{:<18} {:>6} {:>13} {:>6} {failures:>9}", t.name, t.kills, t.acknowledged, t.lossy);
    }
    let kills: u32 = tallies.iter().map(|t| t.kills).sum();
    let failures: usize = tallies.iter().map(|t| t.failures.len()).sum();
    println!("kills {kills}, failures {failures}, seed {seed}");
    let mut outages: Vec<Duration> = tallies.iter().flat_map(|t| t.outages.iter().copied()).collect();
    outages.sort();
    let at = |percent: usize| outages.get((outages.len() * percent).div_ceil(100).saturating_sub(1));
    if let (Some(p50), Some(p99), Some(last)) = (at(50), at(99), outages.last()) {
        println!("without service: p50 {p50:?}, p99 {p99:?}, longest {last:?}");
    }
    ExitCode::from(u8::from(failures > 0))
}

/// One volume: the server is killed several times, and the program verifies its changes each time.
fn series(
    segno: &Path,
    work: &Path,
    setup: &Setup,
    program: &mut dyn Program,
    rounds: u32,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Result<()> {
    let volume = Volume::make(segno, work, program.size(), &setup.mkfs, &["-o", &setup.options])?;
    let mut server = volume.mount()?;
    program.prepare(&volume.dir()).context("preparing")?;
    let mut done = 0;
    for _ in 0..rounds {
        if setup.may_lose {
            volume.sync().context("keeping what the next round begins with")?;
        }
        let worker = program.work(&volume.dir(), done).context("starting the work")?;
        sleep(Duration::from_millis(200 + rng.below(2300)));
        let before = worker.acknowledged();
        if setup.restart {
            tally.outages.push(volume.kill_kept()?);
        } else {
            server.kill()?;
        }
        let all = worker.end()?;
        let acknowledged = if program.keeps_late() { all } else { before }.max(done);
        let demanded = if setup.may_lose { 0 } else { acknowledged };
        tally.kills += 1;
        if !setup.restart {
            volume.unmount_dead()?;
            volume.check().context("after the kill")?;
            server = volume.mount()?;
        }
        done = program
            .verify(&volume.dir(), demanded)
            .with_context(|| format!("kill {} of this volume, {acknowledged} acknowledged", tally.kills))?;
        tally.lossy += u32::from(done < acknowledged && setup.may_lose);
        tally.acknowledged = tally.acknowledged.saturating_add(acknowledged);
    }
    volume.unmount(server)?;
    volume.check().context("after the last unmount")
}
