//! Cuts, faults and mounts in random order against a model: data that a flush acknowledged is present, and
//! the content is a state that was written. Runs are functions of their seeds.
use super::*;
use segno_testkit::Rng;
use std::collections::BTreeMap;

/// The first blocks of each zone and their content, and the pointers of sequential zones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    blocks: BTreeMap<u64, u8>,
    pointers: BTreeMap<u64, u64>,
}

impl Model {
    pub(super) fn seen(&self, device: &StoreDevice) -> bool {
        let zones = device.zones().unwrap();
        let pointer = |zone: u64| self.pointers.get(&zone).copied().unwrap_or(0);
        let pointers = (2..12).all(|zone| zones[zone as usize].pointer - zone * 64 == pointer(zone));
        let is_there = |zone: u64| {
            let content = try_read(device, zone * 64, 64)?;
            let model = (zone * 64..).map(|at| self.blocks.get(&at).copied().unwrap_or(0));
            Ok::<_, std::io::Error>(model.zip(content).all(|(a, b)| a == b))
        };
        pointers && (0..12).all(|zone| is_there(zone).unwrap_or(false))
    }

    fn write(&mut self, addr: u64, fill: u8, count: u64) {
        (addr..addr + count).for_each(|at| _ = self.blocks.insert(at, fill));
        if addr >= 128 {
            self.pointers.insert(addr / 64, addr % 64 + count);
        }
    }

    fn reset(&mut self, zone: u64) {
        self.blocks.retain(|at, _| at / 64 != zone);
        self.pointers.remove(&zone);
    }
}

/// One change; `false` if the device has failed.
pub(super) fn change(device: &StoreDevice, model: &mut Model, rng: &mut Rng) -> bool {
    let fill = rng.between(1, 255) as u8;
    let content = block(fill);
    let zone = rng.between(2, 11);
    let pointer = model.pointers.get(&zone).copied().unwrap_or(0);
    match rng.below(10) {
        0 => {
            model.reset(zone);
            device.reset_zone(zone * 64).is_ok()
        }
        1..=6 if pointer < 64 => {
            let count = rng.between(1, (64 - pointer).min(20));
            model.write(zone * 64 + pointer, fill, count);
            device.write(zone * 64 + pointer, &vec![&content; count as usize]).is_ok()
        }
        7 if pointer < 64 && rng.one_in(4) => {
            model.pointers.insert(zone, 64);
            device.finish_zone(zone * 64).is_ok()
        }
        _ => {
            let at = rng.below(120);
            model.write(at, fill, 3);
            device.write(at, &[&content; 3]).is_ok()
        }
    }
}

pub(super) fn faults(rng: &mut Rng) -> Faults {
    Faults {
        error: rng.below(15),
        lost: rng.below(10),
        stale: rng.below(10),
        partial: rng.below(2),
        late: rng.below(10),
        delay_bits: rng.below(8),
        ..Faults::default()
    }
}

/// A run: up to six mounts, each cut at a random request.
fn run(seed: u64) {
    let mut rng = Rng::new(seed);
    let store = store(seed, Faults::default());
    drop(create(&store, SMALL));
    // States from the last that is certainly durable on.
    let mut states = vec![Model::default()];
    for mount in 0..rng.between(2, 6) {
        store.set_faults(faults(&mut rng));
        let client = store.client();
        let Ok(device) = open(&client, Options { timeout: Duration::from_secs(20), ..options() }) else {
            // Its requests failed for too long.
            continue;
        };
        let found = states.iter().rposition(|state| state.seen(&device));
        let at = found.unwrap_or_else(|| panic!("seed {seed}, mount {mount}: what is there was never written after the last acknowledged flush"));
        states = vec![states[at].clone()];
        if rng.chance(70) {
            client.cut_after(rng.below(60));
        }
        for _ in 0..rng.below(40) {
            let mut next = states.last().cloned().unwrap();
            if !change(&device, &mut next, &mut rng) {
                states.push(next);
                break;
            }
            states.push(next);
            let ended = match rng.below(8) {
                0 => device.runtime().block_on(async {
                    tokio::time::timeout(Duration::from_secs(1000), async { device.flush_now().await }).await
                }),
                1 if rng.one_in(4) => device.runtime().block_on(async {
                    tokio::time::timeout(Duration::from_secs(1000), async { device.map_now().await }).await
                }),
                _ => continue,
            };
            match ended {
                Ok(Ok(())) => states = vec![states.last().cloned().unwrap()],
                // The cut, or too many faults.
                _ => break,
            }
        }
        device.abandon();
        client.cut();
    }
    store.set_faults(Faults::default());
    let device = open(&store.client(), options()).unwrap();
    assert!(states.iter().any(|state| state.seen(&device)), "seed {seed}: lost");
}

pub(super) fn share(default: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|n: String| n.parse::<u64>().ok());
    let from = number("SEED").unwrap_or(0);
    from..from + number("RUNS").unwrap_or(default)
}

#[test]
fn cuts_and_faults_lose_nothing_acknowledged() {
    for seed in share(300) {
        run(seed);
    }
}
