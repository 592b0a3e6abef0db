//! The place of an experiment's volumes: a named image or device, an image in a scratch folder, or memory.
use crate::machine::{Storage, host_of, scratch_root};
use crate::raw;
use anyhow::{Context, Result, bail, ensure};
use segno_device::{BlockDevice, Contents, FileDevice, MemDevice, OpenOptions, StorageKind, probe};
use segno_format::BLOCK_SIZE;
use segno_mkfs::{Member, MkfsOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The place of volumes.
#[derive(Debug)]
pub struct Place {
    kind: Kind,
    bytes: u64,
    /// Image and folder are removed at the end.
    scratch: bool,
}

#[derive(Debug)]
enum Kind {
    Image(PathBuf),
    Device(PathBuf),
    Memory,
}

impl Place {
    /// The image or device that the user named, whose contents are lost, or an image of that size in a scratch folder.
    pub fn new(named: Option<&Path>, force: bool, bytes: u64) -> Result<Self> {
        match named {
            None => Self::scratch(bytes),
            Some(path) => Self::named(path, force, bytes),
        }
    }

    /// In memory: the device takes no time, so only the program is measured.
    pub fn memory(bytes: u64) -> Self {
        Self { kind: Kind::Memory, bytes, scratch: false }
    }

    fn scratch(bytes: u64) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = scratch_root().join(format!("segno-bench-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self { kind: Kind::Image(dir.join("image")), bytes, scratch: true })
    }

    fn named(path: &Path, force: bool, bytes: u64) -> Result<Self> {
        if !path.exists() {
            return Ok(Self { kind: Kind::Image(path.to_owned()), bytes, scratch: false });
        }
        let found = probe(path)?;
        let device = FileDevice::open(path, OpenOptions { read_only: true, direct: false })?;
        let contents = Contents::of(&device)?;
        ensure!(force || contents.is_blank(), "{} {contents}; --force overwrites it", path.display());
        let kind = match found.kind {
            StorageKind::Regular => Kind::Image(path.to_owned()),
            StorageKind::BlockDevice => Kind::Device(path.to_owned()),
        };
        let bytes = if found.kind == StorageKind::BlockDevice { found.bytes } else { bytes };
        Ok(Self { kind, bytes, scratch: false })
    }

    /// The image or device; none in memory.
    pub fn path(&self) -> Option<&Path> {
        match &self.kind {
            Kind::Image(path) | Kind::Device(path) => Some(path),
            Kind::Memory => None,
        }
    }

    /// In words: memory, or an image on a file system, or a device.
    pub fn describe(&self) -> String {
        match &self.kind {
            Kind::Image(path) => {
                format!("image on {}", host_of(path).0.unwrap_or_else(|| "a file system".into()))
            }
            Kind::Device(_) => "block device".into(),
            Kind::Memory => "in memory".into(),
        }
    }

    /// An image is emptied first, so that it has no storage allocated.
    pub fn device(&self) -> Result<Arc<dyn BlockDevice>> {
        Ok(match &self.kind {
            Kind::Image(path) => Arc::new(FileDevice::create(path, self.bytes, true)?),
            Kind::Device(path) => Arc::new(FileDevice::open(path, OpenOptions::default())?),
            Kind::Memory => Arc::new(MemDevice::new(self.bytes / BLOCK_SIZE as u64)),
        })
    }

    /// A fresh volume and its format.
    pub fn format(&self, options: &MkfsOptions) -> Result<(Arc<dyn BlockDevice>, String)> {
        let device = self.device()?;
        let zeroed = !matches!(self.kind, Kind::Device(_));
        let member = Member { device: device.clone(), path: String::new(), zeroed };
        let report = segno_mkfs::format(&[member], options)?;
        Ok((device, format!("{options:#?}\n{report:#?}")))
    }

    /// Describes the storage and, if there is time, measures its raw performance. Overwrites its contents.
    pub fn storage(&self, time: Option<Duration>) -> Result<Storage> {
        let device = self.device()?;
        let raw = time.map(|t| raw::measure(&*device, t)).transpose()?;
        let (name, kind) = match &self.kind {
            Kind::Image(path) => (path.display().to_string(), "image"),
            Kind::Device(path) => (path.display().to_string(), "block device"),
            Kind::Memory => ("memory".to_owned(), "memory"),
        };
        let (host_fs, host_device) = match &self.kind {
            Kind::Image(path) => host_of(path),
            _ => (None, None),
        };
        Ok(Storage { name, kind, bytes: self.bytes, host_fs, host_device, raw })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let (true, Kind::Image(path)) = (self.scratch, &self.kind) {
            let removed =
                std::fs::remove_file(path).and_then(|()| path.parent().map_or(Ok(()), std::fs::remove_dir));
            if let Err(e) = removed {
                eprintln!("segno: note: {} is left behind: {e}", path.display());
            }
        }
    }
}

/// Fails unless this many bytes are free in the file system of the path.
pub fn ensure_room(path: &Path, bytes: u64) -> Result<()> {
    let dir = path.ancestors().find(|p| p.is_dir()).unwrap_or(Path::new("."));
    let fs = rustix::fs::statvfs(dir).with_context(|| format!("cannot look at {}", dir.display()))?;
    let free = fs.f_bavail.saturating_mul(fs.f_frsize);
    if free < bytes {
        let mib = |b: u64| b >> 20;
        bail!(
            "{} has {} MiB free, {} are needed: name another place with --image",
            dir.display(),
            mib(free),
            mib(bytes)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scratch_image_goes_away_and_a_named_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let named = dir.path().join("image");
        let place = Place::new(Some(&named), false, 64 << 20).unwrap();
        place.format(&MkfsOptions::default()).unwrap();
        let storage = place.storage(None).unwrap();
        assert_eq!((storage.kind, storage.bytes, storage.raw), ("image", 64 << 20, None));
        drop(place);
        assert!(named.exists());

        let scratch = Place::new(None, false, 64 << 20).unwrap();
        drop(scratch.device().unwrap());
        let path = scratch.path().unwrap().to_owned();
        assert!(path.exists());
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn what_holds_a_file_system_is_not_overwritten_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        Place::new(Some(&image), false, 64 << 20).unwrap().format(&MkfsOptions::default()).unwrap();
        let e = Place::new(Some(&image), false, 64 << 20).unwrap_err().to_string();
        assert!(e.contains("holds") && e.contains("--force"), "{e}");
        Place::new(Some(&image), true, 64 << 20).unwrap();
    }

    #[test]
    fn too_little_room_is_told_before_the_run() {
        ensure_room(Path::new("/var/tmp/not-there/image"), 1).unwrap();
        let e = ensure_room(Path::new("/var/tmp"), u64::MAX).unwrap_err().to_string();
        assert!(e.contains("--image"), "{e}");
    }
}
