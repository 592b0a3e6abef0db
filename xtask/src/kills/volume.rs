//! A volume in an image file, served by a process that can be killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::paths::run;
use rustix::process::{Pid, Signal};

/// Longer than any mount or unmount takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An image and its mount point. Unmounted, and removed, when dropped.
pub struct Volume {
    segno: PathBuf,
    image: PathBuf,
    mnt: PathBuf,
    /// Arguments of its mounts.
    mount: Vec<String>,
}

/// The process that serves the mount.
pub struct Server(Child);

impl Server {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    pub fn kill(&mut self) -> Result<()> {
        self.0.kill().context("killing the server")?;
        self.0.wait().context("waiting for the server")?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl Volume {
    pub fn make(segno: &Path, work: &Path, mib: u32, mkfs: &[&str], mount: &[&str]) -> Result<Self> {
        let mount = mount.iter().map(|&word| word.to_owned()).collect();
        let volume = Self { segno: segno.into(), image: work.join("image"), mnt: work.join("mnt"), mount };
        fs::create_dir_all(&volume.mnt).with_context(|| format!("making {}", volume.mnt.display()))?;
        if volume.image.exists() {
            fs::remove_file(&volume.image).context("removing the old image")?;
        }
        run(Command::new(segno)
            .args(["mkfs", "-q", "--size", &format!("{mib}M")])
            .args(mkfs)
            .arg(&volume.image))?;
        Ok(volume)
    }

    pub fn image(&self) -> &Path {
        &self.image
    }

    /// The directory that programs work in.
    pub fn dir(&self) -> PathBuf {
        self.mnt.join("work")
    }

    pub fn mount(&self) -> Result<Server> {
        let child = Command::new(&self.segno)
            .args(["mount", "-f"])
            .args(&self.mount)
            .args([&self.image, &self.mnt])
            .spawn()
            .context("starting the server")?;
        let mut server = Server(child);
        let begun = Instant::now();
        while !self.is_mounted() {
            if let Some(status) = server.0.try_wait().context("looking at the server")? {
                bail!("segno mount ended with {status}");
            }
            if begun.elapsed() > PATIENCE {
                bail!("segno mount does not answer");
            }
            sleep(Duration::from_millis(20));
        }
        fs::create_dir_all(self.dir()).with_context(|| format!("making {}", self.dir().display()))?;
        Ok(server)
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mnt = self.mnt.to_string_lossy();
        mounts.lines().any(|l| l.split(' ').nth(1) == Some(&*mnt))
    }

    /// Takes away a mount whose server is dead. Programs that have it open may need a moment to notice.
    pub fn unmount_dead(&self) -> Result<()> {
        let begun = Instant::now();
        while self.is_mounted() {
            let done =
                Command::new(&self.segno).arg("umount").arg(&self.mnt).output().context("segno umount")?;
            if !done.status.success() && begun.elapsed() > PATIENCE {
                bail!("segno umount: {}", String::from_utf8_lossy(&done.stderr));
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    pub fn unmount(&self, mut server: Server) -> Result<()> {
        run(Command::new(&self.segno).arg("umount").arg(&self.mnt))?;
        server.0.wait().context("waiting for the server")?;
        Ok(())
    }

    /// Kills the server of a mount with restart=remount. Returns how long no server answered.
    pub fn kill_kept(&self) -> Result<Duration> {
        let old = self.server()?.context("no server answers")?;
        rustix::process::kill_process(old, Signal::KILL).context("killing the server")?;
        let begun = Instant::now();
        while self.server().ok().flatten().is_none_or(|server| server == old) {
            if begun.elapsed() > PATIENCE {
                bail!("the mount did not come back");
            }
            sleep(Duration::from_millis(1));
        }
        Ok(begun.elapsed())
    }

    /// The process that answers at the mount.
    fn server(&self) -> Result<Option<Pid>> {
        let mut value = [0; 64];
        let n = rustix::fs::getxattr(&self.mnt, "system.segno.server", &mut value)?;
        let text = std::str::from_utf8(value.get(..n).unwrap_or_default())?;
        let pid: i32 = text.split(' ').next().unwrap_or_default().parse()?;
        Ok(Pid::from_raw(pid))
    }

    /// Waits until everything is where a loss of caches leaves it.
    pub fn sync(&self) -> Result<()> {
        run(Command::new(&self.segno).arg("sync").arg(&self.mnt)).map(drop)
    }

    /// Demands that the checker finds no error.
    pub fn check(&self) -> Result<()> {
        run(Command::new(&self.segno).arg("check").arg(&self.image)).map(drop)
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Err(e) = self.unmount_dead() {
            eprintln!("{} is left mounted: {e}", self.mnt.display());
        }
    }
}
