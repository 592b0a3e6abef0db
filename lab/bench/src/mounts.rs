//! File systems that can be formatted and mounted here, each on the same image file in turn.
use crate::machine::host_of;
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a server to exit after the unmount.
const END: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FileSystem {
    Segno,
    /// Segno on a volume without a journal.
    NoJournal,
    /// Segno with `-o writeback_cache`.
    WritebackCache,
    /// The least that FUSE needs, behind the session of segno's mount.
    Ceiling,
    Fuse2fs,
    ExfatFuse,
    #[value(name = "ntfs-3g")]
    Ntfs3g,
    Ext4,
    Xfs,
    Btrfs,
}

impl FileSystem {
    pub const ALL: [Self; 10] = [
        Self::Segno,
        Self::NoJournal,
        Self::WritebackCache,
        Self::Ceiling,
        Self::Fuse2fs,
        Self::ExfatFuse,
        Self::Ntfs3g,
        Self::Ext4,
        Self::Xfs,
        Self::Btrfs,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Segno => "segno",
            Self::NoJournal => "no-journal",
            Self::WritebackCache => "writeback-cache",
            Self::Ceiling => "ceiling",
            Self::Fuse2fs => "fuse2fs",
            Self::ExfatFuse => "exfat-fuse",
            Self::Ntfs3g => "ntfs-3g",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// In the kernel, on a loop device.
    pub fn in_kernel(self) -> bool {
        matches!(self, Self::Ext4 | Self::Xfs | Self::Btrfs)
    }

    /// A mount by `segno mount`.
    pub fn is_segno(self) -> bool {
        matches!(self, Self::Segno | Self::NoJournal | Self::WritebackCache)
    }

    /// A peer with the same session as `Segno`. It is compared on request only.
    pub fn is_on_request(self) -> bool {
        self.counts_requests() && self != Self::Segno
    }

    /// Behind the session that counts requests.
    pub fn counts_requests(self) -> bool {
        self.is_segno() || self == Self::Ceiling
    }

    /// Why it cannot be mounted here, if it cannot.
    pub fn missing(self) -> Option<String> {
        let programs: &[&str] = match self {
            Self::Segno | Self::NoJournal | Self::WritebackCache | Self::Ceiling => &[],
            Self::Fuse2fs => &["mkfs.ext4", "fuse2fs"],
            Self::ExfatFuse => &["mkfs.exfat", "mount.exfat-fuse"],
            Self::Ntfs3g => &["mkntfs", "ntfs-3g"],
            Self::Ext4 => &["mkfs.ext4"],
            Self::Xfs => &["mkfs.xfs"],
            Self::Btrfs => &["mkfs.btrfs"],
        };
        if let Some(p) = programs.iter().find(|p| !is_installed(p)) {
            return Some(format!("{p} is not installed"));
        }
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let driver = if self.in_kernel() { self.name() } else { "fuse" };
        let absent = !known.split_whitespace().any(|w| w == driver);
        absent.then(|| format!("the kernel has no {driver}"))
    }
}

/// Writes zeros to the holes of an image in memory. The first use of a page costs more than a request, most of all in a
/// virtual machine, and would count against file systems that do not overwrite in place.
fn give_memory(image: &Path) -> Result<()> {
    if host_of(image).0.as_deref() != Some("tmpfs") {
        return Ok(());
    }
    let file = File::options().write(true).open(image)?;
    let (zeros, bytes) = (vec![0; 1 << 20], file.metadata()?.len());
    let mut at = 0;
    while at < bytes {
        let data = match seek(&file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => bytes,
            found => found?,
        };
        while at < data {
            let part = zeros.get(..(data - at).min(1 << 20) as usize).unwrap_or(&zeros);
            file.write_all_at(part, at)?;
            at += part.len() as u64;
        }
        at = seek(&file, SeekFrom::Hole(at)).unwrap_or(bytes);
    }
    Ok(())
}

/// Whether a program is installed.
pub fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|p| std::env::split_paths(&p).any(|d| d.join(program).exists()))
}

/// An image and its mount point.
#[derive(Debug)]
pub struct Site {
    pub image: PathBuf,
    /// Directory of the mount point and scratch files; removed at the end.
    pub root: PathBuf,
    /// Options of `segno mount -o`.
    pub options: String,
    pub bytes: u64,
}

impl Site {
    /// Uses the named image, or a new one below the scratch folder.
    pub fn new(image: Option<&Path>, bytes: u64, options: &str) -> Result<Self> {
        let root = crate::machine::scratch_root().join(format!("segno-bench-mount-{}", std::process::id()));
        let image = image.map_or_else(|| root.join("image"), Path::to_owned);
        let site = Self { image, root, options: options.to_owned(), bytes };
        fs::create_dir_all(site.dir()).with_context(|| format!("cannot make {}", site.dir().display()))?;
        Ok(site)
    }

    /// The mount point.
    pub fn dir(&self) -> PathBuf {
        self.root.join("mnt")
    }

    /// Makes an empty file system in a fresh image.
    pub fn format(&self, system: FileSystem) -> Result<()> {
        File::create(&self.image)?.set_len(self.bytes)?;
        let mut mkfs = match system {
            FileSystem::Segno | FileSystem::NoJournal | FileSystem::WritebackCache | FileSystem::Ceiling => {
                program("segno", "mkfs")?
            }
            FileSystem::Fuse2fs | FileSystem::Ext4 => Command::new("mkfs.ext4"),
            FileSystem::ExfatFuse => Command::new("mkfs.exfat"),
            FileSystem::Ntfs3g => Command::new("mkntfs"),
            FileSystem::Xfs => Command::new("mkfs.xfs"),
            FileSystem::Btrfs => Command::new("mkfs.btrfs"),
        };
        match system {
            FileSystem::NoJournal => mkfs.args(["-f", "-q", "--journal", "none"]),
            FileSystem::Segno
            | FileSystem::WritebackCache
            | FileSystem::Ceiling
            | FileSystem::Xfs
            | FileSystem::Btrfs => mkfs.args(["-f", "-q"]),
            FileSystem::Fuse2fs | FileSystem::Ext4 => mkfs.args(["-q", "-F"]),
            FileSystem::ExfatFuse => &mut mkfs,
            FileSystem::Ntfs3g => mkfs.args(["-q", "-F", "-Q"]),
        };
        carry_out(mkfs.arg(&self.image))?;
        give_memory(&self.image)
    }

    pub fn mount(&self, system: FileSystem) -> Result<()> {
        let mut mount = match system {
            FileSystem::Segno | FileSystem::NoJournal | FileSystem::WritebackCache => {
                program("segno", "mount")?
            }
            FileSystem::Ceiling => return self.mount_ceiling(),
            FileSystem::Fuse2fs => Command::new("fuse2fs"),
            FileSystem::ExfatFuse => Command::new("mount.exfat-fuse"),
            FileSystem::Ntfs3g => Command::new("ntfs-3g"),
            FileSystem::Ext4 | FileSystem::Xfs | FileSystem::Btrfs => Command::new("mount"),
        };
        if system == FileSystem::WritebackCache {
            mount.args(["-o", "writeback_cache"]);
        }
        if system.is_segno() {
            mount.args(["-o", &self.options]);
        } else if system.in_kernel() {
            mount.args(["-o", "loop"]);
        }
        // It only mounts block devices.
        let source = if system == FileSystem::ExfatFuse { self.attach()? } else { self.image.clone() };
        mount.arg(source).arg(self.dir());
        if system == FileSystem::Fuse2fs {
            mount.args(["-o", "fakeroot"]);
        }
        carry_out(&mut mount).inspect_err(|_| _ = self.detach(system))
    }

    /// Its server stays in the foreground and says when it responds.
    fn mount_ceiling(&self) -> Result<()> {
        let mut mount = program("segno-lab", "mount-ceiling")?;
        mount.args(["-o", &self.options]).arg(&self.image).arg(self.dir());
        let mut server = mount.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(server.stdout.take().context("no stdout")?).read_line(&mut line)?;
        ensure!(line.starts_with("mounted at"), "segno-lab mount-ceiling: {}", server.wait()?);
        // Waits for the process, which ends with the mount.
        std::thread::spawn(move || server.wait());
        segno_fuse::probe_no_open(&self.dir());
        Ok(())
    }

    /// Unmounts, and waits until the image is closed.
    pub fn unmount(&self, system: FileSystem) -> Result<()> {
        if system.is_segno() {
            return carry_out(program("segno", "umount")?.arg(self.dir()));
        }
        carry_out(Command::new("umount").arg(self.dir()))?;
        if !system.in_kernel() {
            self.wait_until_closed(system)?;
        }
        self.detach(system)
    }

    /// A loop device for the image.
    fn attach(&self) -> Result<PathBuf> {
        Ok(said(Command::new("losetup").args(["--find", "--show"]).arg(&self.image))?.into())
    }

    /// The loop device, if the image has one that [`Self::attach`] made.
    fn device(&self) -> Result<Option<PathBuf>> {
        let found =
            said(Command::new("losetup").args(["--noheadings", "-O", "NAME", "-j"]).arg(&self.image))?;
        Ok((!found.is_empty()).then(|| found.into()))
    }

    fn detach(&self, system: FileSystem) -> Result<()> {
        if system != FileSystem::ExfatFuse {
            return Ok(());
        }
        self.device()?.map_or(Ok(()), |device| carry_out(Command::new("losetup").arg("-d").arg(device)))
    }

    /// Writes back everything that is dirty in the mounted file system.
    pub fn sync(&self) -> Result<()> {
        Ok(rustix::fs::syncfs(File::open(self.dir())?)?)
    }

    /// Remounts with empty kernel caches; needs root.
    pub fn cool(&self, system: FileSystem) -> Result<()> {
        self.unmount(system)?;
        rustix::fs::sync();
        fs::write("/proc/sys/vm/drop_caches", "3").context("emptying the kernel's caches takes root")?;
        self.mount(system)
    }

    /// Counters of the mount of Segno or the ceiling.
    pub fn stats(&self) -> Result<serde_json::Map<String, serde_json::Value>> {
        let text = said(program("segno", "stats")?.arg("--json").arg(self.dir()))?;
        serde_json::from_str(&text).context("segno stats")
    }

    /// The process that serves the mount; `None` for a file system in the kernel.
    pub fn server(&self, system: FileSystem) -> Result<Option<u32>> {
        if system.in_kernel() { Ok(None) } else { process_with(&self.opened(system)?) }
    }

    /// The file that a server in user space has open.
    fn opened(&self, system: FileSystem) -> Result<PathBuf> {
        let device = if system == FileSystem::ExfatFuse { self.device()? } else { None };
        Ok(device.map_or_else(|| self.image.canonicalize(), Ok)?)
    }

    /// The server continues to write after umount(8) returned.
    fn wait_until_closed(&self, system: FileSystem) -> Result<()> {
        let begun = Instant::now();
        let open = self.opened(system)?;
        while process_with(&open)?.is_some() {
            ensure!(begun.elapsed() < END, "{} does not end", system.name());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // Not below a mount that could not be unmounted.
        let removed = fs::remove_dir(self.dir()).and_then(|()| fs::remove_dir_all(&self.root));
        if let Err(e) = removed {
            eprintln!("segno: note: {} is left behind: {e}", self.root.display());
        }
    }
}

/// A command of the program of this name next to this one, or else of the one in PATH.
fn program(name: &str, command: &str) -> Result<Command> {
    let sibling = std::env::current_exe().context("cannot find this program")?.with_file_name(name);
    let program = if sibling.is_file() { sibling.as_path() } else { Path::new(name) };
    let mut c = Command::new(program);
    c.arg(command);
    Ok(c)
}

/// A process that has that file open.
fn process_with(path: &Path) -> Result<Option<u32>> {
    for process in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        for fd in fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten() {
            if fs::read_link(fd.path()).is_ok_and(|target| target == path) {
                return Ok(Some(pid));
            }
        }
    }
    Ok(None)
}

fn carry_out(command: &mut Command) -> Result<()> {
    said(command).map(drop)
}

/// Runs a command and returns its output.
fn said(command: &mut Command) -> Result<String> {
    let out = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    if !out.status.success() {
        let said = [out.stderr, out.stdout].concat();
        bail!("{command:?}: {}", String::from_utf8_lossy(&said).trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
