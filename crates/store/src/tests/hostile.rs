//! Objects whose checksums are right and whose content is not: every outcome is data or an error, on every
//! path.
use super::*;
use bytes::Bytes;
use segno_testkit::Rng;
use segno_testkit::stored::spoil_object;
use std::collections::BTreeMap;

/// A volume with seals, maps, data objects and commits of two epochs, the second one without an end.
fn objects() -> BTreeMap<String, Bytes> {
    let store = store(95, Faults::default());
    let device = create(&store, SMALL);
    write(&device, 128, &[7; 64]);
    write(&device, 0, &[8; 40]);
    device.finish_zone(256).unwrap();
    drop(device);
    let device = open(&store, options()).unwrap();
    for fill in 1..6 {
        write(&device, 3, &[fill; 4]);
        write(&device, 191 + u64::from(fill), &[fill]);
        device.discard(20, 3).unwrap();
        device.flush().unwrap();
    }
    store.cut();
    device.abandon();
    store.objects()
}

/// Reads everything, then writes, and closes. Errors are answers.
fn use_it(store: &FaultStore) -> bool {
    let read_all = |device: &StoreDevice| {
        let _state = (device.about(), device.zones().unwrap());
        let blocks = device.block_count().min(2048);
        (0..blocks).step_by(64).for_each(|at| {
            let count = (blocks - at).min(64) as usize;
            let mut into: Vec<Block> = (0..count).map(|_| Block::zeroed()).collect();
            let _data_or_error = device.read(at, &mut into);
        });
    };
    let reader = open(&store.client(), Options { read_only: true, ..options() });
    reader.iter().for_each(read_all);
    let writer = open(&store.client(), options());
    if let Ok(device) = &writer {
        let _done = device.write(5, &[&block(9)]);
        let _done = device.reset_zone(u64::from(device.geometry().zone_blocks) * 3);
        let _done = (device.flush(), device.write_map(), device.drain());
        read_all(device);
    }
    reader.is_ok() || writer.is_ok()
}

/// Many with `RUNS=`, from seed `SEED=`.
#[test]
fn records_with_right_checksums_and_wrong_content_are_no_more_than_errors() {
    let of_env = |name: &str| std::env::var(name).ok().map(|value| value.parse::<u64>().unwrap());
    let objects = objects();
    let names: Vec<&String> = objects.keys().filter(|name| !name.contains("/data/")).collect();
    let (mut opened, first) = (0, of_env("SEED").unwrap_or(0));
    let runs = of_env("RUNS").unwrap_or(400);
    for seed in first..first + runs {
        let mut rng = Rng::new(seed);
        let store = store_of(seed, &objects);
        let name = names[rng.below(names.len() as u64) as usize];
        store.alter(name, |bytes| spoil_object(name, bytes, &mut rng));
        let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| use_it(&store)));
        opened += u64::from(used.unwrap_or_else(|_| panic!("seed {seed}, {name}")));
    }
    // Otherwise the content was not reached.
    assert!(opened * 4 >= runs, "{opened} of {runs} volumes were opened");
    println!("{opened} of {runs} volumes were opened");
}

fn store_of(seed: u64, objects: &BTreeMap<String, Bytes>) -> FaultStore {
    let runtime = runtime();
    let _entered = runtime.enter();
    FaultStore::holding(seed, objects)
}
