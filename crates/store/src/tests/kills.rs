//! Mounts with write-back that are cut at any step of staging or upload, and mounted again with their cache,
//! with another one, or with that of an earlier writer. Runs are functions of their seeds.
use super::cuts::{Model, change, faults, share};
use super::mem_spool::MemSpool;
use super::*;
use crate::StoreError;
use crate::device::OpenVolume;
use crate::wire::remote::Remote;
use segno_testkit::Rng;
use std::collections::HashMap;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

/// Largest room for objects that are not uploaded.
const LIMIT: u64 = 4 << 20;

struct Run {
    rng: Rng,
    store: FaultStore,
    spool: MemSpool,
    /// Caches of mounts that others took the volume from.
    others: Vec<MemSpool>,
    /// The spool is not that of the last mount.
    lost: bool,
    /// States from the last that is certainly in the store on.
    states: Vec<Model>,
    /// The last state that was acknowledged.
    acked: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let store = store(seed, Faults::default());
        drop(create(&store, SMALL));
        Self {
            rng: Rng::new(seed),
            store,
            spool: MemSpool::new(seed),
            others: Vec::new(),
            lost: false,
            states: vec![Model::default()],
            acked: 0,
        }
    }

    /// Several mounts; the last one meets no fault.
    fn mounts(&mut self) -> Result<(), String> {
        let mounts = self.rng.between(2, 6);
        for mount in 0..=mounts {
            let last = mount == mounts;
            self.choose_spool(last);
            let client = self.store.client();
            self.spool = self.spool.after_cut(Some(&client));
            if !last && self.rng.chance(30) {
                self.spool.cut_after(self.rng.below(30));
            }
            let opened = self.open(&client);
            if let Some(device) = opened.map_err(|why| format!("mount {mount}: {why}"))? {
                self.judge(&device).map_err(|why| format!("mount {mount}: {why}"))?;
                self.work(&device, &client);
                device.abandon();
            } else if last && !self.lost {
                return Err("the last mount is refused".into());
            }
            client.cut();
        }
        Ok(())
    }

    fn choose_spool(&mut self, last: bool) {
        let rng = &mut self.rng;
        if rng.chance(25) {
            let next = if self.others.is_empty() || rng.chance(50) {
                MemSpool::new(rng.below(u64::MAX))
            } else {
                self.others.swap_remove(rng.below(self.others.len() as u64) as usize)
            };
            self.others.push(std::mem::replace(&mut self.spool, next));
            self.lost = true;
        }
        self.store.set_faults(if last { Faults::default() } else { Faults { partial: 0, ..faults(rng) } });
        // A quick disk lets commits wait for the store.
        let delay_bits = if rng.chance(50) { 0 } else { rng.below(8) };
        self.spool.set_faults(delay_bits, if rng.chance(30) { rng.below(50) } else { 0 });
    }

    /// `None` if the mount was cut off, its requests failed for too long, or its cache was refused.
    fn open(&mut self, client: &FaultStore) -> Result<Option<StoreDevice>, String> {
        let kept: HashMap<u32, _> = (0..20).map(|epoch| (epoch, self.spool.of_epoch(epoch))).collect();
        let local = self.spool.local(self.rng.between(1 << 16, LIMIT));
        let options = Options { takeover: self.lost, timeout: Duration::from_secs(20), ..options() };
        let runtime = runtime();
        let opened = runtime.block_on(async {
            let remote = Remote::new(Arc::new(client.clone()), prefix(), Duration::from_secs(20));
            let handle = Handle::current();
            let open = OpenVolume::open_with(Arc::new(remote), &options, Some(local), &handle);
            timeout(Duration::from_secs(100_000), open).await
        });
        match opened {
            Ok(Ok(open)) if self.spool.disarm() => Ok(Some(StoreDevice::of(runtime, open))),
            // Files of earlier epochs whose removal was undone may be removed.
            Ok(Err(StoreError::SpoolRefused { epoch, .. })) if self.spool.of_epoch(epoch) != kept[&epoch] => {
                Err("a spool that was refused is not kept".into())
            }
            Ok(Err(e @ (StoreError::SpoolRefused { .. } | StoreError::SpoolElsewhere { .. })))
                if !self.lost =>
            {
                Err(e.to_string())
            }
            _ => Ok(None),
        }
    }

    /// A mount must find a state since the last one in the store, or, with its cache, since the last
    /// acknowledged one.
    fn judge(&mut self, device: &StoreDevice) -> Result<(), String> {
        let floor = if self.lost { 0 } else { self.acked };
        let at = (floor..self.states.len()).rev().find(|&at| self.states[at].seen(device));
        let at = at.ok_or(format!("cache lost: {}: no state from {floor} on", self.lost))?;
        (self.states, self.acked, self.lost) = (vec![self.states[at].clone()], 0, false);
        Ok(())
    }

    /// Changes, flushes, maps and drains until a cut or an error.
    fn work(&mut self, device: &StoreDevice, client: &FaultStore) {
        if self.rng.chance(50) {
            client.cut_after(self.rng.below(60));
        }
        if self.rng.chance(50) {
            self.spool.cut_after(self.rng.below(60));
        }
        for _ in 0..self.rng.below(60) {
            let mut next = self.states.last().cloned().unwrap();
            let changed = change(device, &mut next, &mut self.rng);
            self.states.push(next);
            if !changed || !self.wait(device) {
                return;
            }
        }
    }

    /// `false` after a cut, or too many faults.
    fn wait(&mut self, device: &StoreDevice) -> bool {
        let within = Duration::from_secs(1000);
        let what = self.rng.below(16);
        let pause = Duration::from_millis(1 << self.rng.below(16));
        let ended = device.runtime().block_on(async {
            match what {
                0..6 => timeout(within, device.flush_now()).await,
                6 => timeout(within, device.map_now()).await,
                7 => timeout(within, device.drain_now()).await,
                8 => {
                    sleep(pause).await;
                    Ok(Ok(()))
                }
                9 => {
                    let _beside_others = tokio::spawn(device.map_later());
                    Ok(Ok(()))
                }
                _ => Ok(Ok(())),
            }
        });
        if !matches!(ended, Ok(Ok(()))) {
            return false;
        }
        match what {
            0..6 => self.acked = self.states.len() - 1,
            // A map covers only what is in the store.
            6 | 7 => (self.states, self.acked) = (self.states.split_off(self.states.len() - 1), 0),
            _ => {}
        }
        true
    }
}

fn run(seed: u64) -> Result<(), String> {
    Run::new(seed).mounts()
}

#[test]
fn cuts_lose_nothing_acknowledged_with_the_cache_and_leave_an_uploaded_commit_without() {
    for seed in share(300) {
        run(seed).unwrap_or_else(|why| panic!("SEED={seed} RUNS=1: {why}"));
    }
}
