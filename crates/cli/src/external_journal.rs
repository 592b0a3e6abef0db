//! The external journal of a volume: the option of the commands that need it, and how all of them open it.
use crate::image;
use crate::path::reason;
use crate::tag;
use anyhow::{Context, Result, ensure};
use segno::Checker;
use segno_device::{BlockDevice, FileDevice, OpenOptions, Overlay, share_storage};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The option of each command that reads or changes the files of a volume.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct JournalOption {
    /// File or device of an external journal, if the volume was mounted with one and not unmounted
    #[arg(long, value_name = "FILE")]
    pub journal: Option<PathBuf>,
}

impl JournalOption {
    /// The file or device, if one was named.
    pub fn path(&self) -> Result<Option<PathBuf>> {
        self.journal.as_deref().map(tag::resolve).transpose()
    }

    /// Opens the journal, if one was named.
    pub fn open(&self, images: &[PathBuf], options: OpenOptions) -> Result<Option<Named>> {
        let Some(path) = self.path()? else { return Ok(None) };
        let device = open(&path, images, options)?;
        Ok(Some((path, device)))
    }
}

/// Opens the storage of an external journal, which is not that of the volume.
pub fn open(path: &Path, images: &[PathBuf], options: OpenOptions) -> Result<Arc<dyn BlockDevice>> {
    ensure!(
        !images.iter().any(|image| share_storage(image, path)),
        "{} is the volume; a journal after its end is found without the option",
        path.display()
    );
    let file = image::patiently(|| FileDevice::open(path, options)).map_err(image::explain);
    Ok(Arc::new(file.context("cannot open the journal")?))
}

/// A journal and its path.
pub type Named = (PathBuf, Arc<dyn BlockDevice>);

/// The external journal of a volume that is read without a mount, if one was named.
pub struct External(Option<Named>);

impl External {
    /// Opens its storage.
    pub fn open(option: &JournalOption, images: &[PathBuf], options: OpenOptions) -> Result<Self> {
        Ok(Self(option.open(images, options)?))
    }

    /// Makes sure that it is one of this volume.
    pub fn verify(&self, volume: &Arc<dyn BlockDevice>) -> Result<()> {
        let Some((path, _)) = &self.0 else { return Ok(()) };
        let name = path.display();
        if let Some(why) = reason(self.checker(volume).verify_journal()).with_context(|| name.to_string())? {
            eprintln!("segno: note: the journal {name} has no effect: {why}");
        }
        Ok(())
    }

    /// The checker of the volume on a device, with this journal; it also replays and repairs.
    pub fn checker(&self, device: &Arc<dyn BlockDevice>) -> Checker {
        let checker = Checker::new(&device.clone().into()).on_notice(|notice| eprintln!("segno: {notice}"));
        self.0.iter().fold(checker, |checker, (_, journal)| checker.journal(&journal.clone().into()))
    }

    /// The journal for a replay in memory: the file stays as it is.
    pub fn in_memory(&self) -> Self {
        let Some((path, journal)) = &self.0 else { return Self(None) };
        Self(Some((path.clone(), Arc::new(Overlay::new(journal.clone())))))
    }
}
