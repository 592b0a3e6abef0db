//! The cuts of one crashed volume.
use super::super::fault_store::{FaultStore, Faults};
use super::super::mem_spool::MemSpool;
use super::super::{notices, observe, options, prefix, runtime};
use super::bucket::{HOUSEKEEPING, Objects, buried, check, check_closely, holding, wait};
use super::crash::crash;
use super::log::{Change, Cut, Log, Media};
use super::recorder::Recorder;
use crate::device::{OPEN_PATIENCE, OpenVolume};
use crate::local::cache::Local;
use crate::wire::remote::Remote;
use crate::{CacheOptions, Notice, Options, Result, StoreDevice};
use object_store::ObjectStore;
use segno_device::BlockDevice;
use segno_sim::capture::Tree;
use segno_sim::model::Content;
use segno_sim::mounted::Mounted;
use segno_sim::notices::Notices;
use segno_sim::recovery::Crashed;
use segno_sim::suite::Reach;
use segno_testkit::Rng;
use segno_testkit::caught;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path as FsPath;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// The clock of a recovery, later than all changes.
const RECOVERY_TIME: i64 = 90_000;
/// Bytes that may wait for the store: everything.
pub(super) const LIMIT: u64 = 512 << 20;
/// Fewest segments that the largest recovery writes, by size.
const SEGMENTS: [u64; 2] = [4, 30];
/// Latency of a request. Requests that begin together are in flight together.
const LATENCY: Duration = Duration::from_millis(30);
/// Draws of the requests in flight that arrived.
const DRAWS: usize = 2;
/// Cuts among the maps and deletions that follow a recovery.
const LATER: usize = 10;
/// Share of the volumes that are judged by fsck.f2fs too.
const CLOSELY: u64 = 50;

pub(super) type Outcome<T> = std::result::Result<T, String>;

/// Where the acknowledged changes are at the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// In the store; there is no cache.
    Store,
    /// In the store, and recovery writes to a cache with write-back.
    Uploaded,
    /// The later ones in the cache only.
    Spooled,
}

/// The state that a client finds.
struct Found {
    media: Media,
    /// Requests of the client before that are on the way.
    late: Vec<(u64, Change)>,
    /// Directories of the cache that were lost so far. Then the volume is mounted with `takeover`.
    losses: u64,
}

impl Found {
    fn new(media: Media) -> Self {
        Self { media, late: Vec::new(), losses: 0 }
    }
}

pub(super) struct Trial {
    kind: Kind,
    seed: u64,
    rng: Rng,
    crashed: Crashed,
    notices: Notices,
    media: Media,
    /// Files that the store has at the crash.
    uploaded: usize,
    cuts: usize,
    states: u64,
    pairs: u64,
    reach: Reach,
    requests: u64,
    changes: u64,
    commits: u64,
    objects: u64,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cuts, states, pairs, reach, requests, changes, commits, objects, .. } = self;
        write!(f, "{states} states, {pairs} pairs of cuts, {cuts} cuts of the first recovery; {reach}; ")?;
        write!(f, "{requests} requests and {changes} changes of bucket and cache in a recovery, ")?;
        write!(f, "{commits} commits read, {objects} objects")
    }
}

impl Trial {
    pub(super) fn new(kind: Kind, seed: u64, size: u64) -> Outcome<Self> {
        let (crashed, media) = crash(kind, seed, size)?;
        let mut trial = Self {
            kind,
            seed,
            rng: Rng::new(seed),
            crashed,
            notices: Notices::default(),
            media,
            uploaded: 0,
            cuts: 0,
            states: 0,
            pairs: 0,
            reach: Reach::default(),
            requests: 0,
            changes: 0,
            commits: 0,
            objects: 0,
        };
        if kind == Kind::Spooled {
            trial.uploaded = trial.count_uploaded()?;
            println!("{} files are in the store", trial.uploaded);
        }
        Ok(trial)
    }

    /// Whether the volume was as large as it should be.
    pub(super) fn has_reached(&self, size: u64) -> bool {
        self.reach.segments >= SEGMENTS[size as usize] && self.reach.cuts == 3
    }

    /// Cuts of the first recovery, and pairs of cuts.
    pub(super) fn cut_recorded(&mut self, pairs: usize) -> Outcome<()> {
        let crash = Found::new(self.media.clone());
        let log = self.recover(&crash, 1).map_err(|why| format!("recovery without a cut: {why}"))?;
        let moments = [log.moments(), log.later_moments(LATER)].concat();
        let firsts = log.cuts(&moments, DRAWS, &mut self.rng);
        let step = firsts.len().div_ceil(pairs.max(1)).max(1);
        let each = pairs.div_ceil(firsts.len().div_ceil(step));
        for first in firsts.iter().step_by(step) {
            let name = log.describe(first);
            let found = self.found(&log, first, &crash);
            self.cuts += 1;
            let again = self.examine(&found, 2).map_err(|why| format!("recovery cut {name}: {why}"))?;
            for second in self.drawn(&again, each) {
                let at = again.describe(&second);
                let found = self.found(&again, &second, &found);
                self.pairs += 1;
                self.examine(&found, 3).map_err(|why| format!("recovery cut {name}; then {at}: {why}"))?;
            }
        }
        Ok(())
    }

    /// Some cuts of a recovery.
    fn drawn(&mut self, log: &Log, most: usize) -> Vec<Cut> {
        let moments = [log.moments(), log.later_moments(1)].concat();
        let mut all = log.cuts(&moments, 1, &mut self.rng);
        let mut drawn = Vec::new();
        while drawn.len() < most && !all.is_empty() {
            drawn.push(all.swap_remove(self.rng.below(all.len() as u64) as usize));
        }
        drawn
    }

    /// The state after a cut. Requests in flight may arrive while the next client recovers, and the cache may
    /// be lost.
    fn found(&mut self, log: &Log, cut: &Cut, before: &Found) -> Found {
        let mut media = log.media(cut);
        let mut late = Vec::new();
        for change in log.late(cut) {
            if self.rng.one_in(3) {
                late.push((self.rng.below(60), change));
            }
        }
        let is_lost = self.kind != Kind::Store && self.rng.one_in(2);
        if is_lost {
            media.files.clear();
        }
        Found { media, late, losses: before.losses + u64::from(is_lost) }
    }

    fn examine(&mut self, found: &Found, cuts: u64) -> Outcome<Log> {
        self.states += 1;
        caught(|| self.recover(found, cuts))
    }

    /// Mounts the volume, and compares everything in it. The user is told of nothing but a takeover.
    fn recover(&mut self, found: &Found, cuts: u64) -> Outcome<Log> {
        let objects = buried(&found.media.objects);
        self.check(&objects).map_err(|why| format!("before recovery: {why}"))?;
        self.objects = self.objects.max(objects.len() as u64);
        let store = holding(self.seed, &objects);
        store.set_faults(Faults { latency: LATENCY, ..Faults::default() });
        let base = Media { objects, files: found.media.files.clone() };
        let recorder = Recorder::new(store.clone(), Log::new(base), found.late.clone());
        let device = self.open(&recorder, found).map_err(|e| format!("it does not open: {e}"))?;
        self.compare(device, || recorder.mounted(), cuts, found)?;
        self.check(&store.objects()).map_err(|why| format!("after recovery: {why}"))?;
        let log = recorder.take();
        self.requests = self.requests.max(log.requests);
        self.changes = self.changes.max(log.changes());
        Ok(log)
    }

    /// Mounts an open device and compares. `mounted` is called when recovery has ended.
    fn compare(&mut self, device: StoreDevice, mounted: impl Fn(), cuts: u64, found: &Found) -> Outcome<()> {
        self.commits = self.commits.max(device.about().replayed);
        let device = Arc::new(device);
        let before = pointers(&device);
        let mut engine = self.mount(&device)?;
        device.drain().map_err(|e| e.to_string())?;
        mounted();
        let segments = pointers(&device).iter().zip(before).filter(|(now, before)| *now != before).count();
        wait(&device);
        let inodes = self.judge(&mut engine, found.losses > 0)?;
        let features = engine.features();
        engine.unmount().map_err(|e| format!("unmount after recovery: {e}"))?;
        drop(engine);
        device.close().map_err(|e| format!("close after recovery: {e}"))?;
        self.heard(found.losses > 0)?;
        let (inodes, segments) = (inodes as u64, segments as u64);
        self.reach += Reach { inodes, segments, threads: 1, cuts, features, ..Reach::default() };
        Ok(())
    }

    fn mount(&self, device: &Arc<StoreDevice>) -> Outcome<Mounted> {
        let mounted = self.crashed.setup.mount_volume(device.clone(), RECOVERY_TIME, self.notices.observer());
        mounted.map_err(|e| format!("it does not mount: {e}"))
    }

    fn open(&self, recorder: &Recorder, found: &Found) -> Result<StoreDevice> {
        let store: Arc<dyn ObjectStore> = Arc::new(recorder.clone());
        let options = Options { takeover: found.losses > 0, ..options() };
        if self.kind == Kind::Store {
            return StoreDevice::open_on(runtime(), store, &prefix(), options);
        }
        // A directory that was made again is another cache.
        let spool = MemSpool::holding(self.seed + found.losses, found.media.files.clone());
        spool.set_faults(2, 0);
        let local = Local { spool: recorder.spool(spool.clone()), ..spool.local(LIMIT) };
        StoreDevice::open_local(runtime(), store, &prefix(), &options, local)
    }

    /// A share is judged by fsck.f2fs too.
    fn check(&self, objects: &Objects) -> Outcome<()> {
        if self.states.is_multiple_of(CLOSELY) {
            check_closely(self.seed, objects)
        } else {
            check(self.seed, objects)
        }
    }

    /// Compares the tree. Without the cache it is that of a prefix of the commits.
    fn judge(&self, engine: &mut Mounted, lost: bool) -> Outcome<usize> {
        let found = Tree::capture(engine).map_err(|e| format!("after recovery: {e}"))?;
        let mut wanted = self.crashed.tree.clone();
        if lost && self.kind == Kind::Spooled {
            let kept = keep_found(&mut wanted, &found)?;
            if kept < self.uploaded {
                return Err(format!("{kept} files, but the store had {}", self.uploaded));
            }
        }
        let inodes = found.inodes.len();
        self.crashed.difference(found, wanted).map_or(Ok(inodes), Err)
    }

    fn heard(&self, lost: bool) -> Outcome<()> {
        let mut told = self.notices.take();
        let is_due = |notice: &Notice| lost && matches!(notice, Notice::TookOver { .. });
        told.extend(notices().iter().filter(|notice| !is_due(notice)).map(ToString::to_string));
        if told.is_empty() { Ok(()) } else { Err(format!("the user is told {told:?}")) }
    }

    /// Pairs of cuts of clients with a cache of reads.
    pub(super) fn cut_with_a_cache_of_reads(&mut self, pairs: usize) -> Outcome<()> {
        self.recover(&Found::new(self.media.clone()), 1)?;
        for pair in 0..pairs {
            let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
            caught(|| self.cut_twice(dir.path())).map_err(|why| format!("pair {pair}: {why}"))?;
        }
        Ok(())
    }

    /// Cuts two mounts one after the other, whose cache of reads stays as it was at the cut.
    fn cut_twice(&mut self, cache: &FsPath) -> Outcome<()> {
        let mut objects = buried(&self.media.objects);
        for _ in 0..2 {
            let store = holding(self.seed, &objects);
            store.set_faults(Faults { latency: LATENCY, ..Faults::default() });
            store.cut_after(self.rng.below(self.requests));
            if let Some(device) = open_within(&store, cache)? {
                let device = Arc::new(device);
                let mounted = self.mount(&device);
                wait(&device);
                drop(mounted);
                Arc::into_inner(device).ok_or("the device is in use")?.abandon();
            }
            store.cut();
            objects = buried(&store.objects());
        }
        let _of_cut_clients = (notices(), self.notices.take());
        self.check(&objects).map_err(|why| format!("before recovery: {why}"))?;
        let store = holding(self.seed, &objects);
        let device = open_within(&store, cache)?.ok_or("the store does not answer")?;
        let found = Found::new(Media { objects, ..Media::default() });
        self.compare(device, || {}, 3, &found)?;
        (self.states, self.pairs) = (self.states + 1, self.pairs + 1);
        self.check(&store.objects()).map_err(|why| format!("after recovery: {why}"))
    }

    /// Files that are there without the cache: some, and not all.
    fn count_uploaded(&mut self) -> Outcome<usize> {
        let media = Media { objects: self.media.objects.clone(), ..Media::default() };
        let found = Found { losses: 1, ..Found::new(media) };
        self.recover(&found, 1)?;
        let dirs = self.crashed.tree.inodes.values().filter(|inode| inode.is_dir()).count();
        let uploaded = std::mem::take(&mut self.reach).inodes as usize - dirs;
        let all = self.crashed.tree.inodes.len() - dirs;
        if (1..all).contains(&uploaded) { Ok(uploaded) } else { Err(format!("{uploaded} of {all} files")) }
    }
}

/// Opens a volume with a cache of reads. `None` if the client is cut off meanwhile.
fn open_within(store: &FaultStore, cache: &FsPath) -> Outcome<Option<StoreDevice>> {
    let cache = CacheOptions { dir: cache.to_owned(), bytes: 64 << 20, writeback: false };
    let options = Options { takeover: false, cache: Some(cache), ..options() };
    let runtime = runtime();
    let opened = runtime.block_on(async {
        let remote = Remote::new(Arc::new(store.clone()), prefix(), OPEN_PATIENCE).observed(observe);
        let handle = Handle::current();
        let open = OpenVolume::open(Arc::new(remote), &options, &handle);
        timeout(HOUSEKEEPING, open).await
    });
    match opened {
        Ok(Ok(open)) => Ok(Some(StoreDevice::of(runtime, open))),
        Ok(Err(e)) => Err(format!("it does not open: {e}")),
        Err(_) => Ok(None),
    }
}

fn pointers(device: &StoreDevice) -> Vec<u64> {
    device.zones().unwrap().iter().map(|zone| zone.pointer).collect()
}

/// Leaves the files of a tree that were found, which must be the first ones that were made. Returns their
/// number.
fn keep_found(wanted: &mut Tree, found: &Tree) -> Outcome<usize> {
    let (mut last_kept, mut first_gone, mut kept) = (0, u32::MAX, 0);
    let names_of = |tree: &Tree, node| -> BTreeMap<Vec<u8>, u32> {
        tree.inodes.get(&node).and_then(|inode| inode.names().ok()).cloned().unwrap_or_default()
    };
    let found_dirs = names_of(found, found.root);
    for (dir, node) in names_of(wanted, wanted.root) {
        let there = found_dirs.get(&dir).map(|&node| names_of(found, node)).unwrap_or_default();
        let Some(Content::Dir { names, .. }) = wanted.inodes.get_mut(&node).map(|inode| &mut inode.content)
        else {
            continue;
        };
        names.retain(|name, file| {
            let is_there = there.contains_key(name);
            if is_there {
                (last_kept, kept) = (last_kept.max(*file), kept + 1);
            } else {
                first_gone = first_gone.min(*file);
            }
            is_there
        });
    }
    if last_kept > first_gone { Err("a file is there, and an earlier one is not".into()) } else { Ok(kept) }
}
