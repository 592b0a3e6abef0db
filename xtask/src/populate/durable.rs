//! Files with a promise: each is fsynced and then written down, until the power goes.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use rustix::fs::{XattrFlags, lsetxattr};

use super::Worker;
use super::contents::random_bytes;
use crate::manifest::{Detail, escape, line_of};

/// Change files and fsync them one by one, writing down what has to survive a power cut
///
/// Other files change in between without fsync. LOG gets a manifest line of the data that fsync acknowledged,
/// on disk before the next change begins. After the cut `manifest-diff --subset LOG MANIFEST` has to find
/// nothing. Run it on a tree that was synced. LOG.touched names the files of the tree before they are
/// changed.
#[derive(Args)]
pub struct Durable {
    dir: PathBuf,
    /// Manifest of the promised files; not on the volume under test
    log: PathBuf,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of promises after which it ends
    #[arg(long, default_value_t = 200)]
    count: u32,
}

impl Durable {
    pub fn run(self) -> Result<ExitCode> {
        let worker = Worker::new(self.dir, self.seed, u64::MAX)?;
        let log = File::create(&self.log).with_context(|| format!("creating {}", self.log.display()))?;
        let touched = self.log.with_added_extension("touched");
        let touched = File::create(&touched).with_context(|| format!("creating {}", touched.display()))?;
        let mut promises = Promises { worker, log, touched, noise: Vec::new() };
        for number in 0..self.count {
            promises.step().with_context(|| format!("promise {number} of --seed {}", self.seed))?;
        }
        println!("durable: seed {}, {} promises", self.seed, self.count);
        Ok(ExitCode::SUCCESS)
    }
}

/// Fields that fdatasync makes durable; mtime and mode may be the previous ones.
const DATASYNC_FIELDS: [&str; 3] = ["type", "size", "crc"];
/// Files kept changing without fsync.
const NOISE_MAX: usize = 12;

struct Promises {
    worker: Worker,
    log: File,
    touched: File,
    noise: Vec<PathBuf>,
}

impl Promises {
    fn step(&mut self) -> Result<()> {
        for _ in 0..self.worker.rng.below(4) {
            self.make_noise()?;
        }
        match self.worker.rng.below(9) {
            0 => self.new_file_with_attributes(),
            1 => self.new_file_in_new_dir(),
            2 => self.renamed(),
            3 => self.linked(),
            4 => self.truncated(),
            5 => self.overwritten(true),
            6 => self.overwritten(false),
            _ => self.new_file(),
        }
    }

    fn new_file(&mut self) -> Result<()> {
        let path = self.worker.tree.fresh(&self.worker.root, &mut self.worker.rng)?;
        let file = self.written_file(&path)?;
        self.promise(&path, &file)
    }

    fn new_file_with_attributes(&mut self) -> Result<()> {
        let path = self.worker.tree.fresh(&self.worker.root, &mut self.worker.rng)?;
        let file = self.written_file(&path)?;
        let length = self.worker.rng.below(500);
        let value = random_bytes(&mut self.worker.rng, length);
        let set = lsetxattr(self.worker.full(&path), "user.promised", &value, XattrFlags::empty());
        self.worker.attempt("user xattr", set)?;
        file.set_permissions(Permissions::from_mode(0o640)).context("chmod")?;
        self.promise(&path, &file)
    }

    fn new_file_in_new_dir(&mut self) -> Result<()> {
        let dir = self.worker.tree.fresh(&self.worker.root, &mut self.worker.rng)?;
        fs::create_dir(self.worker.full(&dir)).with_context(|| format!("making {}", dir.display()))?;
        let path = dir.join("promised");
        let file = self.written_file(&path)?;
        self.promise(&path, &file)
    }

    fn renamed(&mut self) -> Result<()> {
        let Some(from) = self.untouched_file()? else { return Ok(()) };
        let to = self.worker.tree.fresh(&self.worker.root, &mut self.worker.rng)?;
        fs::rename(self.worker.full(&from), self.worker.full(&to))
            .with_context(|| format!("renaming {}", from.display()))?;
        let file = self.open(&to)?;
        self.promise(&to, &file)
    }

    fn linked(&mut self) -> Result<()> {
        let Some(from) = self.untouched_file()? else { return Ok(()) };
        let to = self.worker.tree.fresh(&self.worker.root, &mut self.worker.rng)?;
        fs::hard_link(self.worker.full(&from), self.worker.full(&to))
            .with_context(|| format!("linking {}", from.display()))?;
        let file = self.open(&to)?;
        self.promise(&to, &file)
    }

    fn truncated(&mut self) -> Result<()> {
        let Some(path) = self.untouched_file()? else { return Ok(()) };
        let file = self.open(&path)?;
        let size = self.worker.rng.below(20_000);
        file.set_len(size).with_context(|| format!("truncating {}", path.display()))?;
        self.promise(&path, &file)
    }

    fn overwritten(&mut self, datasync: bool) -> Result<()> {
        let Some(path) = self.untouched_file()? else { return Ok(()) };
        let file = self.open(&path)?;
        let size = file.metadata().context("fstat")?.len();
        let offset = self.worker.rng.below(size + 1);
        let length = self.worker.rng.between(1, 9000);
        let bytes = random_bytes(&mut self.worker.rng, length);
        file.write_all_at(&bytes, offset).with_context(|| format!("writing {}", path.display()))?;
        if !datasync {
            return self.promise(&path, &file);
        }
        file.sync_data().with_context(|| format!("fdatasync of {}", path.display()))?;
        let line = self.line(&path)?;
        write_down(&mut self.log, &reduced(&line))
    }

    /// Never a promised file, and nothing that is synced.
    fn make_noise(&mut self) -> Result<()> {
        if self.noise.len() < NOISE_MAX {
            let path = self.worker.tree.fresh(&self.worker.root, &mut self.worker.rng)?;
            self.written_file(&path)?;
            self.noise.push(path);
            return Ok(());
        }
        let index = self.worker.rng.index(self.noise.len());
        if self.worker.rng.chance(30) {
            let path = self.noise.swap_remove(index);
            return fs::remove_file(self.worker.full(&path))
                .with_context(|| format!("unlinking {}", path.display()));
        }
        let Some(path) = self.noise.get(index).cloned() else { return Ok(()) };
        let bytes = random_bytes(&mut self.worker.rng, 3000);
        let offset = self.worker.rng.below(50_000);
        self.open(&path)?.write_all_at(&bytes, offset).with_context(|| format!("writing {}", path.display()))
    }

    /// A file from before, with a single name, that no step has changed or will change again.
    fn untouched_file(&mut self) -> Result<Option<PathBuf>> {
        while let Some(path) = self.worker.any_file() {
            self.worker.tree.forget(&path);
            let single = fs::metadata(self.worker.full(&path))
                .is_ok_and(|stat| stat.nlink() == 1 && stat.len() < 1 << 24);
            if single {
                let line = escape(path.as_os_str().as_bytes());
                write_down(&mut self.touched, &line)?;
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    fn written_file(&mut self, path: &Path) -> Result<File> {
        let file = File::create_new(self.worker.full(path))
            .with_context(|| format!("creating {}", path.display()))?;
        let length = self.worker.rng.below(16_000);
        let bytes = random_bytes(&mut self.worker.rng, length);
        file.write_all_at(&bytes, 0).with_context(|| format!("writing {}", path.display()))?;
        Ok(file)
    }

    fn open(&self, path: &Path) -> Result<File> {
        let file = OpenOptions::new().read(true).write(true).open(self.worker.full(path));
        file.with_context(|| format!("opening {}", path.display()))
    }

    fn promise(&mut self, path: &Path, file: &File) -> Result<()> {
        file.sync_all().with_context(|| format!("fsync of {}", path.display()))?;
        let line = self.line(path)?;
        write_down(&mut self.log, &line)
    }

    fn line(&self, path: &Path) -> Result<String> {
        line_of(&self.worker.root, path, Detail::default())
    }
}

fn write_down(log: &mut File, line: &str) -> Result<()> {
    writeln!(log, "{line}").and_then(|()| log.sync_all()).context("writing the log of promises")
}

fn reduced(line: &str) -> String {
    let mut words = line.split(' ');
    let path = words.next().unwrap_or_default();
    let kept =
        words.filter(|word| word.split_once('=').is_some_and(|(key, _)| DATASYNC_FIELDS.contains(&key)));
    std::iter::once(path).chain(kept).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn fdatasync_promises_bytes_and_size_only() {
        let line = "a type=file mode=0644 size=3 mtime=1.000000000 crc=00000001 xattr:user.x=y";
        assert_eq!(super::reduced(line), "a type=file size=3 crc=00000001");
    }
}
