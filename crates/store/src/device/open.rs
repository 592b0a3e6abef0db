//! Creating and opening a volume, and the parts of an open one.
use crate::device::Options;
use crate::fence::epoch::EpochClaim;
use crate::fence::probe;
use crate::ids::{Epoch, LogPlace, random};
use crate::local::cache::Local;
use crate::log::map::{Geometry, Map};
use crate::log::map_record::encode_map;
use crate::log::map_writer::MapWriter;
use crate::log::maps::{Found, Maps};
use crate::log::read::cache::Cache;
use crate::log::read::reader::Reader;
use crate::log::recovery::export::{self, SpooledCommits};
use crate::log::recovery::open;
use crate::log::recovery::replay::Recovered;
use crate::log::recovery::{history, spool};
use crate::log::state::State;
use crate::log::upload::backing::Backing;
use crate::log::upload::queue::Queue;
use crate::log::upload::writeback::Writeback;
use crate::log::volume::{self, Volume};
use crate::log::writer::Writer;
use crate::notice::Observer;
use crate::stats::Cause;
use crate::wire::names::Name;
use crate::wire::remote::{Created, Remote};
use crate::{Result, StoreError};
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// How long requests are repeated while a volume is opened, so that wrong credentials are reported soon.
pub(crate) const OPEN_PATIENCE: Duration = Duration::from_secs(15);

/// An open volume.
pub(crate) struct OpenVolume {
    pub volume: Volume,
    pub state: Arc<Mutex<State>>,
    pub reader: Arc<Reader>,
    pub backing: Arc<Backing>,
    pub local: Option<Local>,
    pub spooled: Option<SpooledCommits>,
    /// Absent if the volume is read-only.
    pub writer: Option<(Arc<Writer>, Arc<MapWriter>)>,
    pub replayed: u64,
}

impl OpenVolume {
    pub(crate) async fn open(remote: Arc<Remote>, options: &Options, handle: &Handle) -> Result<Self> {
        let local = match &options.cache {
            Some(cache) => Some(Local::open(cache, volume::read(&remote).await?.id)?),
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
        let with_spool = local.as_ref().filter(|_| options.with_spool);
        let (found, spooled, settled) = match with_spool {
            Some(local) => {
                let (found, spooled) = export::read(&remote, &*local.spool, &local.of.path).await?;
                (found, Some(spooled), false)
            }
            None => {
                let (found, settled) = find(&remote, options, local.as_ref()).await?;
                (found, None, settled)
            }
        };
        if let Some(local) = &local {
            history::check(local, &remote, &found).await?;
            if with_spool.is_none() {
                history::record(local, &remote, &found).await?;
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
        let state = Arc::new(Mutex::new(State::new(found.map, session.map_or(Epoch::MKFS, |s| s.epoch))));
        let writeback = session.zip(local.as_ref().filter(|l| l.writeback)).map(|(session, local)| {
            let queue = Queue::new(session.epoch);
            let of = (session, state.clone());
            Arc::new(Writeback::new(
                remote.clone(),
                local.spool.clone(),
                local.limit,
                queue,
                of,
                handle.clone(),
            ))
        });
        let spool = with_spool.map(|local| local.spool.clone());
        let backing = Arc::new(Backing { remote, writeback, spool });
        let disk = local.as_ref().and_then(|l| l.disk.clone());
        let cache = Cache::new(backing.clone(), disk, volume.id, options.cache_bytes);
        let reader = Arc::new(Reader::new(state.clone(), cache, handle.clone()));
        let writer = session.map(|session| {
            let writer = Arc::new(Writer::new(
                backing.clone(),
                session,
                state.clone(),
                reader.clone(),
                handle.clone(),
            ));
            let maps = Maps::new(base, replayed > 0, options.grace);
            let map_writer = MapWriter::new(writer.clone(), reader.clone(), maps);
            let map_writer = Arc::new(map_writer);
            handle.spawn(map_writer.clone().run(about));
            if let Some(writeback) = backing.writeback.clone() {
                let writer = writer.clone();
                handle.spawn(async move { writer.fail(&writeback.failure().await) });
            }
            (writer, map_writer)
        });
        Ok(Self { volume, state, reader, backing, local, spooled, writer, replayed })
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
    let conditional = probe::is_conditional(remote).await?;
    if !conditional && !unfenced {
        return Err(StoreError::Unconditional);
    }
    remote.set_unfenced(!conditional);
    let volume = Volume { id: random()?, geometry, unfenced: !conditional, marked: true };
    let map = encode_map(&Map::new(geometry), &volume.id, LogPlace::default());
    remote.put(Name::Map(LogPlace::default()), map, Cause::Open).await?;
    match remote.create(Name::Volume, volume.encode(), Cause::Open).await? {
        Created::Ours => Ok(()),
        Created::Other(_) => Err(StoreError::Exists),
    }
}

/// Reads the volume, and takes it unless it is opened for reading. Also returns whether its map is older than
/// the grace period of readers, by the store's clock.
async fn find(remote: &Remote, options: &Options, local: Option<&Local>) -> Result<(Recovered, bool)> {
    if options.read_only {
        if let Some(local) = local {
            refuse_spooled(local).await?;
        }
        return Ok((open::read_only(remote).await?, false));
    }
    let volume = volume::read(remote).await?;
    if !volume.unfenced && !probe::is_conditional(remote).await? {
        if !options.unfenced {
            return Err(StoreError::Unconditional);
        }
        // Kept, so that every later mount reports it.
        let volume = Volume { unfenced: true, ..volume };
        remote.put(Name::Volume, volume.encode(), Cause::Open).await?;
    }
    if let Some(local) = local {
        remote.set_patience(options.timeout);
        spool::upload(remote, &*local.spool, &local.of.path).await?;
    }
    let claim = EpochClaim {
        id: random()?,
        takeover: options.takeover,
        cache: local.map(|local| local.of.clone()),
        writeback: local.is_some_and(|local| local.writeback),
    };
    let found = open::writable(remote, claim).await?;
    let epoch = found.session.map_or(Epoch::MKFS, |s| s.epoch);
    let map = remote.head(Name::Map(found.base), Cause::Open).await?;
    let now = remote.head(Name::Epoch(epoch), Cause::Open).await?;
    let age = now.zip(map).and_then(|(now, map)| (now.last_modified - map.last_modified).to_std().ok());
    Ok((found, age.is_some_and(|age| age > options.grace)))
}

/// A reader does not upload objects, so it refuses a cache that has some.
async fn refuse_spooled(local: &Local) -> Result<()> {
    let dir = || local.of.path.clone();
    match local.spool.list().await {
        Ok(spooled) if spooled.is_empty() => Ok(()),
        Ok(_) => Err(StoreError::SpoolUnread { dir: dir() }),
        Err(e) => Err(StoreError::Cache { dir: dir(), why: e.to_string() }),
    }
}
