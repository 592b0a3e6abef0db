//! QEMU's own virtiofsd on ext4, and the same workloads through `segno export`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{IMAGE_BYTES, Place, Virtiofs};
use crate::paths::{run, tool};
use crate::twin::Run;

const SPEED: &str = include_str!("speed.sh");
/// Where Debian's qemu-system-common has it.
const PROGRAM: &str = "/usr/lib/qemu/virtiofsd";
const PATIENCE: Duration = Duration::from_secs(60);

/// Times of the workloads, in milliseconds.
type Times = BTreeMap<String, Vec<u64>>;

/// Prints the medians of `rounds` alternating rounds.
pub fn compare(virtiofs: &Virtiofs, place: &Place, rounds: u32) -> Result<()> {
    let peer = Peer::new(&virtiofs.work)?;
    let (mut ours, mut theirs) = (Times::new(), Times::new());
    for _ in 0..rounds {
        place.format()?;
        add(&mut ours, &virtiofs.boot(place, SPEED, None)?)?;
        let server = Server::start(&peer.dir, &place.socket)?;
        let run = virtiofs.guest(&place.socket, SPEED, None)?;
        server.end()?;
        add(&mut theirs, &run)?;
    }
    println!("{:<10} {:>9} {:>10}   ms, medians of {rounds}", "workload", "segno", "virtiofsd");
    for (name, times) in &mut ours {
        println!("{name:<10} {:>9} {:>10}", median(times), theirs.get_mut(name).map_or(0, |t| median(t)));
    }
    Ok(())
}

fn add(times: &mut Times, run: &Run) -> Result<()> {
    for line in run.output.iter().filter_map(|l| l.strip_prefix("time ")) {
        let (name, took) = line.split_once(' ').context("a time without a name")?;
        times.entry(name.to_owned()).or_default().push(took.trim().parse()?);
    }
    ensure!(!times.is_empty(), "the guest gave no times");
    Ok(())
}

fn median(times: &mut [u64]) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// An ext4 file system in another image; unmounted when it is dropped.
struct Peer {
    dir: PathBuf,
}

impl Peer {
    fn new(work: &Path) -> Result<Self> {
        let (image, dir) = (work.join("ext4"), work.join("ext4-mnt"));
        fs::create_dir_all(&dir)?;
        File::create(&image)?.set_len(IMAGE_BYTES)?;
        run(Command::new(tool("mkfs.ext4", "e2fsprogs")?).arg("-qF").arg(&image))?;
        run(Command::new("mount").args(["-o", "loop"]).args([&image, &dir]))?;
        Ok(Self { dir })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Err(error) = run(Command::new("umount").arg(&self.dir)) {
            eprintln!("{} stays mounted: {error}", self.dir.display());
        }
    }
}

/// Killed when it is dropped.
struct Server(Child);

impl Server {
    fn start(dir: &Path, socket: &Path) -> Result<Self> {
        if socket.exists() {
            fs::remove_file(socket)?;
        }
        let mut command = Command::new(PROGRAM);
        command.arg(format!("--socket-path={}", socket.display()));
        command.args(["-o", &format!("source={}", dir.display())]);
        let mut server =
            Self(command.spawn().with_context(|| format!("{PROGRAM} (Debian package: qemu-system-common)"))?);
        let begun = Instant::now();
        while !socket.exists() {
            if let Some(status) = server.0.try_wait()? {
                bail!("virtiofsd ended with {status}");
            }
            ensure!(begun.elapsed() < PATIENCE, "virtiofsd does not listen");
            sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Waits for the end; the server ends with the guest.
    fn end(mut self) -> Result<()> {
        let begun = Instant::now();
        while self.0.try_wait()?.is_none() {
            ensure!(begun.elapsed() < PATIENCE, "virtiofsd does not end");
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}
