//! Errors of a program that was built without object stores.
use super::{Local, Settings, is_url};
use anyhow::{Result, bail};
use segno_device::{BlockDevice, OpenOptions};
use segno_mkfs::MkfsOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn open(paths: &[PathBuf], _: OpenOptions, _: &Settings) -> Result<Option<Arc<dyn BlockDevice>>> {
    match paths {
        [url, ..] if is_url(url) => refuse(url),
        _ => Ok(None),
    }
}

pub fn local(_: &Path) -> Local {
    Local::default()
}

pub fn create(url: &Path, _: u64, _: &MkfsOptions, _: bool, _: &Settings) -> Result<Arc<dyn BlockDevice>> {
    refuse(url)
}

pub fn why_not_closed(url: &Path, _: u32) -> Result<Option<String>> {
    refuse(url)
}

fn refuse<T>(url: &Path) -> Result<T> {
    bail!("{}: this segno was built without object stores (cargo feature store)", url.display())
}
