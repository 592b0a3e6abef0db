//! The device: a synchronous shell around the writer, the reader and the map_writer.
mod open;
pub(crate) mod status;

use crate::local::cache::CacheOptions;
use crate::log::map::{self, Geometry};
use crate::log::map_writer::MapWriter;
use crate::log::recovery::export::SpooledCommits;
use crate::log::state::{State, Upload};
use crate::log::writer::Writer;
use crate::notice::{Observer, UNOBSERVED};
use crate::stats::{Cause, Stats};
use crate::{Result, StoreError};
use object_store::ObjectStore;
use object_store::path::Path;
pub(crate) use open::OpenVolume;
#[cfg(test)]
pub(crate) use open::{OPEN_PATIENCE, create};
use segno_device::{BlockDevice, Zone, ZoneCondition, ZoneKind, check_bounds};
use segno_format::Block;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Options for opening a volume.
#[derive(Clone, Debug)]
pub struct Options {
    /// Take no epoch, and read the volume as it is now.
    pub read_only: bool,
    /// Cut off a writer that may be alive.
    pub takeover: bool,
    /// Accept a store without conditional creation.
    pub unfenced: bool,
    /// How long a request is repeated before the volume stops.
    pub timeout: Duration,
    /// How long objects that the volume no longer needs are kept for readers.
    pub grace: Duration,
    /// Bytes of blocks kept in memory.
    pub cache_bytes: usize,
    /// A cache on local disk.
    pub cache: Option<CacheOptions>,
    /// Include commits that are in the cache and not in the store.
    pub with_spool: bool,
    /// Receives notices.
    pub observer: Observer,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            read_only: false,
            takeover: false,
            unfenced: false,
            timeout: Duration::from_secs(300),
            grace: Duration::from_secs(600),
            cache_bytes: 128 << 20,
            cache: None,
            with_spool: false,
            observer: UNOBSERVED,
        }
    }
}

/// Numbers of objects and blocks of a volume in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Extents of the map.
    pub extents: u64,
    /// Objects with blocks that are in use.
    pub objects: u64,
    /// Blocks in use.
    pub live_blocks: u64,
    /// Commits after the newest map when the volume was opened.
    pub replayed: u64,
}

/// A zoned device on an object store.
pub struct StoreDevice {
    open: OpenVolume,
    /// Runs all requests and background tasks.
    runtime: Option<Runtime>,
}

impl StoreDevice {
    /// Creates an empty device. With `force`, deletes an existing one.
    pub fn create(
        store: Arc<dyn ObjectStore>,
        prefix: &Path,
        geometry: Geometry,
        force: bool,
        options: Options,
    ) -> Result<Self> {
        Self::create_on(open::runtime()?, store, prefix, geometry, force, options)
    }

    /// Opens a device.
    pub fn open(store: Arc<dyn ObjectStore>, prefix: &Path, options: Options) -> Result<Self> {
        Self::open_on(open::runtime()?, store, prefix, options)
    }

    pub(crate) fn create_on(
        runtime: Runtime,
        store: Arc<dyn ObjectStore>,
        prefix: &Path,
        geometry: Geometry,
        force: bool,
        options: Options,
    ) -> Result<Self> {
        let remote = open::remote(store.clone(), prefix, options.observer);
        runtime.block_on(open::create(&remote, geometry, force, options.unfenced))?;
        Self::open_on(runtime, store, prefix, options)
    }

    pub(crate) fn open_on(
        runtime: Runtime,
        store: Arc<dyn ObjectStore>,
        prefix: &Path,
        options: Options,
    ) -> Result<Self> {
        let remote = Arc::new(open::remote(store, prefix, options.observer));
        let open = runtime.block_on(OpenVolume::open(remote, &options, runtime.handle()))?;
        Ok(Self::of(runtime, open))
    }

    /// Whether the store cannot keep a second writer out, which was accepted when the volume was made.
    #[must_use]
    pub fn is_unfenced(&self) -> bool {
        self.open.volume.unfenced
    }

    /// How much is stored.
    #[must_use]
    pub fn about(&self) -> About {
        let state = self.open.state.lock();
        let named: std::collections::HashSet<_> = state.map.named().map(|(_, o)| o.id).collect();
        About {
            extents: state.map.zones().map(|(_, z)| z.extents.len() as u64).sum(),
            objects: named.len() as u64,
            live_blocks: state.map.named().map(|(_, o)| u64::from(o.live)).sum(),
            replayed: self.open.replayed,
        }
    }

    /// Commits of a cache that are part of the volume as it is read.
    #[must_use]
    pub fn spooled(&self) -> Option<SpooledCommits> {
        self.open.spooled
    }

    /// Requests and bytes so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.open.backing.remote.stats
    }

    /// Sizes.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.open.volume.geometry
    }

    /// Stores everything, with a map, and ends the epoch. The device takes no more writes.
    pub fn close(&self) -> Result<()> {
        let closed = match &self.open.writer {
            Some((_, map_writer)) => self.run(map_writer.close()),
            None => Ok(()),
        };
        if let Some(local) = &self.open.local {
            local.save(self.open.writer.as_ref().map(|(writer, _)| writer.marks().stored));
        }
        closed
    }

    /// Waits until everything that was written or flushed before this call is in the store.
    pub fn drain(&self) -> Result<()> {
        match &self.open.writer {
            Some((writer, _)) => self.run(writer.drain()),
            None => Ok(()),
        }
    }

    /// Writes a map now, which lets later mounts read less.
    pub fn write_map(&self) -> Result<()> {
        let (_, map_writer) = self.writer()?;
        self.run(map_writer.write_map())
    }

    /// Deletes objects that are due after this time.
    #[cfg(test)]
    pub(crate) fn delete_due_after(&self, time: std::time::Duration) -> Result<()> {
        let (_, map_writer) = self.writer()?;
        self.run(async {
            tokio::time::sleep(time).await;
            map_writer.delete_due().await
        })
    }

    /// Opens a device with a cache that is already open.
    #[cfg(test)]
    pub(crate) fn open_local(
        runtime: Runtime,
        store: Arc<dyn ObjectStore>,
        prefix: &Path,
        options: &Options,
        local: crate::local::cache::Local,
    ) -> Result<Self> {
        let remote = Arc::new(open::remote(store, prefix, options.observer));
        let opened = OpenVolume::open_with(remote, options, Some(local), runtime.handle());
        let open = runtime.block_on(opened)?;
        Ok(Self::of(runtime, open))
    }

    /// The runtime, to let time pass.
    #[cfg(test)]
    pub(crate) fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().unwrap()
    }

    #[cfg(test)]
    pub(crate) async fn flush_now(&self) -> Result<()> {
        self.writer()?.0.flush().await
    }

    #[cfg(test)]
    pub(crate) async fn write_now(&self, addr: u64, block: &Block) {
        self.writer().unwrap().0.write(addr, &[block]).await.unwrap();
    }

    #[cfg(test)]
    pub(crate) fn flush_later(&self) -> impl Future<Output = Result<()>> + use<> {
        let writer = self.writer().unwrap().0.clone();
        async move { writer.flush().await }
    }

    /// The first byte of a block.
    #[cfg(test)]
    pub(crate) fn read_later(&self, addr: u64) -> impl Future<Output = Result<u8>> + use<> {
        let reader = self.open.reader.clone();
        async move {
            let mut into = [Block::zeroed()];
            reader.read(addr, &mut into, Cause::Read).await?;
            Ok(into[0].0[0])
        }
    }

    #[cfg(test)]
    pub(crate) async fn drain_now(&self) -> Result<()> {
        self.writer()?.0.drain().await
    }

    /// A volume that was opened on a runtime.
    pub(crate) fn of(runtime: Runtime, open: OpenVolume) -> Self {
        Self { open, runtime: Some(runtime) }
    }

    #[cfg(test)]
    pub(crate) async fn map_now(&self) -> Result<()> {
        self.writer()?.1.write_map().await
    }

    #[cfg(test)]
    pub(crate) fn map_later(&self) -> impl Future<Output = Result<()>> + use<> {
        let map_writer = self.writer().unwrap().1.clone();
        async move { map_writer.write_map().await }
    }

    /// Ends without storing anything more, as a killed process does.
    #[cfg(test)]
    pub(crate) fn abandon(mut self) {
        self.open.writer = None;
    }

    fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(work),
            None => Err(StoreError::ended()),
        }
    }

    fn writer(&self) -> Result<&(Arc<Writer>, Arc<MapWriter>)> {
        self.open.writer.as_ref().ok_or(StoreError::Geometry("the device was opened for reading"))
    }

    fn change(&self, change: impl FnOnce(&mut State) -> Vec<Upload>) -> io::Result<()> {
        let Some((writer, _)) = &self.open.writer else {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        };
        Ok(writer.change(change)?)
    }

    fn check_zone(&self, start: u64) -> io::Result<u32> {
        let (zone, offset) = self.open.volume.geometry.place(start);
        if offset != 0
            || self.open.volume.geometry.is_conventional(zone)
            || zone >= self.open.volume.geometry.zones
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("no sequential zone starts at block {start}"),
            ));
        }
        Ok(zone)
    }
}

impl BlockDevice for StoreDevice {
    fn close(&self) -> io::Result<()> {
        Ok(Self::close(self)?)
    }

    fn block_count(&self) -> u64 {
        self.open.volume.geometry.blocks()
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        check_bounds(self.block_count(), addr, into.len() as u64)?;
        // Before the read, so that data read ahead arrives together with it.
        self.open.reader.note(addr, into.len() as u64);
        Ok(self.run(self.open.reader.read(addr, into, Cause::Read))?)
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        check_bounds(self.block_count(), addr, blocks.len() as u64)?;
        let Some((writer, _)) = &self.open.writer else {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        };
        let Some(runtime) = &self.runtime else { return Err(io::ErrorKind::ReadOnlyFilesystem.into()) };
        runtime.block_on(writer.write(addr, blocks))
    }

    fn flush(&self) -> io::Result<()> {
        match &self.open.writer {
            Some((writer, _)) => Ok(self.run(writer.flush())?),
            None => Ok(()),
        }
    }

    fn drain(&self) -> io::Result<()> {
        Ok(Self::drain(self)?)
    }

    fn keeps_order(&self) -> bool {
        true
    }

    fn counters(&self) -> Vec<(String, u64)> {
        self.stats().report()
    }

    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        check_bounds(self.block_count(), addr, count)?;
        self.change(|state| state.discard(addr, count))
    }

    fn prefetch(&self, addr: u64, count: u64) {
        if check_bounds(self.block_count(), addr, count).is_ok() {
            self.open.reader.prefetch(addr, count);
        }
    }

    fn read_only(&self) -> bool {
        self.open.writer.is_none()
    }

    fn zones(&self) -> io::Result<Vec<Zone>> {
        let state = self.open.state.lock();
        let blocks = u64::from(self.open.volume.geometry.zone_blocks);
        let zone = |(number, z): (u32, &map::Zone)| {
            let start = self.open.volume.geometry.start_of(number);
            let (kind, condition, pointer) = if self.open.volume.geometry.is_conventional(number) {
                (ZoneKind::Conventional, ZoneCondition::NoPointer, start)
            } else {
                let condition = match z.pointer {
                    0 => ZoneCondition::Empty,
                    p if p >= self.open.volume.geometry.zone_blocks => ZoneCondition::Full,
                    _ => ZoneCondition::Closed,
                };
                (ZoneKind::Sequential, condition, start + u64::from(z.pointer))
            };
            Zone { start, blocks, capacity: blocks, pointer, kind, condition }
        };
        Ok(state.map.zones().map(zone).collect())
    }

    fn reset_zone(&self, start: u64) -> io::Result<()> {
        let zone = self.check_zone(start)?;
        self.change(|state| state.reset(zone).into_iter().collect())
    }

    fn finish_zone(&self, start: u64) -> io::Result<()> {
        let zone = self.check_zone(start)?;
        self.change(|state| state.finish(zone).into_iter().collect())
    }
}

impl Drop for StoreDevice {
    /// Closes the volume. If that fails, the next mount reads the log and ends the epoch.
    fn drop(&mut self) {
        let _next_mount = self.close();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
