//! One volume on its way from hand to hand.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::cases::Case;

/// Size of a device's path in the superblock, its terminating zero included.
const DEVICE_PATH_MAX: usize = 64;

/// Files for which the first device gets another MiB.
const FILES_PER_MIB: u64 = 25;

/// Copy of this program in the folder of all jobs.
pub const PROGRAM: &str = "xtask";

pub struct Job {
    /// Row in the report.
    pub number: usize,
    pub case: Case,
    pub seed: u64,
    /// The writer loses power once, after its first turn.
    pub cut: bool,
    /// Folder of the images and of all manifests and logs about them.
    pub dir: PathBuf,
    pub devices: Vec<PathBuf>,
    pub steps: Vec<Step>,
    /// The side that could only read it.
    pub read_only: Option<&'static str>,
}

/// Something that was done or checked.
#[derive(Serialize)]
pub struct Step {
    pub name: String,
    /// The error; none if the step succeeded.
    pub failure: Option<String>,
}

impl Job {
    /// Makes the images, empty.
    pub fn new(work: &Path, number: usize, case: Case, seed: u64, cut: bool) -> Result<Self> {
        let dir = work.join(format!("{number:02}"));
        fs::create_dir_all(dir.join("mnt")).with_context(|| format!("making {}", dir.display()))?;
        let mut devices = Vec::new();
        for (letter, mib) in ('a'..).zip(case.mib) {
            let path = dir.join(format!("{letter}.img"));
            if case.mib.len() > 1 && path.as_os_str().len() >= DEVICE_PATH_MAX {
                bail!(
                    "{} is too long for a superblock's list of devices; give a shorter --work",
                    path.display()
                );
            }
            let file = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
            let more = if letter == 'a' { u64::from(case.files) / FILES_PER_MIB } else { 0 };
            file.set_len((mib + more) << 20).with_context(|| format!("sizing {}", path.display()))?;
            devices.push(path);
        }
        Ok(Self { number, case, seed, cut, dir, devices, steps: Vec::new(), read_only: None })
    }

    /// This program, as it was when the run began: a build in the meantime would change it under a guest's feet.
    pub fn program(&self) -> PathBuf {
        self.dir.with_file_name(PROGRAM)
    }

    /// The first device, by which the volume is mounted and checked.
    pub fn image(&self) -> &Path {
        self.devices.first().map_or(&self.dir, PathBuf::as_path)
    }

    /// A mount point on this machine.
    pub fn mount_point(&self) -> PathBuf {
        self.dir.join("mnt")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub fn read(&self, name: &str) -> Result<String> {
        let path = self.file(name);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }

    /// Arguments of mkfs for this volume.
    pub fn mkfs_arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = self.case.mkfs.iter().map(|&word| word.to_owned()).collect();
        for device in self.devices.iter().skip(1) {
            arguments.extend(["-c".to_owned(), device.display().to_string()]);
        }
        arguments.push(self.image().display().to_string());
        arguments
    }

    pub fn record(&mut self, name: impl Into<String>, result: Result<()>) {
        let failure = result.err().map(|error| format!("{error:#}"));
        self.steps.push(Step { name: name.into(), failure });
    }

    pub fn failure(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.failure.is_some())
    }
}
