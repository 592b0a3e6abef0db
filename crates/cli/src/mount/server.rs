//! The server of a mount: checks the request, serves the mount.
use super::options::Settings;
use super::volume::{Devices, absolute};
use super::watcher;
use crate::{image, show};
use anyhow::{Context, Result, anyhow, bail, ensure};
use rustix::fs::Access;
use rustix::io::Errno;
use segno_device::{BlockDevice, StorageKind, probe};
use segno_engine::Volume;
use segno_format::{BLOCK_SIZE, Features};
use segno_fuse::{Backing, FuseOptions, Started};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A checked request to mount. Paths are absolute.
#[derive(Clone, Debug)]
pub struct Plan {
    pub image: PathBuf,
    pub dir: PathBuf,
    pub settings: Settings,
}

impl Plan {
    /// Makes all checks that need no access to the image.
    pub fn new(image: &Path, dir: &Path, settings: Settings) -> Result<Self> {
        Self::of(absolute(image)?, dir, settings)
    }

    fn of(image: PathBuf, dir: &Path, settings: Settings) -> Result<Self> {
        let meta = std::fs::metadata(dir).map_err(|e| match e.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => anyhow!("there is no such directory: `mkdir {}` makes it", dir.display()),
            Some(Errno::NOTCONN) => {
                anyhow!("the server of a mount there has died: `segno umount {}`", dir.display())
            }
            _ => anyhow!(e),
        });
        let meta = meta.with_context(|| format!("cannot mount at {}", dir.display()))?;
        ensure!(meta.is_dir(), "cannot mount at {}: it is not a directory", dir.display());
        let dir = dir.canonicalize().with_context(|| format!("cannot mount at {}", dir.display()))?;
        if image.starts_with(&dir) {
            bail!("cannot mount at {}: that would hide the image itself", dir.display());
        }
        check_fuse()?;
        Ok(Self { image, dir, settings })
    }

    fn fuse_options(&self, backing: Backing) -> FuseOptions {
        let s = &self.settings;
        FuseOptions {
            source: self.image.display().to_string(),
            backing,
            read_only: s.engine.read_only,
            allow_other: s.allow_other,
            acl: s.has_acl(),
            extra: s.flags.clone(),
            auto_unmount: s.auto_unmount.then_some(watcher::command),
            threads: s.threads,
            transport: s.transport,
            no_sched_idle: s.no_sched_idle,
            writeback_cache: s.writeback_cache,
            shutdown: s.shutdown,
            ownership: s.ownership,
        }
    }

    /// The source of a mount of type `fuseblk`, which supports one writable device only.
    fn backing(&self, volume: &Volume, device: &dyn BlockDevice) -> Result<Backing> {
        let superblock = volume.superblock();
        let why_not = [
            (self.settings.fuse_only, "blk=off"),
            (!rustix::process::geteuid().is_root(), "only root mounts block devices"),
            (self.settings.engine.read_only, "a read-only mount has nothing to sync"),
            (superblock.devices.len() > 1, "the volume is on several devices"),
            (superblock.features.contains(Features::BLKZONED), "the volume is zoned"),
        ];
        if let Some((_, why)) = why_not.into_iter().find(|(applies, _)| *applies) {
            return Ok(Backing::Nothing(why.into()));
        }
        let storage = probe(&self.image)?;
        Ok(match (storage.kind, device.claim()) {
            (StorageKind::Regular, _) => Backing::Image(self.image.clone()),
            (StorageKind::BlockDevice, Some(claim)) if storage.bytes.is_multiple_of(BLOCK_SIZE as u64) => {
                Backing::Device(claim)
            }
            // Its page cache has smaller blocks, and mounting would drop it.
            _ => Backing::Nothing("the size of the device is no multiple of 4 KiB".into()),
        })
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

/// The kernel may depend on this server to write dirty pages before it can reclaim memory: allocations of the server must
/// not wait for that, and the OOM killer should spare it. Needs root; without it, both stay as they are.
fn protect() {
    let _unprivileged = rustix::process::configure_io_flusher_behavior(true);
    let _unprivileged = std::fs::write("/proc/self/oom_score_adj", "-800");
}

/// What `mount -v` says of a volume with more nodes than its reserve guards.
fn beyond_guard(volume: &Volume) -> Option<String> {
    let nodes = volume.node_count();
    let guarded = volume.guarded();
    (!guarded.covers(nodes)).then(|| {
        format!(
            "overwrites may fail when the volume is full, space is {} (in use: {nodes})",
            show::guarded(guarded)
        )
    })
}

/// Root without the right to mount is in a container.
fn advise(e: std::io::Error) -> anyhow::Error {
    let refused = e.to_string().contains("Operation not permitted") && rustix::process::geteuid().is_root();
    if refused { anyhow!("{e}; a container needs --cap-add SYS_ADMIN") } else { e.into() }
}

/// Mounts and serves until the mount ends. Calls `ready` when the mount responds, with what `mount -v` says besides.
pub fn run(plan: &Plan, ready: impl FnOnce(&Started, Option<String>)) -> Result<()> {
    serve(plan, || Devices::open(&plan.image, &plan.settings, image::open_recorded), ready)
}

/// Mounts a device of the caller at a directory as `segno mount -f` does, with the same options, and serves until the mount ends.
/// /proc/mounts shows it as `name`. Calls `ready` with the transport when the mount responds.
pub fn mount_device(
    device: Arc<dyn BlockDevice>,
    name: &str,
    dir: &Path,
    options: &[String],
    ready: impl FnOnce(String),
) -> Result<()> {
    let mut settings = Settings::parse(options, rustix::process::geteuid().is_root())?;
    ensure!(settings.devices.is_empty(), "the options name other devices than {name}");
    // The process that unmounts is another call of the program `segno`.
    ensure!(!settings.auto_unmount, "auto_unmount is for `segno mount`: leave it out");
    // There is no file that could be the source of another type.
    settings.fuse_only = true;
    let plan = Plan::of(name.into(), dir, settings)?;
    let devices = || Devices::of(device, &plan.image, &plan.settings);
    serve(&plan, devices, |started, _| ready(started.transport.to_string()))
}

fn serve(
    plan: &Plan,
    devices: impl FnOnce() -> Result<Devices>,
    ready: impl FnOnce(&Started, Option<String>),
) -> Result<()> {
    protect();
    segno_fuse::share_heap();
    let settings = &plan.settings;
    let served = devices()?.mount()?;
    let fuse = plan.fuse_options(plan.backing(&served.volume, &*served.device)?);
    let note = beyond_guard(&served.volume).filter(|_| !settings.engine.read_only);
    let close = {
        let closing = served.closing.clone();
        move || closing.run()
    };
    let volume = served.volume.clone();
    let result = segno_fuse::serve(volume, &plan.dir, &fuse, close, |started| ready(started, note))
        .map_err(advise)
        .with_context(|| format!("cannot serve {}", plan.dir.display()));
    served.end(result)
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::MemDevice;
    use segno_engine::MountOptions;
    use segno_mkfs::{Member, MkfsOptions};

    fn note(overprovision_percent: Option<f64>, reserved_sections: Option<u32>) -> Option<String> {
        let device = Arc::new(MemDevice::new(100 << 8));
        let member = Member { device: device.clone(), path: String::new(), zeroed: true };
        let opts = MkfsOptions { overprovision_percent, reserved_sections, ..MkfsOptions::default() };
        segno_mkfs::format(&[member], &opts).unwrap();
        let engine = MountOptions { background: false, ..MountOptions::default() };
        beyond_guard(&Volume::mount(device, engine).unwrap())
    }

    #[test]
    fn a_volume_beyond_the_guard_is_noted() {
        let said = "overwrites may fail when the volume is full, space is not guarded (in use: 1)";
        assert_eq!(note(Some(1.0), Some(6)).as_deref(), Some(said));
        assert_eq!(note(Some(1.0), Some(12)), None);
        assert_eq!(note(None, None), None);
    }
}
