//! A bucket as the next client finds it, and its invariants.
use super::super::engine::assert_clean;
use super::super::fault_store::FaultStore;
use super::super::{notices, open, options, runtime, write};
use super::trial::Outcome;
use crate::fence::owner::Owner;
use crate::wire::names::Name;
use crate::{Options, StoreDevice};
use bytes::Bytes;
use segno_sim::setup;
use std::collections::BTreeMap;
use std::time::Duration;

/// After this time maps were written and objects deleted.
pub(super) const HOUSEKEEPING: Duration = Duration::from_secs(2000);
/// Commits that the last two maps do not cover, and their objects.
const RECENT: usize = 8;

pub(super) type Objects = BTreeMap<String, Bytes>;

/// The objects, with owners of epochs whose processes have ended.
pub(super) fn buried(objects: &Objects) -> Objects {
    let mut objects = objects.clone();
    for (name, bytes) in &mut objects {
        let of_volume = name.split_once('/').and_then(|(_, rest)| Name::parse(rest));
        if let Some(Name::Epoch(epoch)) = of_volume {
            let owner = Owner::decode(epoch, bytes).unwrap();
            *bytes = Owner { pid: i32::MAX as u32, ..owner }.encode();
        }
    }
    objects
}

/// A store with these objects under a paused clock.
pub(super) fn holding(seed: u64, objects: &Objects) -> FaultStore {
    let runtime = runtime();
    let _guard = runtime.enter();
    FaultStore::holding(seed, objects)
}

/// Lets time pass in which maps are written and objects deleted.
pub(super) fn wait(device: &StoreDevice) {
    device.runtime().block_on(async { tokio::time::sleep(HOUSEKEEPING).await });
}

/// A client that only reads finds a clean volume.
pub(super) fn check(seed: u64, objects: &Objects) -> Outcome<()> {
    let store = holding(seed, objects);
    let device = open(&store, Options { read_only: true, ..options() }).map_err(|e| e.to_string())?;
    setup::check(&device)
}

/// So does fsck.f2fs. Of a copy that is used further all objects are deleted that nothing names.
pub(super) fn check_closely(seed: u64, objects: &Objects) -> Outcome<()> {
    let store = holding(seed, objects);
    let failed = |e: crate::StoreError| e.to_string();
    let device = open(&store, Options { read_only: true, ..options() }).map_err(failed)?;
    assert_clean(&device);
    drop(device);
    let device = open(&store, options()).map_err(failed)?;
    wait(&device);
    // An object is deleted when two maps in a row do not name it; compaction leaves more of them with each
    // map.
    for round in 0..4 {
        write(&device, 0, &[round]);
        device.write_map().map_err(failed)?;
        device.delete_due_after(HOUSEKEEPING).map_err(failed)?;
    }
    let _took_over = notices();
    let names = store.names();
    let count = |dir: &str| names.iter().filter(|name| name.contains(dir)).count();
    let (there, named) = (count("/data/") + count("/log/"), device.about().objects as usize);
    // Each epoch has a seal.
    if there > named + count("/epoch/") + RECENT {
        return Err(format!("{there} objects, {named} in use: {names:?}"));
    }
    Ok(())
}
