//! Opens and makes volumes on object stores.
use super::{Local, Settings, is_url};
use anyhow::{Context, Result, bail, ensure};
use segno_device::{BlockDevice, OpenOptions};
use segno_format::{BLOCK_SIZE, BLOCKS_PER_SEG};
use segno_mkfs::{MkfsOptions, plan};
use segno_store::{CacheOptions, Ending, Geometry, HostFiles, Notice, Options, StoreDevice, Url};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Opens the volume at a URL; `None` if the first path is not a URL.
pub fn open(
    paths: &[PathBuf],
    options: OpenOptions,
    settings: &Settings,
) -> Result<Option<Arc<dyn BlockDevice>>> {
    let Some(url) = paths.first().filter(|path| is_url(path)) else { return Ok(None) };
    ensure!(paths.len() == 1, "a volume on an object store has one device");
    let device = device(url, options.read_only, settings)?;
    if device.is_unfenced() && !options.read_only {
        eprintln!(
            "segno: warning: {}: nothing keeps a second writer out: it was accepted that the store has no conditional creation",
            url.display()
        );
    }
    if let Some(dir) = settings.cache.as_ref().filter(|_| settings.writeback && !options.read_only) {
        eprintln!(
            "segno: note: fsync is durable on this host only: if the disk of {} is lost, so is what was not uploaded yet; \
             `segno sync` waits for the store",
            dir.display()
        );
    }
    Ok(Some(Arc::new(device)))
}

/// Files of this machine that the client of the store at a URL uses.
pub fn local(url: &Path) -> Local {
    match parse(url).map(|url| url.host_files()) {
        Ok(HostFiles { read, written, is_remote }) => Local { read, written, is_remote },
        // It is refused when it is opened.
        Err(_) => Local::default(),
    }
}

/// Opens the device at a URL.
pub fn device(url: &Path, read_only: bool, settings: &Settings) -> Result<StoreDevice> {
    let (store, prefix) = parse(url)?.open(settings.insecure)?;
    let device = StoreDevice::open(store, &prefix, options(read_only, settings));
    device.with_context(|| format!("cannot open {}", url.display()))
}

fn options(read_only: bool, settings: &Settings) -> Options {
    Options {
        read_only,
        takeover: settings.takeover,
        unfenced: settings.unfenced,
        timeout: Duration::from_secs(settings.timeout.into()),
        cache: settings.cache.as_ref().map(|dir| CacheOptions {
            dir: dir.clone(),
            bytes: settings.cache_bytes,
            writeback: settings.writeback,
        }),
        with_spool: settings.with_spool,
        observer: report,
        ..Options::default()
    }
}

fn report(notice: &Notice) {
    eprintln!("segno: {notice}");
}

/// Makes an empty device whose zones are sections, with as many conventional ones as the volume's metadata needs.
pub fn create(
    url: &Path,
    bytes: u64,
    mkfs: &MkfsOptions,
    force: bool,
    settings: &Settings,
) -> Result<Arc<dyn BlockDevice>> {
    let zone_blocks = mkfs.segs_per_sec * BLOCKS_PER_SEG;
    let zones = bytes / BLOCK_SIZE as u64 / u64::from(zone_blocks);
    let blocks = zones * u64::from(zone_blocks);
    let layout = plan(&[blocks], &MkfsOptions { secs_per_zone: 1, ..mkfs.clone() })?;
    let geometry = Geometry {
        zone_blocks: u16::try_from(zone_blocks)?,
        zones: u32::try_from(zones)?,
        conventional: layout.geo.main_blkaddr.div_ceil(zone_blocks),
    };
    let url_of = parse(url)?;
    if let Url::Directory(dir) = &url_of {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {dir}"))?;
    }
    let (store, prefix) = url_of.open(settings.insecure)?;
    let device = StoreDevice::create(store, &prefix, geometry, force, options(false, settings));
    Ok(Arc::new(device.with_context(|| format!("cannot make a volume at {}", url.display()))?))
}

/// Uploads what a cache has and the store does not, and ends the epoch of the mount that left it.
pub fn drain(url: &Path, dir: &Path, insecure: bool) -> Result<()> {
    let settings = Settings { insecure, cache: Some(existing(dir)?.to_owned()), ..Settings::default() };
    device(url, false, &settings)?.close().with_context(|| format!("cannot close {}", url.display()))
}

/// Opens the device with the spooled objects of a cache that the store lacks.
pub fn with_spool(url: &Path, dir: &Path, insecure: bool) -> Result<StoreDevice> {
    let cache = Some(existing(dir)?.to_owned());
    device(url, true, &Settings { insecure, cache, with_spool: true, ..Settings::default() })
}

fn existing(dir: &Path) -> Result<&Path> {
    ensure!(dir.is_dir(), "there is no cache {}", dir.display());
    Ok(dir)
}

/// Why the volume of a server that has ended is not closed; `None` if it is.
pub fn why_not_closed(url: &Path, pid: u32) -> Result<Option<String>> {
    let (store, prefix) = parse(url)?.open(true)?;
    let url = url.display();
    Ok(match segno_store::ended(store, &prefix, pid)? {
        Ending::Closed => None,
        Ending::Open => Some(format!(
            "{url} was not closed, perhaps after an error of the store; the next mount recovers what was stored"
        )),
        Ending::TakenOver { epoch, owner } => Some(format!(
            "{owner} took {url} over (epoch {epoch}) while it was mounted here: changes that were not stored by then are lost, or \
             with -o store_writeback in the cache, where `segno store export --cache` reads them"
        )),
    })
}

/// Whether the volume has a writer, or one that was killed.
pub fn has_writer(url: &Path, insecure: bool) -> Result<bool> {
    let (store, prefix) = parse(url)?.open(insecure)?;
    segno_store::is_held(store, &prefix, report).with_context(|| format!("cannot use {}", url.display()))
}

/// Whether the store keeps a second writer out.
pub fn fenced(url: &Path, insecure: bool) -> Result<bool> {
    let (store, prefix) = parse(url)?.open(insecure)?;
    segno_store::probe(store, &prefix, report).with_context(|| format!("cannot use {}", url.display()))
}

fn parse(url: &Path) -> Result<Url> {
    match url.to_str().and_then(Url::parse) {
        Some(parsed) => Ok(parsed?),
        None => bail!("{} is no URL of a volume", url.display()),
    }
}
