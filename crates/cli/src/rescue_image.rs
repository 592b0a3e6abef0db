//! A new volume as the target of a rescue.
use crate::new_file::NewFile;
use anyhow::{Context, Result};
use segno::{
    Device, Discard, Features, FormatOptions, MountOptions, OpenOptions, SetMetadata, Special, Time, Volume,
};
use segno_device::BlockDevice;
use segno_format::BLOCK_SIZE;
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, RawInode};
use segno_rescue::attrs::{device_number, xattrs};
use segno_rescue::output::{Copied, Sink, Source};
use segno_rescue::{RescueError, Volume as Damaged};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Features that keep what the files have.
const FEATURES: Features =
    Features::EXTRA_ATTR.union(Features::INODE_CRTIME).union(Features::FLEXIBLE_INLINE_XATTR);

/// A volume that is being filled.
pub struct ImageTarget {
    new: NewFile,
    volume: Volume,
}

impl ImageTarget {
    /// Makes an image file of a size with these permissions, which has its name when it is closed, and formats it.
    pub fn create(path: &Path, bytes: u64, mode: u32) -> Result<Self> {
        let size = bytes - bytes % BLOCK_SIZE as u64;
        let new = NewFile::create_new(path, mode)?;
        let device = Device::from(Arc::new(new.device(size)?) as Arc<dyn BlockDevice>);
        let options = FormatOptions { features: FEATURES, discard: Some(true), ..Default::default() };
        let made = segno::format(&device, &options)
            .and_then(|()| Volume::open_with(&device, &MountOptions::new().discard(Discard::Never)));
        let volume =
            made.with_context(|| format!("cannot make a volume of {size} bytes on {}", path.display()))?;
        Ok(Self { new, volume })
    }

    /// Makes everything durable, and names the file.
    pub fn close(self) -> Result<()> {
        self.volume.close().context("cannot close the new volume")?;
        self.new.finish()
    }

    /// Writes the content; blocks that are not given stay holes.
    fn regular(&self, path: &Path, source: &Source<'_>) -> io::Result<Copied> {
        let options = OpenOptions::new().write(true).create_new(true).mode(0o600);
        let file = self.volume.open_file_with(path, &options)?;
        let holes = source.content(&mut |mut offset, mut bytes| {
            while !bytes.is_empty() {
                let n = file.write_at(bytes, offset)?;
                offset += n as u64;
                bytes = bytes.get(n..).unwrap_or_default();
            }
            Ok(())
        })?;
        file.set_len(source.file.raw().i_size.get())?;
        Ok(Copied { holes, ..Copied::default() })
    }

    fn symlink(&self, path: &Path, source: &Source<'_>) -> io::Result<Copied> {
        let to = match source.target()? {
            Ok(to) => to,
            Err(failed) => return Ok(failed),
        };
        self.volume.symlink(OsStr::from_bytes(&to), path)?;
        Ok(Copied::default())
    }

    fn special(&self, path: &Path, source: &Source<'_>, kind: FileType) -> io::Result<Copied> {
        let (major, minor) = device_number(source.file);
        let special = match kind {
            FileType::Fifo => Special::Fifo,
            FileType::Socket => Special::Socket,
            FileType::CharDevice => Special::CharDevice { major, minor },
            FileType::BlockDevice => Special::BlockDevice { major, minor },
            _ => return Ok(Copied { failed: Some("its kind is unknown"), ..Copied::default() }),
        };
        self.volume.create_special(path, special)?;
        Ok(Copied::default())
    }

    /// Extended attributes, owner, mode and times.
    fn attributes(&self, path: &Path, source: &Source<'_>) -> io::Result<Copied> {
        let raw = source.file.raw();
        let mut copied = Copied { encrypted: raw.advise().contains(Advise::ENCRYPT), ..Copied::default() };
        if !raw.is_symlink() {
            let (list, complete) = xattrs(source.volume, source.file);
            copied.xattrs_lost = !complete;
            for a in &list {
                let Some(name) = a.full_name() else { continue };
                let set = self.volume.set_xattr(path, OsStr::from_bytes(&name), &a.value);
                copied.refused_xattrs += u32::from(set.is_err());
            }
        }
        self.volume.set_symlink_metadata(path, &metadata(raw))?;
        Ok(copied)
    }
}

impl Sink for ImageTarget {
    fn make_dir(&mut self, path: &[Vec<u8>]) -> Result<(), RescueError> {
        let path = joined(path);
        self.volume.create_dir(&path).map_err(|e| RescueError::target("cannot make", path, e))
    }

    fn copy(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<Copied, RescueError> {
        let path = joined(path);
        let made = match FileType::of_mode(source.file.raw().i_mode.get()) {
            FileType::Regular => self.regular(&path, source),
            FileType::Symlink => self.symlink(&path, source),
            kind => self.special(&path, source, kind),
        };
        let done = made.and_then(|copied| match copied.failed {
            Some(_) => Ok(copied),
            None => Ok(Copied { holes: copied.holes, ..self.attributes(&path, source)? }),
        });
        done.map_err(|e| RescueError::target("cannot write", path, e))
    }

    fn link(&mut self, first: &[Vec<u8>], path: &[Vec<u8>]) -> Result<(), RescueError> {
        let (first, path) = (joined(first), joined(path));
        self.volume.hard_link(first, &path).map_err(|e| RescueError::target("cannot link", path, e))
    }

    fn finish_dir(&mut self, path: &[Vec<u8>], source: &Source<'_>) -> Result<(), RescueError> {
        let path = joined(path);
        let done = self.attributes(&path, source).map(drop);
        done.map_err(|e| RescueError::target("attributes of", path, e))
    }
}

/// Nothing is left out: files in an image give no rights on the host.
fn metadata(raw: &RawInode) -> SetMetadata {
    let time = |secs: u64, nsec: u32| Time { secs: secs.cast_signed(), nsec: nsec.min(999_999_999) };
    let new = SetMetadata::new()
        .owner(raw.i_uid.get(), raw.i_gid.get())
        .accessed(time(raw.i_atime.get(), raw.i_atime_nsec.get()))
        .modified(time(raw.i_mtime.get(), raw.i_mtime_nsec.get()));
    if raw.is_symlink() { new } else { new.mode(raw.i_mode.get().into()) }
}

fn joined(path: &[Vec<u8>]) -> PathBuf {
    path.iter().fold(PathBuf::from("/"), |p, name| p.join(OsStr::from_bytes(name)))
}

/// Bytes that the new volume needs: as many as the old one has.
pub fn size_of(volume: &Damaged<'_>, source_blocks: u64) -> u64 {
    let blocks = volume.geo.map_or(source_blocks, |geo| geo.block_count);
    blocks.saturating_mul(BLOCK_SIZE as u64)
}
