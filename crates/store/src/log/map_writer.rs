//! Maps and related work: compaction before a map is written, and deletion of objects that the last two maps
//! do not name.
use crate::fence::epoch::Session;
use crate::ids::{Epoch, LogPlace, Seq};
use crate::log::compactor;
use crate::log::garbage::Garbage;
use crate::log::map_record::encode_map;
use crate::log::read::reader::Reader;
use crate::log::state::State;
use crate::log::writer::Writer;
use crate::stats::Cause;
use crate::wire::names::{Name, ObjectId};
use crate::{Result, StoreError};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Epochs without a map after which one is written at unmount.
const EPOCHS_WITHOUT_MAP: u32 = 8;

pub(crate) struct MapWriter {
    writer: Arc<Writer>,
    reader: Arc<Reader>,
    /// One map at a time.
    turn: tokio::sync::Mutex<()>,
    maps: Mutex<Maps>,
}

/// The maps in the store that recovery may use, and the objects that they do not name.
#[derive(Debug)]
struct Maps {
    /// Newest last.
    stored: Vec<LogPlace>,
    /// The last one whose unnamed objects are in the garbage.
    counted: Option<LogPlace>,
    garbage: Garbage,
    /// Whether commits after the newest map were read when the volume was opened.
    replayed: bool,
}

impl MapWriter {
    pub(crate) fn new(
        writer: Arc<Writer>,
        reader: Arc<Reader>,
        base: LogPlace,
        replayed: bool,
        grace: Duration,
    ) -> Self {
        let maps = Maps { stored: vec![base], counted: None, garbage: Garbage::new(grace), replayed };
        Self { writer, reader, turn: tokio::sync::Mutex::default(), maps: Mutex::new(maps) }
    }

    /// Serves until the writer fails or is closed.
    pub(crate) async fn run(self: Arc<Self>, found: Found) {
        // Objects that it leaves are found again by the next mount.
        let _swept = self.sweep(&found).await;
        if self.maps.lock().replayed {
            // A map that cannot be stored now is due again soon.
            let _later = self.write_map().await;
        }
        while self.writer.failed().is_none() {
            let due = self.maps.lock().garbage.next_due();
            let wait =
                due.map_or(Duration::from_secs(1 << 32), |due| due.saturating_duration_since(Instant::now()));
            // The timeout is not an error: due objects are deleted in either case.
            let _woken_or_due = timeout(wait, self.writer.work.notified()).await;
            if self.writer.map_is_due() {
                // A map that cannot be stored now is due again soon.
                let _later = self.write_map().await;
            }
            // Objects that cannot be deleted now are found again by the next mount.
            let _later = self.delete_due().await;
        }
    }

    /// Writes a map of the present state, after compaction.
    pub(crate) async fn write_map(&self) -> Result<()> {
        let _turn = self.turn.lock().await;
        compactor::run(&self.writer, &self.reader).await?;
        // Commits that a map covers are not merged any more, so few of them should wait.
        self.writer.settle().await?;
        let session = self.writer.session;
        let (seq, (bytes, unnamed)) =
            self.writer.flush_and_describe(|state| describe(state, &session)).await?;
        self.write(seq, bytes, unnamed).await
    }

    async fn write(&self, seq: Seq, bytes: Bytes, unnamed: Vec<ObjectId>) -> Result<()> {
        let place = self.writer.session.place(seq);
        let name = Name::Map(place);
        if bytes.len() as u64 > name.bytes_max() {
            return Err(StoreError::corrupt(name, "it is longer than a mount reads, so it is not stored"));
        }
        if self.maps.lock().stored.last() != Some(&place) {
            // A map stands for all commits before its place, so the store must have them first. Nothing is
            // deleted for the map before it is stored.
            self.writer.backing.settled(seq).await?;
            self.writer.backing.remote.put(name, bytes, Cause::Map).await?;
            self.maps.lock().stored.push(place);
        }
        // A map is deleted before the commits that follow it: see `recover`.
        let old: Vec<Name> = {
            let maps = self.maps.lock();
            let kept = maps.stored.len().saturating_sub(2);
            maps.stored.iter().take(kept).copied().map(Name::Map).collect()
        };
        self.writer.backing.remote.delete(&old, Cause::Delete).await?;
        let mut maps = self.maps.lock();
        maps.stored.drain(..old.len());
        maps.replayed = false;
        // The same map again is not another one: the map before it may still be needed.
        if maps.counted.replace(place) == Some(place) {
            maps.garbage.also_unnamed(unnamed);
        } else {
            maps.garbage.map_stored(unnamed, Instant::now());
        }
        Ok(())
    }

    async fn delete(&self, objects: &[ObjectId]) -> Result<()> {
        let names: Vec<Name> = objects.iter().map(|&id| Name::Object(id)).collect();
        self.writer.backing.remote.delete(&names, Cause::Delete).await
    }

    /// Deletes what is due.
    pub(crate) async fn delete_due(&self) -> Result<()> {
        let due = self.maps.lock().garbage.take_due(Instant::now());
        self.delete(&due).await
    }

    /// Finds objects that earlier mounts left.
    async fn sweep(&self, found: &Found) -> Result<()> {
        let remote = &self.writer.backing.remote;
        let maps = remote.list("map", None, Cause::Delete).await?;
        let before: Vec<Name> =
            maps.into_iter().filter(|&name| matches!(name, Name::Map(place) if place < found.base)).collect();
        // The map before the newest stays, and so do the commits after it.
        let (older, oldest) =
            before.split_last().map_or((None, [].as_slice()), |(last, rest)| (Some(*last), rest));
        remote.delete(oldest, Cause::Delete).await?;
        let since = match older {
            Some(Name::Map(place)) => place,
            _ => found.base,
        };
        let mut objects = Vec::new();
        for dir in ["data", "log"] {
            objects.extend(remote.list(dir, None, Cause::Delete).await?);
        }
        let mut garbage = Vec::new();
        let mut state = self.writer.state.lock();
        for name in objects {
            let Name::Object(id) = name else { continue };
            match found.fate(id, since, self.writer.session.epoch) {
                Fate::Kept => {}
                Fate::Tracked => _ = state.stored.insert(id),
                Fate::Garbage => garbage.push(id),
            }
        }
        drop(state);
        let mut maps = self.maps.lock();
        if let Some(Name::Map(place)) = older {
            maps.stored.insert(0, place);
        }
        maps.garbage.add(garbage, found.settled, Instant::now());
        Ok(())
    }

    /// Stores everything and ends the epoch, so that the next mount needs no takeover.
    pub(crate) async fn close(&self) -> Result<()> {
        if let Some(why) = self.writer.failed() {
            return Err(why);
        }
        self.writer.drain().await?;
        let (last, replayed) = {
            let maps = self.maps.lock();
            (maps.stored.last().copied(), maps.replayed)
        };
        let (session, open) = (self.writer.session, self.writer.state.lock().seq);
        let wrote = open > Seq::FIRST;
        let is_current = last.is_some_and(|last| last == session.place(open.previous()));
        let far = last.is_none_or(|last| session.epoch.since(last.epoch) >= EPOCHS_WITHOUT_MAP);
        if (wrote && !is_current) || replayed || far {
            self.write_map().await?;
        }
        let _turn = self.turn.lock().await;
        self.writer.drain().await?;
        self.writer.seal().await?;
        self.writer.fail(&StoreError::Runtime("the volume was closed".into()));
        self.writer.work.notify_one();
        Ok(())
    }
}

/// The map of the current state, and the stored objects that it does not name.
fn describe(state: &mut State, session: &Session) -> (Bytes, Vec<ObjectId>) {
    let content = &state.content;
    state.map.forget_unused(|index| content.contains_key(&index));
    let bytes = encode_map(&state.map, &session.volume, session.place(state.seq.previous()));
    let named: HashSet<ObjectId> = state.map.named().map(|(_, object)| object.id).collect();
    let unnamed: Vec<ObjectId> = state.stored.extract_if(|id| !named.contains(id)).collect();
    (bytes, unnamed)
}

/// State that a mount found, for the sweep.
#[derive(Debug)]
pub(crate) struct Found {
    pub base: LogPlace,
    /// Objects that the map or the commits after it name.
    pub named: HashSet<ObjectId>,
    pub seals: std::collections::BTreeMap<Epoch, Seq>,
    /// Whether the map is older than the grace period of readers.
    pub settled: bool,
}

enum Fate {
    Kept,
    Tracked,
    Garbage,
}

impl Found {
    fn fate(&self, id: ObjectId, since: LogPlace, own: Epoch) -> Fate {
        if id.epoch() >= own {
            return Fate::Kept;
        }
        if let ObjectId::Log(place) = id {
            let is_seal = self.seals.get(&place.epoch).is_none_or(|&seal| place.seq >= seal);
            if is_seal {
                return Fate::Kept;
            }
            if place > since {
                return Fate::Tracked;
            }
        }
        if self.named.contains(&id) { Fate::Tracked } else { Fate::Garbage }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Geometry;
    use crate::device::{OpenVolume, Options, create};
    use crate::wire::remote::Remote;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use tokio::runtime::{Builder, Handle};

    /// The map is refused because of its length, before its bytes are used.
    #[test]
    fn a_map_that_no_mount_reads_is_not_stored() {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let store = Arc::new(InMemory::new());
            let remote = Arc::new(Remote::new(store, Path::from("p"), Duration::from_secs(9)));
            let geometry = Geometry { zone_blocks: 64, zones: 12, conventional: 2 };
            create(&remote, geometry, false, false).await.unwrap();
            let open =
                OpenVolume::open(remote.clone(), &Options::default(), &Handle::current()).await.unwrap();
            let (writer, map_writer) = open.writer.as_ref().unwrap();
            let maps = || remote.list("map", None, Cause::Map);
            let before = maps().await.unwrap();
            let name = Name::Map(writer.session.place(Seq::FIRST));
            let bytes = Bytes::from(vec![0; name.bytes_max() as usize + 1]);
            let error = map_writer.write(Seq::FIRST, bytes, Vec::new()).await.unwrap_err();
            assert!(error.to_string().contains("longer than a mount reads"), "{error}");
            assert_eq!(maps().await.unwrap(), before);
        });
    }
}
