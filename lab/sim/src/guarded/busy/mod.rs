//! Full guarded volumes under everything that runs on a mount: writers, writeback threads, cleaner thread, concurrent
//! checkpoints. No overwrite may run out of space, and the files hold what was written last.
mod draw;
mod moves;

pub use draw::{Busy, Layout};

use super::device::{judge, reported};
use super::pages::{self, Page, Versions};
use super::pauses::pauses;
use moves::Moving;
use segno_device::BlockDevice;
use segno_engine::lab::Probe;
use segno_engine::options::ContextSetting;
use segno_engine::{Background, Error, MountOptions, Owner, Volume};
use segno_format::{BLOCK_SIZE, Ino};
use segno_testkit::{PauseDevice, Rng, Zipf, ZonedDevice};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Data blocks that a node maps.
const PER_NODE: u64 = 1018;
/// Upper bound of the nodes that are not full direct nodes: inodes, and the last direct node of each file.
const OTHER_NODES: u64 = 24;
/// Seconds between background commits: longer than a run.
const NO_COMMIT: u32 = 86_400;
/// Pause between two readings of the free space, during a run.
const LOOK: Duration = Duration::from_millis(5);
const FILE: u16 = 0o100_644;

/// The measurements of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Blocks of the files.
    pub pages: u64,
    pub writes: u64,
    /// Blocks that the device was given since the files were full.
    pub blocks: u64,
    pub moved: u64,
    pub checkpoints: u64,
    /// Most writeback threads that were seen at once.
    pub threads: u64,
    /// The smallest free space, in blocks, beyond a quantum and the checkpoint that follows it.
    pub least_floor: i64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pages, writes, blocks, moved, checkpoints, threads, least_floor } = self;
        let amplification = *blocks as f64 / (*writes).max(1) as f64;
        write!(
            f,
            "{pages} pages, {writes} writes, amplification {amplification:.3}, {moved} moved, {checkpoints} checkpoints, \
             {threads} writeback threads, least floor {least_floor}"
        )
    }
}

struct Run {
    case: Busy,
    dev: Arc<ZonedDevice>,
    v: Arc<Volume>,
    files: Vec<Ino>,
    /// The file whose ranges move, if the case has one.
    moving: Option<Moving>,
    pages: u64,
}

/// Fills the volume, overwrites the files from several threads, and reads them.
pub fn run(case: &Busy) -> Result<Measured, String> {
    let mut run = Run::new(*case)?;
    let background = Background::start(&run.v).map_err(|e| e.to_string())?;
    run.fill()?;
    let before = run.dev.counts().blocks_written;
    let (writers, seen) = run.overwrite()?;
    run.v.sync().map_err(|e| format!("sync: {e}"))?;
    let measured = Measured {
        pages: run.pages,
        writes: run.writes(),
        blocks: run.dev.counts().blocks_written - before,
        moved: reported(&run.v, "gc_data_blocks") + reported(&run.v, "gc_node_blocks"),
        checkpoints: reported(&run.v, "checkpoints"),
        ..seen
    };
    run.judge(&writers)?;
    drop(background);
    for _ in 0..2 {
        run.v.unmount().map_err(|e| format!("unmount: {e}"))?;
        judge(&run.dev)?;
        run.v = case.mount(run.dev.clone())?;
        run.judge(&writers)?;
    }
    Ok(measured)
}

impl Busy {
    fn mount(&self, zoned: Arc<ZonedDevice>) -> Result<Arc<Volume>, String> {
        let device: Arc<dyn BlockDevice> = match self.pause {
            0 => zoned,
            most => Arc::new(PauseDevice::before_each(zoned, pauses(Duration::from_micros(most), self.seed))),
        };
        let defaults = MountOptions::default();
        let opts = MountOptions {
            background: true,
            background_gc: false,
            commit_interval: NO_COMMIT,
            mode: self.geometry.mode(),
            gc_policy: self.policy.map(str::to_owned),
            cache_bytes: self.cache,
            contexts: ContextSetting::Fixed(self.contexts),
            ..defaults
        };
        Volume::mount(device, opts).map_err(|e| format!("mount: {e}"))
    }
}

impl Run {
    /// The volume with the least reserve from that of the case on that guards the nodes of its files.
    fn new(case: Busy) -> Result<Self, String> {
        for geometry in case.geometry.with_more_reserved() {
            let dev = geometry.zoned_device()?;
            let v = case.mount(dev.clone())?;
            if v.guarded().covers(v.statfs().bfree / PER_NODE + OTHER_NODES) {
                let make = |name: &[u8]| {
                    let made = v.create(Ino::ROOT, name, FILE, Owner::default());
                    made.map(|attr| attr.ino).map_err(|e| format!("create: {e}"))
                };
                let files = (0..case.files).map(|i| make(format!("file{i}").as_bytes()));
                let files = files.collect::<Result<_, _>>()?;
                let moving = case.moves.then(|| Moving::new(&v, make(b"moving")?)).transpose()?;
                return Ok(Self { case, dev, v, files, moving, pages: 0 });
            }
        }
        Err("no reserve guards the volume".into())
    }

    /// The file of a page, and its position there.
    fn place(&self, page: u64) -> (Ino, u64) {
        let files = u64::from(self.case.files);
        (self.files[(page % files) as usize], page / files * BLOCK_SIZE as u64)
    }

    /// Writes the files until no block is left for users.
    fn fill(&mut self) -> Result<(), String> {
        let block = [0; BLOCK_SIZE];
        loop {
            let (ino, at) = self.place(self.pages);
            match self.v.write(ino, at, &block) {
                Ok(_) => self.pages += 1,
                Err(Error::NoSpace) => break,
                Err(e) => return Err(format!("layout, page {}: {e}", self.pages)),
            }
        }
        self.v.sync().map_err(|e| format!("sync behind the layout: {e}"))?;
        let nodes = reported(&self.v, "valid_node_count");
        if self.v.guarded().covers(nodes) {
            return Ok(());
        }
        Err(format!("the case has {nodes} nodes, {:?}", self.v.guarded()))
    }

    fn writes(&self) -> u64 {
        self.case.times * self.pages / u64::from(self.case.writers) * u64::from(self.case.writers)
    }

    /// Runs the writers and the moves of ranges, and reads the room meanwhile.
    fn overwrite(&mut self) -> Result<(Vec<Versions>, Measured), String> {
        let (moving, ended) = (self.moving.take(), AtomicBool::new(false));
        let (moved, written) = std::thread::scope(|scope| {
            let moves = moving.map(|moving| scope.spawn(|| moving.run(&self.v, self.case.seed, &ended)));
            let written = self.write_all();
            ended.store(true, Ordering::Relaxed);
            let moved =
                moves.map(|moves| moves.join().map_err(|_| "the moves of ranges panicked".to_owned())?);
            (moved.transpose(), written)
        });
        self.moving = moved?;
        written
    }

    fn write_all(&self) -> Result<(Vec<Versions>, Measured), String> {
        let mut seen = Measured { least_floor: i64::MAX, ..Measured::default() };
        let failed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..self.case.writers)
                .map(|number| {
                    let failed = &failed;
                    scope.spawn(move || {
                        self.write(number, failed).inspect_err(|_| failed.store(true, Ordering::Relaxed))
                    })
                })
                .collect();
            while !threads.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                seen.threads = seen.threads.max(reported(&self.v, "writeback_threads"));
                seen.least_floor = seen.least_floor.min(Probe(&self.v).space_figures().floor());
                std::thread::sleep(LOOK);
            }
            let ended = threads.into_iter().map(|t| t.join().map_err(|_| "a writer panicked".to_owned())?);
            ended.collect::<Result<Vec<_>, String>>()
        })
        .map(|writers| (writers, seen))
    }

    /// The writer of each page whose number has this rest. Returns what it wrote.
    fn write(&self, number: u32, failed: &AtomicBool) -> Result<Versions, String> {
        let writers = u64::from(self.case.writers);
        let own = self.pages / writers;
        let mut rng = Rng::for_thread(self.case.seed, number as usize);
        let zipf = self.case.zipf.map(|theta| Zipf::new(own, theta));
        let mut versions = Versions::new(self.pages as usize);
        let mut block = [0; BLOCK_SIZE];
        for done in 1..=self.case.times * self.pages / writers {
            if failed.load(Ordering::Relaxed) {
                break;
            }
            let drawn = match &zipf {
                Some(zipf) => zipf.draw(&mut rng),
                None => rng.scaled(own),
            };
            let page = (drawn * writers + u64::from(number)) as Page;
            pages::fill(page, versions.next(page), &mut block);
            let say = |e: Error| {
                format!("writer {number}, write {done}: {e}; {:?}", Probe(&self.v).space_figures())
            };
            let (ino, at) = self.place(page.into());
            self.v.write(ino, at, &block).map_err(say)?;
            if self.case.fsync_every.is_some_and(|every| done % every == 0) {
                self.v.fsync(ino).map_err(say)?;
            }
        }
        Ok(versions)
    }

    fn judge(&self, writers: &[Versions]) -> Result<(), String> {
        self.moving.iter().try_for_each(|moving| moving.judge(&self.v))?;
        let mut block = vec![0; BLOCK_SIZE];
        for page in 0..self.pages as Page {
            block.fill(0);
            let (ino, at) = self.place(page.into());
            let read = self.v.read(ino, at, &mut block);
            read.map_err(|e| format!("read of page {page}: {e}"))?;
            let wrote = writers.get(page as usize % writers.len().max(1));
            let expected = wrote.map_or(0, |versions| versions.holds(page));
            let found = pages::version_in(page, &block)?;
            if found != expected {
                return Err(format!("page {page} has version {found}, not {expected}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overwrites_by_all_threads_of_a_mount_never_run_out_of_space() {
        for seed in 0..6 {
            let case = Busy::draw(seed);
            let measured = run(&case).unwrap_or_else(|e| panic!("{case:?}: {e}"));
            assert!(measured.moved > measured.pages / 4 && measured.checkpoints > 2, "{case:?}: {measured}");
        }
    }

    /// The geometry on which overwrites failed on a mount.
    #[test]
    fn a_third_of_the_file_in_the_cache_is_overwritten() {
        let case = Busy { times: 1, writers: 4, ..Busy::measured(1, Layout::Zones(10.0), None) };
        let measured = run(&case).unwrap_or_else(|e| panic!("{case:?}: {e}"));
        assert!(measured.pages > 100_000 && measured.moved > 20_000, "{measured}");
    }
}
