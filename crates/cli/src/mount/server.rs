//! The server of a mount: checks the request, serves the mount.
use super::options::Settings;
use super::volume::{Devices, absolute, log_recovery};
use crate::confine::{self, ConfineOption, Confinement, Rings};
use crate::{show, store};
use anyhow::{Context, Result, anyhow, ensure};
use rustix::io::Errno;
use segno::inspect;
use segno_device::{BlockDevice, StorageKind, open_volume_recorded, probe};
use segno_engine::Volume;
use segno_fuse::{Backing, Broker, Choice, FileSystem, FuseOptions, Queues, Serving, Started, Unmounter};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

/// The first kernel that lets all who may write a device reset its zones.
const ZONES_FOR_ALL: (u32, u32) = (5, 14);

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
        let dir = segno_fuse::mountpoint(dir, &image)
            .with_context(|| format!("cannot mount at {}", dir.display()))?;
        Ok(Self { image, dir, settings })
    }

    fn fuse_options(&self, device: Option<&dyn BlockDevice>) -> Result<FuseOptions> {
        let s = &self.settings;
        let mut fuse = FuseOptions {
            source: self.image.display().to_string(),
            exclusive_open: device.and_then(BlockDevice::exclusive_open),
            read_only: s.engine.read_only,
            acl: s.fuse.checks_acl(&s.engine),
            in_force: s.in_force().to_string(),
            ..s.fuse.clone()
        };
        fuse.backing = match device.map(|device| (device, inspect::superblock(device))) {
            None => Backing::Nothing("the volume is on an object store".into()),
            Some((_, Err(_))) => Backing::Nothing("the volume cannot be mounted".into()),
            Some((device, Ok(superblock))) => fuse.backing_of(&self.image, device, &superblock)?,
        };
        Ok(fuse)
    }

    fn devices(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.image].into_iter().chain(&self.settings.devices)
    }

    /// Starts the process that mounts a volume on this device; `None` for one on an object store.
    fn start_broker(&self, device: Option<&dyn BlockDevice>) -> Result<(Broker, FuseOptions)> {
        let fuse = self.fuse_options(device)?;
        let broker = Broker::start(&self.dir, &fuse)
            .with_context(|| format!("cannot mount at {}", self.dir.display()))?;
        Ok((broker, fuse))
    }

    /// The rights of the server. It opens a further descriptor of the connection for each thread, and the device again if the mount did not
    /// open it exclusively. Its threads change their scheduling policy.
    fn confinement(&self, verbose: &ConfineOption) -> Confinement {
        let fuse = &self.settings.fuse;
        let has_old_zones = || {
            segno_fuse::kernel_version() < Some(ZONES_FOR_ALL)
                && self.devices().any(|path| is_block_device(path))
        };
        Confinement::new(verbose)
            .device(Path::new("/dev/fuse"))
            .opens_exclusively(&self.image)
            .places_threads()
            .given(fuse.transport != Choice::Classic, Confinement::makes_rings)
            .given(!fuse.no_sched_idle && !segno_fuse::permit_sched_idle(), Confinement::sets_policies)
            .given(has_old_zones(), Confinement::resets_zones)
            .caches(self.settings.store.cache.as_deref())
    }
}

fn is_block_device(path: &Path) -> bool {
    probe(path).is_ok_and(|storage| storage.kind == StorageKind::BlockDevice)
}

/// Settings of the process, made while it has the right to. The kernel may depend on this server to write dirty pages before it can
/// reclaim memory: allocations of the server must not wait for that, and the OOM killer should spare it. Needs root; without it, both
/// stay as they are.
fn prepare() {
    // EPERM: both stay as they are.
    let _unprivileged = rustix::process::configure_io_flusher_behavior(true);
    let _unprivileged = std::fs::write("/proc/self/oom_score_adj", "-800");
    segno_fuse::share_heap();
}

/// The note of `mount -v` for a volume with more nodes than its reserve guards.
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
    let is_refusal =
        e.kind() == ErrorKind::PermissionDenied && Errno::from_io_error(&e) != Some(Errno::ACCESS);
    if is_refusal && rustix::process::geteuid().is_root() {
        anyhow!("{e}; a container needs --cap-add SYS_ADMIN")
    } else {
        e.into()
    }
}

/// Mounts and serves until the mount ends, after dropping all rights that the server does not need. Calls `ready` when the mount responds,
/// with a note for `mount -v`.
pub fn run(plan: &Plan, verbose: &ConfineOption, ready: impl FnOnce(&Started, Option<String>)) -> Result<()> {
    prepare();
    let (devices, broker, fuse, queues) = open_confined(plan, verbose)?;
    serve(plan, devices, (broker, &fuse, queues), |started, note| {
        // All rings are enabled.
        confine::refuse_rings(Rings::All);
        ready(started, note);
    })
}

/// Opens storage, starts the broker, enters the restrictions and makes the rings, in an order in which nothing of the volume but superblock
/// and index of an image is read before the last of it.
fn open_confined(plan: &Plan, verbose: &ConfineOption) -> Result<(Devices, Broker, FuseOptions, Queues)> {
    let (image, confinement) = (&plan.image, plan.confinement(verbose));
    let open = || Devices::open(image, &plan.settings, open_volume_recorded);
    let rings = |fuse| {
        let queues = Queues::prepare(fuse);
        confine::refuse_rings(Rings::New);
        queues
    };
    if store::is_url(image) {
        let (broker, fuse) = plan.start_broker(None)?;
        // The client of a store starts threads and reads answers when it opens.
        confinement.with_store(image).enter();
        let queues = rings(&fuse);
        return Ok((open()?, broker, fuse, queues));
    }
    let devices = open()?;
    let (broker, fuse) = plan.start_broker(Some(&*devices.device))?;
    confinement.enter();
    let queues = rings(&fuse);
    Ok((devices, broker, fuse, queues))
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
    let mut settings = Settings::of_caller(options)?;
    ensure!(settings.devices.is_empty(), "the options name other devices than {name}");
    // There is no file that could be the source of another type.
    settings.fuse.fuse_only = true;
    let plan = Plan::of(name.into(), dir, settings)?;
    prepare();
    let (broker, fuse) = plan.start_broker(Some(&*device))?;
    let devices = Devices::of(device, &plan.image, &plan.settings)?;
    let queues = Queues::prepare(&fuse);
    serve(&plan, devices, (broker, &fuse, queues), |started, _| ready(started.transport.to_string()))
}

/// Mounts another file system at a directory as `segno mount -f` mounts the volume of this image: with the same options, restrictions and
/// session. `open` gets the open image. Serves until the mount ends, and calls `ready` with the transport when it responds.
pub fn mount_file_system<F: FileSystem + 'static>(
    image: &Path,
    dir: &Path,
    options: &[String],
    open: impl FnOnce(Arc<dyn BlockDevice>) -> Result<Arc<F>>,
    ready: impl FnOnce(String),
) -> Result<Arc<F>> {
    let plan = Plan::new(image, dir, Settings::of_caller(options)?)?;
    prepare();
    let (devices, broker, fuse, queues) = open_confined(&plan, &ConfineOption::default())?;
    let fs = open(devices.device)?;
    let serving = until_signal(|| Serving::of(fs.clone(), broker, &fuse, queues)).map_err(advise)?;
    confine::refuse_rings(Rings::All);
    ready(serving.started.transport.to_string());
    serving.wait().map_err(advise)?;
    Ok(fs)
}

fn serve(
    plan: &Plan,
    devices: Devices,
    (broker, fuse, queues): (Broker, &FuseOptions, Queues),
    ready: impl FnOnce(&Started, Option<String>),
) -> Result<()> {
    let served = devices.mount()?;
    let note = beyond_guard(&served.volume).filter(|_| !plan.settings.engine.read_only);
    let close = {
        let closing = served.closing.clone();
        move || closing.run()
    };
    let at = |failed| move || format!("{failed} {}", plan.dir.display());
    let recovered = served.volume.clone();
    let started = until_signal(|| Serving::start(served.volume.clone(), broker, fuse, queues, close))
        .map_err(advise)
        .with_context(at("cannot mount at"));
    let result = started.and_then(|serving| {
        ready(&serving.started, note);
        log_recovery(&recovered, &plan.image);
        serving.wait().map_err(advise).with_context(at("the mount ended early:"))
    });
    served.end(result)
}

/// Mounts. Signals detach the mount.
fn until_signal(start: impl FnOnce() -> std::io::Result<(Serving, Unmounter)>) -> std::io::Result<Serving> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let (serving, unmounter) = start()?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            unmounter.detach();
        }
    })?;
    Ok(serving)
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
