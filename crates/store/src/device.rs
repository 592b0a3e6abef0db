//! The device: a synchronous shell around the writer, the reader and the keeper.
use crate::backing::Backing;
use crate::cache::Cache;
use crate::claim;
use crate::core::Core;
use crate::keeper::{Found, Keeper};
use crate::left::{self, Left};
use crate::local::{CacheOptions, Local};
use crate::map::{Geometry, Map};
use crate::names::Name;
use crate::notice::{Observer, UNOBSERVED};
use crate::queue::Queue;
use crate::reader::Reader;
use crate::records::{Volume, encode_map};
use crate::recover::{self, Recovered};
use crate::remote::Remote;
use crate::stage::Stage;
use crate::state::State;
use crate::stats::{Cause, Stats};
use crate::{Result, StoreError};
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;
use segno_device::{BlockDevice, Zone, ZoneCondition, ZoneKind, check_bounds};
use segno_format::Block;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// How long requests are repeated while a volume is opened, so that wrong credentials are reported soon.
pub(crate) const OPEN_PATIENCE: Duration = Duration::from_secs(15);

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
    pub with_left: bool,
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
            with_left: false,
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
    parts: Parts,
    /// Runs all requests and background tasks.
    runtime: Option<Runtime>,
}

/// An open volume.
pub(crate) struct Parts {
    pub volume: Volume,
    pub state: Arc<Mutex<State>>,
    pub reader: Arc<Reader>,
    pub backing: Arc<Backing>,
    local: Option<Local>,
    left: Option<Left>,
    /// Absent if the volume is read-only.
    pub writer: Option<(Arc<Core>, Arc<Keeper>)>,
    replayed: u64,
}

impl Parts {
    pub(crate) async fn open(remote: Arc<Remote>, options: &Options, handle: &Handle) -> Result<Self> {
        let local = match &options.cache {
            Some(cache) => Some(Local::open(cache, &remote).await?),
            None => None,
        };
        Self::open_with(remote, options, local, handle).await
    }

    /// Opens a volume with a cache that is already open.
    pub(crate) async fn open_with(
        remote: Arc<Remote>,
        options: &Options,
        local: Option<Local>,
        handle: &Handle,
    ) -> Result<Self> {
        let with_left = local.as_ref().filter(|_| options.with_left);
        let (found, left, settled) = match with_left {
            Some(local) => {
                let (found, left) = left::read(&remote, &*local.shelf, &local.of.path).await?;
                (found, Some(left), false)
            }
            None => {
                let (found, settled) = find(&remote, options, local.as_ref()).await?;
                (found, None, settled)
            }
        };
        if let Some(local) = &local {
            local.check_history(&remote, &found).await?;
            if with_left.is_none() {
                local.note_history(&remote, &found).await?;
            }
        }
        remote.bound_requests(options.timeout);
        let about = Found {
            base: found.base,
            named: found.map.named().map(|(_, o)| o.id).collect(),
            seals: found.map.seals.clone(),
            settled,
        };
        let (volume, session, base, replayed) = (found.volume, found.session, found.base, found.replayed);
        let state = Arc::new(Mutex::new(State::new(found.map, session.map_or(0, |s| s.epoch))));
        let stage = session.zip(local.as_ref().filter(|l| l.writeback)).map(|(session, local)| {
            let queue = Queue::new(session.epoch);
            let of = (session, state.clone());
            Arc::new(Stage::new(remote.clone(), local.shelf.clone(), local.limit, queue, of, handle.clone()))
        });
        let shelf = with_left.map(|local| local.shelf.clone());
        let backing = Arc::new(Backing { remote, stage, left: shelf });
        let disk = local.as_ref().and_then(|l| l.disk.clone());
        let cache = Cache::new(backing.clone(), disk, volume.id, options.cache_bytes);
        let reader = Arc::new(Reader::new(state.clone(), cache, handle.clone()));
        let writer = session.map(|session| {
            let core =
                Arc::new(Core::new(backing.clone(), session, state.clone(), reader.clone(), handle.clone()));
            let keeper = Keeper::new(core.clone(), reader.clone(), base, replayed > 0, options.grace);
            let keeper = Arc::new(keeper);
            handle.spawn(keeper.clone().run(about));
            if let Some(stage) = backing.stage.clone() {
                let core = core.clone();
                handle.spawn(async move { core.fail(&stage.failure().await) });
            }
            (core, keeper)
        });
        Ok(Self { volume, state, reader, backing, local, left, writer, replayed })
    }
}

/// The runtime of a device.
pub(crate) fn runtime() -> Result<Runtime> {
    let built = Builder::new_multi_thread().worker_threads(2).thread_name("segno-store").enable_all().build();
    built.map_err(|e| StoreError::Runtime(e.to_string()))
}

/// The store, with the time limits for opening a volume.
pub(crate) fn remote(store: Arc<dyn ObjectStore>, prefix: &Path, observer: Observer) -> Remote {
    Remote::new(store, prefix.clone(), OPEN_PATIENCE).observed(observer)
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
        Self::create_on(runtime()?, store, prefix, geometry, force, options)
    }

    /// Opens a device.
    pub fn open(store: Arc<dyn ObjectStore>, prefix: &Path, options: Options) -> Result<Self> {
        Self::open_on(runtime()?, store, prefix, options)
    }

    pub(crate) fn create_on(
        runtime: Runtime,
        store: Arc<dyn ObjectStore>,
        prefix: &Path,
        geometry: Geometry,
        force: bool,
        options: Options,
    ) -> Result<Self> {
        let remote = remote(store.clone(), prefix, options.observer);
        runtime.block_on(create(&remote, geometry, force, options.unfenced))?;
        Self::open_on(runtime, store, prefix, options)
    }

    pub(crate) fn open_on(
        runtime: Runtime,
        store: Arc<dyn ObjectStore>,
        prefix: &Path,
        options: Options,
    ) -> Result<Self> {
        let remote = Arc::new(remote(store, prefix, options.observer));
        let parts = runtime.block_on(Parts::open(remote, &options, runtime.handle()))?;
        Ok(Self::of(runtime, parts))
    }

    /// Whether the store cannot keep a second writer out, which was accepted when the volume was made.
    #[must_use]
    pub fn is_unfenced(&self) -> bool {
        self.parts.volume.unfenced
    }

    /// How much is stored.
    #[must_use]
    pub fn about(&self) -> About {
        let state = self.parts.state.lock();
        let named: std::collections::HashSet<_> = state.map.named().map(|(_, o)| o.id).collect();
        About {
            extents: state.map.zones().map(|(_, z)| z.extents.len() as u64).sum(),
            objects: named.len() as u64,
            live_blocks: state.map.named().map(|(_, o)| u64::from(o.live)).sum(),
            replayed: self.parts.replayed,
        }
    }

    /// Commits of a cache that are part of the volume as it is read.
    #[must_use]
    pub fn left(&self) -> Option<Left> {
        self.parts.left
    }

    /// Requests and bytes so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.parts.backing.remote.stats
    }

    /// Sizes.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        self.parts.volume.geometry
    }

    /// Stores everything, with a map, and ends the epoch. The device takes no more writes.
    pub fn close(&self) -> Result<()> {
        let closed = match &self.parts.writer {
            Some((_, keeper)) => self.run(keeper.close()),
            None => Ok(()),
        };
        if let Some(local) = &self.parts.local {
            local.save(self.parts.writer.as_ref().map(|(core, _)| core.marks().stored));
        }
        closed
    }

    /// Waits until everything that was written or flushed before this call is in the store.
    pub fn drain(&self) -> Result<()> {
        match &self.parts.writer {
            Some((core, _)) => self.run(core.drain()),
            None => Ok(()),
        }
    }

    /// Writes a map now, which lets later mounts read less.
    pub fn write_map(&self) -> Result<()> {
        let (_, keeper) = self.writer()?;
        self.run(keeper.write_map())
    }

    /// Deletes objects that are due after this time.
    #[cfg(test)]
    pub(crate) fn delete_due_after(&self, time: std::time::Duration) -> Result<()> {
        let (_, keeper) = self.writer()?;
        self.run(async {
            tokio::time::sleep(time).await;
            keeper.delete_due().await
        })
    }

    /// Opens a device with a cache that is already open.
    #[cfg(test)]
    pub(crate) fn open_local(
        runtime: Runtime,
        store: Arc<dyn ObjectStore>,
        prefix: &Path,
        options: &Options,
        local: Local,
    ) -> Result<Self> {
        let remote = Arc::new(remote(store, prefix, options.observer));
        let opened = Parts::open_with(remote, options, Some(local), runtime.handle());
        let parts = runtime.block_on(opened)?;
        Ok(Self::of(runtime, parts))
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
        let core = self.writer().unwrap().0.clone();
        async move { core.flush().await }
    }

    /// The first byte of a block.
    #[cfg(test)]
    pub(crate) fn read_later(&self, addr: u64) -> impl Future<Output = Result<u8>> + use<> {
        let reader = self.parts.reader.clone();
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
    pub(crate) fn of(runtime: Runtime, parts: Parts) -> Self {
        Self { parts, runtime: Some(runtime) }
    }

    #[cfg(test)]
    pub(crate) async fn map_now(&self) -> Result<()> {
        self.writer()?.1.write_map().await
    }

    #[cfg(test)]
    pub(crate) fn map_later(&self) -> impl Future<Output = Result<()>> + use<> {
        let keeper = self.writer().unwrap().1.clone();
        async move { keeper.write_map().await }
    }

    /// Ends without storing anything more, as a killed process does.
    #[cfg(test)]
    pub(crate) fn abandon(mut self) {
        self.parts.writer = None;
    }

    fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.runtime {
            Some(runtime) => runtime.block_on(work),
            None => Err(StoreError::ended()),
        }
    }

    fn writer(&self) -> Result<&(Arc<Core>, Arc<Keeper>)> {
        self.parts.writer.as_ref().ok_or(StoreError::Geometry("the device was opened for reading"))
    }

    fn change(&self, change: impl FnOnce(&mut State) -> Vec<crate::state::Upload>) -> io::Result<()> {
        let Some((core, _)) = &self.parts.writer else {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        };
        Ok(core.change(change)?)
    }

    fn check_zone(&self, start: u64) -> io::Result<u32> {
        let (zone, offset) = self.parts.volume.geometry.place(start);
        if offset != 0
            || self.parts.volume.geometry.is_conventional(zone)
            || zone >= self.parts.volume.geometry.zones
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("no sequential zone starts at block {start}"),
            ));
        }
        Ok(zone)
    }
}

/// Creates a volume. Refuses to replace one, and a store that cannot keep a second writer out, unless told to
/// accept that.
pub(crate) async fn create(remote: &Remote, geometry: Geometry, force: bool, unfenced: bool) -> Result<()> {
    if geometry.zone_blocks == 0 || geometry.conventional >= geometry.zones {
        return Err(StoreError::Geometry("a volume needs zones of both kinds"));
    }
    geometry.check().map_err(StoreError::Geometry)?;
    match remote.get(Name::Volume, Cause::Open).await? {
        Some(_) if !force => return Err(StoreError::Exists),
        Some(_) => remote.delete_all(Cause::Open).await?,
        None => {}
    }
    let conditional = claim::is_conditional(remote).await?;
    if !conditional && !unfenced {
        return Err(StoreError::Unconditional);
    }
    remote.set_unfenced(!conditional);
    let volume = Volume { id: claim::random()?, geometry, unfenced: !conditional, marked: true };
    let map = encode_map(&Map::new(geometry), &volume.id, 0, 0);
    remote.put(Name::Map { epoch: 0, seq: 0 }, map, Cause::Open).await?;
    match remote.create(Name::Volume, volume.encode(), Cause::Open).await? {
        crate::remote::Created::Ours => Ok(()),
        crate::remote::Created::Other(_) => Err(StoreError::Exists),
    }
}

/// Reads the volume, and takes it unless it is opened for reading. Also returns whether its map is older than
/// the grace period of readers, by the store's clock.
async fn find(remote: &Remote, options: &Options, local: Option<&Local>) -> Result<(Recovered, bool)> {
    if options.read_only {
        if let Some(local) = local {
            local.settle(remote, true).await?;
        }
        return Ok((recover::read_only(remote).await?, false));
    }
    let volume = recover::volume(remote).await?;
    if !volume.unfenced && !claim::is_conditional(remote).await? {
        if !options.unfenced {
            return Err(StoreError::Unconditional);
        }
        // Kept, so that every later mount reports it.
        let volume = Volume { unfenced: true, ..volume };
        remote.put(Name::Volume, volume.encode(), Cause::Open).await?;
    }
    if let Some(local) = local {
        remote.set_patience(options.timeout);
        local.settle(remote, false).await?;
    }
    let found = recover::writable(remote, options.takeover, local).await?;
    let epoch = found.session.map_or(0, |s| s.epoch);
    let (base, seq) = found.base;
    let map = remote.head(Name::Map { epoch: base, seq }, Cause::Open).await?;
    let now = remote.head(Name::Epoch(epoch), Cause::Open).await?;
    let age = now.zip(map).and_then(|(now, map)| (now.last_modified - map.last_modified).to_std().ok());
    Ok((found, age.is_some_and(|age| age > options.grace)))
}

impl BlockDevice for StoreDevice {
    fn close(&self) -> io::Result<()> {
        Ok(Self::close(self)?)
    }

    fn block_count(&self) -> u64 {
        self.parts.volume.geometry.blocks()
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        check_bounds(self.block_count(), addr, into.len() as u64)?;
        // Before the read, so that data read ahead arrives together with it.
        self.parts.reader.note(addr, into.len() as u64);
        Ok(self.run(self.parts.reader.read(addr, into, Cause::Read))?)
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        check_bounds(self.block_count(), addr, blocks.len() as u64)?;
        let Some((core, _)) = &self.parts.writer else {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        };
        let Some(runtime) = &self.runtime else { return Err(io::ErrorKind::ReadOnlyFilesystem.into()) };
        runtime.block_on(core.write(addr, blocks))
    }

    fn flush(&self) -> io::Result<()> {
        match &self.parts.writer {
            Some((core, _)) => Ok(self.run(core.flush())?),
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
            self.parts.reader.prefetch(addr, count);
        }
    }

    fn read_only(&self) -> bool {
        self.parts.writer.is_none()
    }

    fn zones(&self) -> io::Result<Vec<Zone>> {
        let state = self.parts.state.lock();
        let blocks = u64::from(self.parts.volume.geometry.zone_blocks);
        let zone = |(number, z): (u32, &crate::map::Zone)| {
            let start = self.parts.volume.geometry.start_of(number);
            let (kind, condition, pointer) = if self.parts.volume.geometry.is_conventional(number) {
                (ZoneKind::Conventional, ZoneCondition::NoPointer, start)
            } else {
                let condition = match z.pointer {
                    0 => ZoneCondition::Empty,
                    p if p >= self.parts.volume.geometry.zone_blocks => ZoneCondition::Full,
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
