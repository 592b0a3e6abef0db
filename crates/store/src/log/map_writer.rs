//! Maps and related work: compaction before a map is written, and deletion of objects that the last two maps
//! do not name.
use crate::ids::{LogPlace, Seq};
use crate::log::compactor;
use crate::log::maps::{Fate, Found, MapRequest, Maps};
use crate::log::read::reader::Reader;
use crate::log::writer::Writer;
use crate::stats::Cause;
use crate::wire::names::{Name, ObjectId};
use crate::{Result, StoreError};
use bytes::Bytes;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};

pub(crate) struct MapWriter {
    writer: Arc<Writer>,
    reader: Arc<Reader>,
    /// One map at a time.
    turn: tokio::sync::Mutex<()>,
    maps: Mutex<Maps>,
}

impl MapWriter {
    pub(crate) fn new(writer: Arc<Writer>, reader: Arc<Reader>, maps: Maps) -> Self {
        Self { writer, reader, turn: tokio::sync::Mutex::default(), maps: Mutex::new(maps) }
    }

    /// Serves until the writer fails or is closed.
    pub(crate) async fn run(self: Arc<Self>, found: Found) {
        // Objects that it leaves are found again by the next mount.
        let _swept = self.sweep(&found).await;
        if self.maps.lock().is_behind() {
            // A map that cannot be stored now is due again soon.
            let _later = self.write_map().await;
        }
        while self.writer.failed().is_none() {
            let due = self.maps.lock().next_due();
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
            self.writer.flush_and_describe(|state| state.describe(&session)).await?;
        self.write(seq, bytes, unnamed).await
    }

    async fn write(&self, seq: Seq, bytes: Bytes, unnamed: Vec<ObjectId>) -> Result<()> {
        let place = self.writer.session.place(seq);
        let name = Name::Map(place);
        if bytes.len() as u64 > name.bytes_max() {
            return Err(StoreError::corrupt(name, "it is longer than a mount reads, so it is not stored"));
        }
        let remote = &self.writer.backing.remote;
        let mut request = self.maps.lock().begin(place, unnamed);
        loop {
            let mut listed = Vec::new();
            match &request {
                MapRequest::Commits(seq) => self.writer.backing.settled(*seq).await?,
                MapRequest::Put(_) => remote.put(name, bytes.clone(), Cause::Map).await?,
                MapRequest::List => listed = self.list_maps().await?,
                MapRequest::Delete(maps) => self.delete_maps(maps).await?,
                MapRequest::Done => return Ok(()),
            }
            request = self.maps.lock().step(&listed, Instant::now());
        }
    }

    async fn list_maps(&self) -> Result<Vec<LogPlace>> {
        let names = self.writer.backing.remote.list("map", None, Cause::Delete).await?;
        Ok(names.into_iter().filter_map(Name::place).collect())
    }

    async fn delete_maps(&self, places: &[LogPlace]) -> Result<()> {
        let names: Vec<Name> = places.iter().copied().map(Name::Map).collect();
        self.writer.backing.remote.delete(&names, Cause::Delete).await
    }

    async fn delete(&self, objects: &[ObjectId]) -> Result<()> {
        let names: Vec<Name> = objects.iter().map(|&id| Name::Object(id)).collect();
        self.writer.backing.remote.delete(&names, Cause::Delete).await
    }

    /// Deletes what is due.
    pub(crate) async fn delete_due(&self) -> Result<()> {
        let due = self.maps.lock().take_due(Instant::now());
        self.delete(&due).await
    }

    /// Finds objects that earlier mounts left.
    async fn sweep(&self, found: &Found) -> Result<()> {
        let remote = &self.writer.backing.remote;
        let Some((older, oldest)) = found.earlier_maps(self.list_maps().await?) else { return Ok(()) };
        self.delete_maps(&oldest).await?;
        let mut objects = Vec::new();
        for dir in ["data", "log"] {
            objects.extend(remote.list(dir, None, Cause::Delete).await?);
        }
        let mut garbage = Vec::new();
        let mut state = self.writer.state.lock();
        for name in objects {
            let Name::Object(id) = name else { continue };
            match found.fate(id, older, self.writer.session.epoch) {
                Fate::Kept => {}
                Fate::Tracked => _ = state.stored.insert(id),
                Fate::Garbage => garbage.push(id),
            }
        }
        drop(state);
        self.maps.lock().add(older, garbage, found.settled, Instant::now());
        Ok(())
    }

    /// Stores everything and ends the epoch, so that the next mount needs no takeover.
    pub(crate) async fn close(&self) -> Result<()> {
        if let Some(why) = self.writer.failed() {
            return Err(why);
        }
        self.writer.drain().await?;
        let end = self.writer.state.lock().seq;
        let is_needed = self.maps.lock().is_needed(&self.writer.session, end);
        if is_needed {
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
