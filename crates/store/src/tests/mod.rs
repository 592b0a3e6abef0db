//! The device on a store in memory, under a paused clock.
mod answers;
mod basics;
mod cuts;
mod engine;
mod fault_store;
mod fuzz;
mod hostile;
mod kills;
mod losses;
mod mem_spool;
mod recovery;
mod schedules;
mod set_back;
mod simulation;
mod transport;
mod writeback;

use crate::{Geometry, Notice, Options, Result, StoreDevice};
use fault_store::{FaultStore, Faults};
use mem_spool::MemSpool;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path;
use segno_device::BlockDevice;
use segno_format::{BLOCK_SIZE, Block};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// A client of the bucket `b` at an endpoint.
pub(crate) fn s3(endpoint: String) -> AmazonS3Builder {
    AmazonS3Builder::new()
        .with_bucket_name("b")
        .with_endpoint(endpoint)
        .with_region("r")
        .with_access_key_id("k")
        .with_secret_access_key("s")
}

/// Zones of 64 blocks, 2 of 12 conventional.
const SMALL: Geometry = Geometry { zone_blocks: 64, zones: 12, conventional: 2 };

/// A runtime whose clock jumps to the next event.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// All mounts of a test have one process, which lives.
fn options() -> Options {
    Options {
        takeover: true,
        timeout: Duration::from_secs(60),
        grace: Duration::from_secs(600),
        observer: observe,
        ..Options::default()
    }
}

fn prefix() -> Path {
    Path::from("p")
}

fn store(seed: u64, faults: Faults) -> FaultStore {
    let _entered = runtime();
    let runtime = runtime();
    let _guard = runtime.enter();
    FaultStore::new(seed, faults)
}

fn create(store: &FaultStore, geometry: Geometry) -> StoreDevice {
    StoreDevice::create_on(runtime(), Arc::new(store.clone()), &prefix(), geometry, false, options()).unwrap()
}

fn open(store: &FaultStore, options: Options) -> Result<StoreDevice> {
    StoreDevice::open_on(runtime(), Arc::new(store.clone()), &prefix(), options)
}

/// Opens a volume with write-back, up to `limit` bytes of which wait on a spool.
fn open_cached(store: &FaultStore, spool: &MemSpool, limit: u64, takeover: bool) -> Result<StoreDevice> {
    let options = Options { takeover, ..options() };
    let (runtime, local) = (runtime(), spool.local(limit));
    StoreDevice::open_local(runtime, Arc::new(store.clone()), &prefix(), &options, local)
}

thread_local! {
    /// Notices of the devices of this test, which run on its thread.
    static NOTICES: RefCell<Vec<Notice>> = const { RefCell::new(Vec::new()) };
}

/// Keeps notices.
fn observe(notice: &Notice) {
    NOTICES.with_borrow_mut(|all| all.push(notice.clone()));
}

/// The notices since the last call.
fn notices() -> Vec<Notice> {
    NOTICES.take()
}

/// The time that the device's clock shows.
fn now(device: &StoreDevice) -> tokio::time::Instant {
    device.runtime().block_on(async { tokio::time::Instant::now() })
}

fn block(fill: u8) -> Block {
    Block([fill; BLOCK_SIZE])
}

fn write(device: &StoreDevice, addr: u64, fills: &[u8]) {
    let blocks: Vec<Block> = fills.iter().map(|&f| block(f)).collect();
    device.write(addr, &blocks.iter().collect::<Vec<_>>()).unwrap();
}

fn read(device: &StoreDevice, addr: u64, count: usize) -> Vec<u8> {
    try_read(device, addr, count).unwrap()
}

fn try_read(device: &StoreDevice, addr: u64, count: usize) -> std::io::Result<Vec<u8>> {
    let mut into: Vec<Block> = (0..count).map(|_| Block::zeroed()).collect();
    device.read(addr, &mut into)?;
    for b in &into {
        assert!(b.0.iter().all(|&x| x == b.0[0]), "a mixed block");
    }
    Ok(into.iter().map(|b| b.0[0]).collect())
}
