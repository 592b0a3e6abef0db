//! The file systems compared: each formats the same backing file and mounts it.
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A way to format, mount and unmount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Segno,
    Fuse2fs,
    ExfatFuse,
    Ntfs3g,
    Ext4,
    Xfs,
    Btrfs,
}

/// Where the work happens.
#[derive(Clone, Debug)]
pub struct Place {
    pub segno: PathBuf,
    /// Options for `segno mount -o`.
    pub options: String,
    pub image: PathBuf,
    pub dir: PathBuf,
    pub bytes: u64,
}

impl Peer {
    pub const ALL: [Self; 7] =
        [Self::Segno, Self::Fuse2fs, Self::ExfatFuse, Self::Ntfs3g, Self::Ext4, Self::Xfs, Self::Btrfs];

    pub fn name(self) -> &'static str {
        match self {
            Self::Segno => "segno",
            Self::Fuse2fs => "fuse2fs",
            Self::ExfatFuse => "exfat-fuse",
            Self::Ntfs3g => "ntfs-3g",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Why this peer cannot run here, if it cannot.
    pub fn missing(self) -> Option<&'static str> {
        let has = |name: &str| {
            std::env::var_os("PATH").is_some_and(|p| std::env::split_paths(&p).any(|d| d.join(name).exists()))
        };
        match self {
            Self::Segno => None,
            Self::Fuse2fs => (!has("fuse2fs")).then_some("fuse2fs is not installed"),
            Self::ExfatFuse => {
                (!has("mount.exfat-fuse") || !has("mkfs.exfat")).then_some("exfat-fuse is not installed")
            }
            Self::Ntfs3g => (!has("ntfs-3g")).then_some("ntfs-3g is not installed"),
            Self::Ext4 => (!has("mkfs.ext4")).then_some("e2fsprogs is not installed"),
            Self::Xfs => (!has("mkfs.xfs")).then_some("xfsprogs is not installed"),
            Self::Btrfs => (!has("mkfs.btrfs")).then_some("btrfs-progs is not installed"),
        }
    }

    /// Makes an empty file system in a fresh backing file.
    pub fn format(self, p: &Place) -> Result<()> {
        File::create(&p.image)?.set_len(p.bytes)?;
        match self {
            Self::Segno => run(Command::new(&p.segno).args(["mkfs", "-f", "-q"]).arg(&p.image)),
            Self::Fuse2fs | Self::Ext4 => run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&p.image)),
            Self::ExfatFuse => run(Command::new("mkfs.exfat").arg(&p.image)),
            Self::Ntfs3g => run(Command::new("mkntfs").args(["-q", "-F", "-Q"]).arg(&p.image)),
            Self::Xfs => run(Command::new("mkfs.xfs").args(["-q", "-f"]).arg(&p.image)),
            Self::Btrfs => run(Command::new("mkfs.btrfs").args(["-q", "-f"]).arg(&p.image)),
        }
    }

    pub fn mount(self, p: &Place) -> Result<()> {
        std::fs::create_dir_all(&p.dir)?;
        match self {
            Self::Segno => {
                let mut mount = Command::new(&p.segno);
                run(mount.args(["mount", "-o", &p.options]).arg(&p.image).arg(&p.dir))
            }
            Self::Fuse2fs => run(Command::new("fuse2fs").arg(&p.image).arg(&p.dir).args(["-o", "fakeroot"])),
            Self::ExfatFuse => run(Command::new("mount.exfat-fuse").arg(&p.image).arg(&p.dir)),
            Self::Ntfs3g => run(Command::new("ntfs-3g").arg(&p.image).arg(&p.dir)),
            Self::Ext4 | Self::Xfs | Self::Btrfs => {
                run(Command::new("mount").args(["-o", "loop"]).arg(&p.image).arg(&p.dir))
            }
        }
    }

    /// Unmounts and waits until the image is closed.
    pub fn unmount(self, p: &Place) -> Result<()> {
        match self {
            Self::Segno => run(Command::new(&p.segno).arg("umount").arg(&p.dir)),
            Self::Ext4 | Self::Xfs | Self::Btrfs => run(Command::new("umount").arg(&p.dir)),
            Self::Fuse2fs => self.unmount_server("fuse2fs", p),
            Self::ExfatFuse => self.unmount_server("mount.exfat-fuse", p),
            Self::Ntfs3g => self.unmount_server("ntfs-3g", p),
        }
    }
}

impl Peer {
    fn unmount_server(self, program: &str, p: &Place) -> Result<()> {
        run(Command::new("umount").arg(&p.dir))?;
        wait_for_exit(program, &p.image)
    }
}

fn run(cmd: &mut Command) -> Result<()> {
    let out = cmd.stdin(Stdio::null()).output().with_context(|| format!("{cmd:?}"))?;
    if !out.status.success() {
        bail!("{cmd:?}: {}{}", String::from_utf8_lossy(&out.stderr), String::from_utf8_lossy(&out.stdout));
    }
    Ok(())
}

/// A server goes on writing after umount(8) returned.
fn wait_for_exit(program: &str, image: &Path) -> Result<()> {
    let begun = Instant::now();
    let pattern = format!("{program} {}", image.display());
    while Command::new("pgrep").args(["-f", &pattern]).stdout(Stdio::null()).status()?.success() {
        if begun.elapsed() > Duration::from_secs(120) {
            bail!("{program} does not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Empties the kernel's caches, so that a cold row is cold.
pub fn drop_caches() -> Result<()> {
    run(&mut Command::new("sync"))?;
    std::fs::write("/proc/sys/vm/drop_caches", "3").context("dropping caches needs root")
}
