//! The server: from opening the image to closing it clean.
use super::options::Settings;
use crate::image;
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::Access;
use rustix::io::Errno;
use segno_device::{FileDevice, OpenOptions};
use segno_engine::options::JournalMode;
use segno_engine::{Background, JournalArea, MountOptions, Volume};
use segno_fuse::{FuseOptions, Transport};
use segno_journal::About;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to mount where. Paths are absolute.
#[derive(Clone, Debug)]
pub struct Plan {
    pub image: PathBuf,
    pub dir: PathBuf,
    pub settings: Settings,
}

impl Plan {
    /// Checks everything that can be checked without touching the image.
    pub fn new(image: &Path, dir: &Path, settings: Settings) -> Result<Self> {
        let image = image.canonicalize().with_context(|| format!("cannot open {}", image.display()))?;
        let meta = std::fs::metadata(dir).with_context(|| format!("cannot mount at {}", dir.display()))?;
        ensure!(meta.is_dir(), "cannot mount at {}: it is not a directory", dir.display());
        let dir = dir.canonicalize().with_context(|| format!("cannot mount at {}", dir.display()))?;
        if image.starts_with(&dir) {
            bail!("cannot mount at {}: that would hide the image itself", dir.display());
        }
        check_fuse()?;
        Ok(Self { image, dir, settings })
    }

    fn fuse_options(&self) -> FuseOptions {
        let s = &self.settings;
        FuseOptions {
            source: self.image.display().to_string(),
            read_only: s.engine.read_only,
            allow_other: s.allow_other,
            acl: s.engine.acl,
            extra: s.flags.clone(),
            auto_unmount: s.auto_unmount,
            threads: s.threads,
            transport: s.transport,
        }
    }
}

fn check_fuse() -> Result<()> {
    match rustix::fs::access("/dev/fuse", Access::READ_OK | Access::WRITE_OK) {
        Ok(()) => Ok(()),
        Err(Errno::ACCESS) => {
            bail!("cannot mount: /dev/fuse is closed to this user; root opens it: chmod 666 /dev/fuse")
        }
        Err(e) => bail!(
            "cannot mount: /dev/fuse: {e}; try `modprobe fuse`, or give the container --device /dev/fuse"
        ),
    }
}

/// The machine may need this server to write its dirty pages before it gets memory back: its own allocations must not
/// wait for that, and it should not be the one to be killed. Takes root; without it the machine copes as it can.
fn protect() {
    let _without = rustix::process::configure_io_flusher_behavior(true);
    let _without = std::fs::write("/proc/self/oom_score_adj", "-800");
}

/// Mounts and serves until somebody unmounts. `ready` is called when the mount answers.
pub fn run(plan: &Plan, ready: impl FnOnce(&Transport)) -> Result<()> {
    protect();
    segno_fuse::share_heap();
    let settings = &plan.settings;
    let mut paths = vec![plan.image.clone()];
    paths.extend_from_slice(&settings.devices);
    let options = OpenOptions { read_only: settings.engine.read_only, direct: settings.direct };
    let device = image::open(&paths, options)?;
    let mut engine = MountOptions { observer: image::teller(), ..settings.engine.clone() };
    if let Some(path) = &settings.journal {
        let file = FileDevice::open(path, options)
            .with_context(|| format!("cannot open the journal {}", path.display()))?;
        let area = JournalArea::whole(Arc::new(file));
        if let Err(segno_journal::Error::Absent { .. }) = About::read(&area) {
            area.prepare().with_context(|| format!("cannot write the journal {}", path.display()))?;
        }
        engine.journal = JournalMode::Beside(area);
    }
    let volume = Volume::mount(device, engine).with_context(|| image::cannot_read(&plan.image))?;
    let served = serve(&volume, plan, ready).with_context(|| format!("cannot serve {}", plan.dir.display()));
    let closed =
        volume.unmount().with_context(|| format!("the last checkpoint of {} failed", plan.image.display()));
    served.and(closed)
}

/// The background thread ends before the volume does.
fn serve(volume: &Arc<Volume>, plan: &Plan, ready: impl FnOnce(&Transport)) -> std::io::Result<()> {
    let _background = Background::start(volume)?;
    segno_fuse::serve(volume.clone(), &plan.dir, &plan.fuse_options(), ready)
}
