//! The same workload through mounts: segno beside the kernel's ext4 and XFS on a loop device and fuse2fs, each on an
//! image in the same place.
use super::row::{Once, Spread};
use crate::work::Prepared;
use crate::work::fs::Mounted;
use crate::work::job::Job;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A file system that can be mounted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// With its defaults.
    Segno,
    /// With `fsync_mode=posix`, as F2FS in the kernel has it.
    SegnoPosix,
    Ext4,
    Xfs,
    Fuse2fs,
}

const ALL: [Peer; 5] = [Peer::Segno, Peer::SegnoPosix, Peer::Ext4, Peer::Xfs, Peer::Fuse2fs];

impl Peer {
    pub fn name(self) -> &'static str {
        match self {
            Self::Segno => "segno mount",
            Self::SegnoPosix => "segno mount, posix",
            Self::Ext4 => "ext4, kernel, loop",
            Self::Xfs => "XFS, kernel, loop",
            Self::Fuse2fs => "fuse2fs",
        }
    }

    pub fn is_segno(self) -> bool {
        matches!(self, Self::Segno | Self::SegnoPosix)
    }

    /// Why it cannot be compared here.
    fn missing(self) -> Option<String> {
        let has = |program: &str| {
            std::env::var_os("PATH")
                .is_some_and(|p| std::env::split_paths(&p).any(|d| d.join(program).exists()))
        };
        let programs: &[&str] = match self {
            Self::Segno | Self::SegnoPosix => &[],
            Self::Ext4 => &["mkfs.ext4"],
            Self::Xfs => &["mkfs.xfs"],
            Self::Fuse2fs => &["mkfs.ext4", "fuse2fs"],
        };
        let program = programs.iter().find(|p| !has(p)).map(|p| format!("{p} is not installed"));
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let driver = match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            _ => return program,
        };
        let absent = !known.split_whitespace().any(|w| w == driver);
        program.or_else(|| absent.then(|| format!("the kernel has no {driver}")))
    }
}

/// Those that can be compared, and why the others cannot.
pub fn available() -> (Vec<Peer>, Vec<String>) {
    let why = |p: &Peer| p.missing().map(|why| format!("{} is left out: {why}", p.name()));
    (ALL.into_iter().filter(|p| p.missing().is_none()).collect(), ALL.iter().filter_map(why).collect())
}

/// An image and where it is mounted; both go away in the end.
pub struct Site {
    image: PathBuf,
    dir: PathBuf,
    bytes: u64,
}

impl Site {
    pub fn new(bytes: u64) -> Result<Self> {
        let root = crate::machine::scratch_root().join(format!("segno-bench-mount-{}", std::process::id()));
        let dir = root.join("mnt");
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self { image: root.join("image"), dir, bytes })
    }

    /// Formats, mounts, prepares, runs and unmounts.
    pub fn run(&self, peer: Peer, job: &Job, time: Duration, seed: u64) -> Result<Once> {
        self.format(peer)?;
        self.mount(peer)?;
        let done = self.work(job, time, seed);
        let unmounted = self.unmount(peer);
        let once = done?;
        unmounted?;
        Ok(once)
    }

    fn work(&self, job: &Job, time: Duration, seed: u64) -> Result<Once> {
        let fs = Mounted::new(self.dir.clone());
        let done = Prepared::new(&fs, job, seed)?.run(&fs, time)?;
        Ok(Once {
            ops_per_s: done.ops as f64 / done.seconds,
            fsyncs_per_s: done.fsyncs.count() as f64 / done.seconds,
            fsync_us: Spread::of(&done.fsyncs, 1000.0),
            inside: None,
        })
    }

    fn format(&self, peer: Peer) -> Result<()> {
        File::create(&self.image)?.set_len(self.bytes)?;
        let mut mkfs = match peer {
            Peer::Segno | Peer::SegnoPosix => segno("mkfs")?,
            Peer::Ext4 | Peer::Fuse2fs => Command::new("mkfs.ext4"),
            Peer::Xfs => Command::new("mkfs.xfs"),
        };
        match peer {
            Peer::Segno | Peer::SegnoPosix => mkfs.args(["-f", "-q"]),
            Peer::Ext4 | Peer::Fuse2fs => mkfs.args(["-q", "-F"]),
            Peer::Xfs => mkfs.args(["-q", "-f"]),
        };
        carry_out(mkfs.arg(&self.image))
    }

    fn mount(&self, peer: Peer) -> Result<()> {
        let mut mount = match peer {
            Peer::Segno | Peer::SegnoPosix => segno("mount")?,
            Peer::Ext4 | Peer::Xfs => Command::new("mount"),
            Peer::Fuse2fs => Command::new("fuse2fs"),
        };
        match peer {
            Peer::Segno => mount.args(["-o", "commit=60"]),
            Peer::SegnoPosix => mount.args(["-o", "commit=60,fsync_mode=posix"]),
            Peer::Ext4 | Peer::Xfs => mount.args(["-o", "loop"]),
            Peer::Fuse2fs => mount.args(["-o", "fakeroot"]),
        };
        carry_out(mount.arg(&self.image).arg(&self.dir))
    }

    fn unmount(&self, peer: Peer) -> Result<()> {
        if peer.is_segno() {
            return carry_out(segno("umount")?.arg(&self.dir));
        }
        carry_out(Command::new("umount").arg(&self.dir))?;
        if peer == Peer::Fuse2fs { wait_until_closed(&self.image) } else { Ok(()) }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let root = self.image.parent().unwrap_or(Path::new(""));
        let removed = std::fs::remove_file(&self.image)
            .and_then(|()| std::fs::remove_dir(&self.dir))
            .and_then(|()| std::fs::remove_dir(root));
        if let Err(e) = removed {
            eprintln!("segno: note: {} is left behind: {e}", root.display());
        }
    }
}

/// This program, for another of its commands.
fn segno(command: &str) -> Result<Command> {
    let mut c = Command::new(std::env::current_exe().context("cannot find this program")?);
    c.arg(command);
    Ok(c)
}

fn carry_out(command: &mut Command) -> Result<()> {
    let out = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    ensure!(out.status.success(), "{command:?}: {said}");
    Ok(())
}

/// fuse2fs goes on writing after umount(8) returned.
fn wait_until_closed(image: &Path) -> Result<()> {
    let begun = std::time::Instant::now();
    let open = || -> Result<bool> {
        for process in std::fs::read_dir("/proc")?.flatten() {
            for fd in std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
                if std::fs::read_link(fd.path()).is_ok_and(|target| target == image) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    };
    while open()? {
        ensure!(begun.elapsed() < Duration::from_secs(60), "fuse2fs does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
