//! The machine of a run, which figures depend on.
use crate::raw::Raw;
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Version of this program.
    pub version: String,
    /// The commit that it is built from, if it is built from a repository.
    pub commit: Option<String>,
    /// The command line.
    pub command: Vec<String>,
    pub cpu: String,
    pub cpus: usize,
    pub ram_bytes: u64,
    pub kernel: String,
    /// Load average of the last minute when the run started.
    pub load: f64,
    /// Storage of the volume; `None` if the experiment used several.
    pub device: Option<Storage>,
}

/// A device and its raw performance.
#[derive(Clone, Debug, Serialize)]
pub struct Storage {
    pub name: String,
    /// `image`, `block device` or `memory`.
    pub kind: &'static str,
    pub bytes: u64,
    /// File system that an image file is on.
    pub host_fs: Option<String>,
    /// Device that an image file is on.
    pub host_device: Option<String>,
    pub raw: Option<Raw>,
}

impl Machine {
    /// This machine now.
    pub fn here(device: Option<Storage>) -> Self {
        let read = |p: &str| fs::read_to_string(p).unwrap_or_default();
        let uname = rustix::system::uname();
        let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: None,
            command: std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect(),
            cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| text(uname.machine())),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            ram_bytes: field(&read("/proc/meminfo"), "MemTotal").map_or(0, |f| kib(&f)),
            kernel: format!("{} {}", text(uname.sysname()), text(uname.release())),
            load: read("/proc/loadavg").split(' ').next().and_then(|w| w.parse().ok()).unwrap_or(0.0),
            device,
        }
    }
}

fn field(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|l| l.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kib(field: &str) -> u64 {
    field.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0).saturating_mul(1024)
}

/// Available memory in bytes.
pub fn available_memory() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    field(&meminfo, "MemAvailable").map_or(0, |f| kib(&f))
}

/// File system type and device of the mount that a path is on.
pub fn host_of(path: &Path) -> (Option<String>, Option<String>) {
    let Ok(meta) = fs::metadata(path) else { return (None, None) };
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let id = format!("{major}:{minor}");
    let line = table.lines().find(|l| l.split(' ').nth(2) == Some(&id));
    let tail = line.and_then(|l| l.split_once(" - ")).map(|(_, tail)| tail);
    let mut words = tail.into_iter().flat_map(|t| t.split(' '));
    (words.next().map(str::to_owned), words.next().map(str::to_owned))
}

/// A folder for files that a run needs and removes: `$TMPDIR`, else `/var/tmp`, which unlike `/tmp` is never in memory.
pub fn scratch_root() -> PathBuf {
    std::env::var_os("TMPDIR").map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

/// Time that this process has run.
pub fn cpu_seconds() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}
