//! Commands on the files of an open volume. `segno NAME IMAGE …` opens it for one of them, `segno shell` for many.
use crate::confine::Confinement;
use crate::exit::{Outcome, Style};
use crate::path::{on_volume, reason};
use crate::storage::ImageArgs;
use anyhow::{Context, Result, ensure};
use segno::{Metadata, Volume};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A command on the files of a volume; its arguments are the fields.
pub trait FileCommand {
    /// Whether it needs a writable volume.
    fn changes(&self) -> bool {
        true
    }

    /// The rights that it keeps once the volume is open, if it drops the others.
    fn confinement(&self) -> Option<Confinement> {
        None
    }

    fn run(&self, files: &Files<'_>) -> Outcome;
}

/// The files of an open volume.
pub struct Files<'a> {
    pub volume: &'a Volume,
    /// The directory that paths without a slash at the beginning start at, without symbolic links; empty for the root.
    pub dir: PathBuf,
    /// The files that the volume is on, by device and inode number.
    pub images: Vec<(u64, u64)>,
    /// Set by a signal that ends the command.
    pub stopped: Arc<AtomicBool>,
}

impl Files<'_> {
    /// The path on the volume of an operand.
    pub fn path(&self, given: &Path) -> PathBuf {
        self.dir.join(given)
    }

    pub fn paths(&self, given: &[PathBuf]) -> Vec<PathBuf> {
        given.iter().map(|path| self.path(path)).collect()
    }

    /// The directory that paths start at, as a path from the root.
    pub fn here(&self) -> PathBuf {
        Path::new("/").join(&self.dir)
    }

    /// Fails after a signal. Long commands call it where a part is done.
    pub fn go_on(&self) -> Result<()> {
        ensure!(!self.stopped.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }

    /// Does the same for each operand. One that fails is reported, and the rest is done, as in coreutils.
    pub fn each(&self, given: &[PathBuf], mut one: impl FnMut(&Path) -> Result<()>) -> Outcome {
        let mut failures = Failures::default();
        for path in self.paths(given) {
            self.go_on()?;
            failures.note(one(&path));
        }
        failures.outcome()
    }

    /// Runs the same operation on each operand and, for a recursive command, on everything below it: `one`
    /// gets each path, its attributes, and whether it was named as an operand. Failures are reported, and the
    /// other paths are processed.
    pub fn each_below(
        &self,
        given: &[PathBuf],
        recursive: bool,
        one: impl Fn(&Path, &Metadata, bool) -> Result<()>,
    ) -> Outcome {
        let mut failures = Failures::default();
        for path in self.paths(given) {
            let found = on_volume(&path, self.volume.symlink_metadata(&path));
            let is_dir = found.as_ref().is_ok_and(Metadata::is_dir);
            failures.note(found.and_then(|found| one(&path, &found, true)));
            if !recursive || !is_dir {
                continue;
            }
            let below = match on_volume(&path, self.volume.walk(&path)) {
                Ok(below) => below,
                Err(e) => {
                    failures.note(Err(e));
                    continue;
                }
            };
            for entry in below {
                self.go_on()?;
                let found = entry.and_then(|entry| Ok((entry.metadata()?, entry)));
                let done = found.map_err(anyhow::Error::from);
                failures.note(done.and_then(|(found, entry)| one(entry.path(), &found, false)));
            }
        }
        failures.outcome()
    }
}

/// Parts of a command that failed and were reported.
#[derive(Default)]
pub struct Failures(Option<ExitCode>);

impl Failures {
    pub fn note(&mut self, done: Result<()>) {
        if let Err(e) = done {
            self.0 = Some(Style::Text.report(Err(e)));
        }
    }

    pub fn outcome(self) -> Outcome {
        Ok(self.0.unwrap_or(ExitCode::SUCCESS))
    }
}

// A comment for rustdoc would replace the help text of the command.
// A command with the image that it opens.
#[derive(clap::Args)]
pub struct OnImage<A: clap::Args> {
    #[command(flatten)]
    of: ImageArgs,
    #[command(flatten)]
    command: A,
}

impl<A: clap::Args + FileCommand> OnImage<A> {
    /// Opens the volume, runs the command, and closes the volume. Changes that were made before an error
    /// stay.
    pub fn run(&self) -> Outcome {
        let (image, changes) = (&self.of.image, self.command.changes());
        // A confined command cannot look for the device of a tag.
        let images = self.of.identities()?;
        let open = || self.of.open(!changes);
        let storage = match self.command.confinement() {
            Some(confinement) => confinement.opened(image, open)?,
            None => open()?,
        };
        let volume = storage.volume()?;
        let files = Files { volume: &volume, dir: PathBuf::new(), images, stopped: Arc::default() };
        let done = self.command.run(&files);
        if !changes {
            return done;
        }
        let closed = close(volume, image);
        let code = done?;
        closed?;
        Ok(code)
    }
}

pub fn close(volume: Volume, image: &Path) -> Result<()> {
    reason(volume.close()).with_context(|| format!("closing {}", image.display()))
}
