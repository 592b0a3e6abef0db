//! Targets of workloads: a volume in this process, or a directory of any mounted file system.
use anyhow::{Context, Result};
use segno_engine::{Owner, Volume};
use segno_format::Ino;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Operations on names below one directory. A name has at most one `/`.
pub trait Fs: Send + Sync {
    fn mkdir(&self, name: &str) -> Result<()>;
    fn rmdir(&self, name: &str) -> Result<()>;
    fn create(&self, name: &str) -> Result<Box<dyn File>>;
    fn open(&self, name: &str) -> Result<Box<dyn File>>;
    fn unlink(&self, name: &str) -> Result<()>;
    /// Size of a file.
    fn stat(&self, name: &str) -> Result<u64>;
    /// Number of names in a directory.
    fn list(&self, dir: &str) -> Result<usize>;
    /// Syncs everything.
    fn sync(&self) -> Result<()>;
}

/// An open file; dropping it closes it.
pub trait File: Send {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize>;
    fn write(&self, offset: u64, data: &[u8]) -> Result<()>;
    fn size(&self) -> Result<u64>;
    fn fsync(&self) -> Result<()>;
}

/// A volume in this process.
pub struct InProcess {
    volume: Arc<Volume>,
}

impl InProcess {
    pub fn new(volume: Arc<Volume>) -> Self {
        Self { volume }
    }

    fn ino(&self, name: &str) -> Result<Ino> {
        name.split('/').try_fold(Ino::ROOT, |dir, part| Ok(self.volume.lookup(dir, part.as_bytes())?.ino))
    }

    fn place<'a>(&self, name: &'a str) -> Result<(Ino, &'a [u8])> {
        match name.rsplit_once('/') {
            Some((dir, last)) => Ok((self.ino(dir)?, last.as_bytes())),
            None => Ok((Ino::ROOT, name.as_bytes())),
        }
    }

    fn file(&self, ino: Ino) -> Box<dyn File> {
        Box::new(VolumeFile { volume: self.volume.clone(), ino })
    }
}

impl Fs for InProcess {
    fn mkdir(&self, name: &str) -> Result<()> {
        let (dir, last) = self.place(name)?;
        Ok(self.volume.mkdir(dir, last, 0o755, Owner::default()).map(drop)?)
    }
    fn rmdir(&self, name: &str) -> Result<()> {
        let (dir, last) = self.place(name)?;
        Ok(self.volume.rmdir(dir, last)?)
    }
    fn create(&self, name: &str) -> Result<Box<dyn File>> {
        let (dir, last) = self.place(name)?;
        let made = self.volume.create(dir, last, 0o644, Owner::default())?;
        Ok(self.file(made.ino))
    }
    fn open(&self, name: &str) -> Result<Box<dyn File>> {
        let ino = self.ino(name)?;
        self.volume.open(ino)?;
        Ok(self.file(ino))
    }
    fn unlink(&self, name: &str) -> Result<()> {
        let (dir, last) = self.place(name)?;
        Ok(self.volume.unlink(dir, last)?)
    }
    fn stat(&self, name: &str) -> Result<u64> {
        Ok(self.volume.getattr(self.ino(name)?)?.size)
    }
    fn list(&self, dir: &str) -> Result<usize> {
        let mut n = 0;
        self.volume.readdir(self.ino(dir)?, 0, &mut |_| {
            n += 1;
            true
        })?;
        Ok(n)
    }
    fn sync(&self) -> Result<()> {
        Ok(self.volume.sync()?)
    }
}

struct VolumeFile {
    volume: Arc<Volume>,
    ino: Ino,
}

impl File for VolumeFile {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        Ok(self.volume.read(self.ino, offset, into)?)
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        Ok(self.volume.write(self.ino, offset, data).map(drop)?)
    }
    fn size(&self) -> Result<u64> {
        Ok(self.volume.getattr(self.ino)?.size)
    }
    fn fsync(&self) -> Result<()> {
        Ok(self.volume.fsync(self.ino)?)
    }
}

impl Drop for VolumeFile {
    fn drop(&mut self) {
        // Fails only on a stopped volume, which the next operation reports.
        let _stopped = self.volume.release(self.ino);
    }
}

/// A directory of a mounted file system.
pub struct Mounted {
    dir: PathBuf,
}

impl Mounted {
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    fn file(&self, name: &str, opened: io::Result<fs::File>) -> Result<Box<dyn File>> {
        Ok(Box::new(opened.with_context(|| self.dir.join(name).display().to_string())?))
    }
}

impl Fs for Mounted {
    fn mkdir(&self, name: &str) -> Result<()> {
        Ok(fs::create_dir(self.dir.join(name))?)
    }
    fn rmdir(&self, name: &str) -> Result<()> {
        Ok(fs::remove_dir(self.dir.join(name))?)
    }
    fn create(&self, name: &str) -> Result<Box<dyn File>> {
        let how = fs::File::options().read(true).write(true).create_new(true).open(self.dir.join(name));
        self.file(name, how)
    }
    fn open(&self, name: &str) -> Result<Box<dyn File>> {
        self.file(name, fs::File::options().read(true).write(true).open(self.dir.join(name)))
    }
    fn unlink(&self, name: &str) -> Result<()> {
        Ok(fs::remove_file(self.dir.join(name))?)
    }
    fn stat(&self, name: &str) -> Result<u64> {
        Ok(fs::symlink_metadata(self.dir.join(name))?.len())
    }
    fn list(&self, dir: &str) -> Result<usize> {
        let mut n = 0;
        for entry in fs::read_dir(self.dir.join(dir))? {
            entry?;
            n += 1;
        }
        Ok(n)
    }
    fn sync(&self) -> Result<()> {
        // On a mount of segno, fsync of a directory commits everything; elsewhere syncfs does.
        let dir = fs::File::open(&self.dir)?;
        rustix::fs::syncfs(&dir)?;
        Ok(dir.sync_all()?)
    }
}

impl File for fs::File {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|r| !r.is_empty()) {
            match self.read_at(rest, offset + done as u64)? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }
    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        Ok(self.write_all_at(data, offset)?)
    }
    fn size(&self) -> Result<u64> {
        Ok(self.metadata()?.len())
    }
    fn fsync(&self) -> Result<()> {
        Ok(self.sync_all()?)
    }
}
