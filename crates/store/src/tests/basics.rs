//! One mount after another, without faults.
use super::*;
use crate::StoreError;
use crate::stats::Cause;
use crate::wire::url;

/// The store as a killed process leaves it.
fn kill(device: StoreDevice, store: &FaultStore) -> FaultStore {
    store.cut();
    device.abandon();
    store.client()
}

#[test]
fn what_was_flushed_is_there_after_a_kill_and_after_a_clean_unmount() {
    let store = store(1, Faults::default());
    let device = create(&store, SMALL);
    write(&device, 0, &[1, 2, 3]);
    write(&device, 128, &[4, 5]);
    assert_eq!(read(&device, 127, 4), [0, 4, 5, 0]);
    device.flush().unwrap();
    write(&device, 1, &[9]);
    write(&device, 130, &[6]);
    assert_eq!(read(&device, 0, 3), [1, 9, 3]);
    let store = kill(device, &store);

    let device = open(&store, options()).unwrap();
    assert_eq!((read(&device, 0, 3), read(&device, 128, 3)), (vec![1, 2, 3], vec![4, 5, 0]));
    assert_eq!(device.zones().unwrap()[2].pointer, 130);
    write(&device, 130, &[7; 62]);
    device.reset_zone(192).unwrap();
    write(&device, 192, &[8]);
    device.finish_zone(192).unwrap();
    drop(device);

    let device = open(&store, Options { takeover: false, ..options() }).unwrap();
    assert_eq!(read(&device, 128, 64), [vec![4, 5], vec![7; 62]].concat());
    assert_eq!(read(&device, 192, 2), [8, 0]);
    assert_eq!(device.zones().unwrap()[3].pointer, 256);
    device.write(193, &[&block(1)]).unwrap_err();
    device.reset_zone(128).unwrap();
    write(&device, 128, &[3]);
    assert_eq!(read(&device, 128, 2), [3, 0]);
    device.discard(0, 2).unwrap();
    assert_eq!(read(&device, 0, 3), [0, 0, 3]);
}

#[test]
fn an_fsync_is_one_put_and_idling_is_none() {
    let store = store(2, Faults::default());
    let device = create(&store, SMALL);
    write(&device, 128, &[1]);
    device.flush().unwrap();
    let puts = store.puts();
    for i in 0..10 {
        write(&device, 129 + i, &[2]);
        write(&device, i, &[3; 4]);
        device.flush().unwrap();
    }
    assert_eq!(store.puts() - puts, 10);
    let requests = store.requests();
    for _ in 0..10 {
        device.flush().unwrap();
    }
    device.runtime().block_on(async { tokio::time::sleep(Duration::from_secs(100_000)).await });
    assert_eq!(store.requests(), requests);
}

#[test]
fn what_a_small_commit_has_is_not_read_from_the_store() {
    let store = store(2, Faults::default());
    let device = create(&store, SMALL);
    write(&device, 128, &[5; 20]);
    write(&device, 3, &[6]);
    device.flush().unwrap();
    let requests = store.requests();
    assert_eq!((read(&device, 128, 20), read(&device, 3, 1)), (vec![5; 20], vec![6]));
    assert_eq!(store.requests(), requests);
}

#[test]
fn a_store_that_does_not_answer_stops_the_volume_after_its_timeout() {
    let store = store(2, Faults::default());
    let device = create(&store, SMALL);
    write(&device, 128, &[1]);
    let begun = now(&device);
    store.set_faults(Faults { latency: Duration::from_secs(100_000), ..Faults::default() });
    let why = device.flush().unwrap_err().to_string();
    assert!(why.contains("no answer"), "{why}");
    assert_eq!((now(&device) - begun).as_secs(), options().timeout.as_secs());
}

#[test]
fn a_second_writer_is_refused_and_a_takeover_fences_the_first() {
    let store = store(3, Faults::default());
    let first = create(&store, SMALL);
    write(&first, 128, &[1]);
    first.flush().unwrap();
    write(&first, 129, &[2]);
    match open(&store, Options { takeover: false, ..options() }).map(|_| ()) {
        Err(StoreError::Held { epoch: 1, owner }) => assert!(owner.contains("process"), "{owner}"),
        other => panic!("{other:?}"),
    }
    let second = open(&store, options()).unwrap();
    assert_eq!(read(&second, 128, 2), [1, 0]);
    let e = first.flush().unwrap_err();
    assert_eq!(e.kind(), std::io::ErrorKind::StaleNetworkFileHandle);
    first.write(130, &[&block(1)]).unwrap_err();
    assert_eq!(read(&first, 128, 2), [1, 2], "reads go on");
    write(&second, 129, &[3]);
    second.flush().unwrap();
    // A reader takes nothing.
    let reader = open(&store, Options { read_only: true, ..options() }).unwrap();
    assert_eq!(read(&reader, 128, 2), [1, 3]);
    assert!(reader.read_only() && reader.write(130, &[&block(1)]).is_err());
    write(&second, 130, &[4]);
    second.flush().unwrap();
}

#[test]
fn a_store_without_conditional_creation_is_refused() {
    let store = store(4, Faults { unconditional: true, ..Faults::default() });
    let made = |unfenced| {
        let options = Options { unfenced, ..options() };
        StoreDevice::create_on(runtime(), Arc::new(store.clone()), &prefix(), SMALL, false, options)
    };
    assert!(matches!(made(false).map(|_| ()), Err(StoreError::Unconditional)));
    let device = made(true).unwrap();
    write(&device, 128, &[1]);
    drop(device);
    let device = open(&store, options()).unwrap();
    assert!(device.is_unfenced());
    assert_eq!(read(&device, 128, 1), [1]);
}

#[test]
fn a_store_that_lost_conditional_creation_is_refused_unless_that_is_accepted_once() {
    let store = store(7, Faults::default());
    let device = create(&store, SMALL);
    write(&device, 128, &[1]);
    drop(device);
    store.set_faults(Faults { unconditional: true, ..Faults::default() });
    assert!(matches!(open(&store, options()).map(|_| ()), Err(StoreError::Unconditional)));
    let device = open(&store, Options { unfenced: true, ..options() }).unwrap();
    assert!(device.is_unfenced(), "the mount that accepts it reports it");
    write(&device, 129, &[2]);
    drop(device);
    let device = open(&store, options()).unwrap();
    assert!(device.is_unfenced(), "so does every later one");
    assert_eq!(read(&device, 128, 2), [1, 2]);
}

#[test]
fn accepting_it_changes_nothing_on_a_store_with_conditional_creation() {
    let store = store(8, Faults::default());
    drop(create(&store, SMALL));
    assert!(!open(&store, Options { unfenced: true, ..options() }).unwrap().is_unfenced());
    store.set_faults(Faults { unconditional: true, ..Faults::default() });
    assert!(matches!(open(&store, options()).map(|_| ()), Err(StoreError::Unconditional)));
}

#[test]
fn foreign_and_missing_volumes_are_refused_by_name() {
    let store = store(5, Faults::default());
    assert!(matches!(open(&store, options()).map(|_| ()), Err(StoreError::NoVolume)));
    drop(create(&store, SMALL));
    let again =
        StoreDevice::create_on(runtime(), Arc::new(store.clone()), &prefix(), SMALL, false, options());
    assert!(matches!(again.map(|_| ()), Err(StoreError::Exists)));
    store.alter("p/volume", |bytes| bytes[20] ^= 1);
    assert!(matches!(open(&store, options()).map(|_| ()), Err(StoreError::Corrupt { .. })));
    assert!(url::Url::parse("s3://").unwrap().is_err());
}

#[test]
fn altered_and_missing_objects_give_errors_and_never_other_data() {
    let store = store(6, Faults::default());
    let device = create(&store, SMALL);
    write(&device, 128, &[7; 64]);
    write(&device, 192, &[8; 64]);
    write(&device, 256, &[9]);
    drop(device);
    let data: Vec<String> = store.names().into_iter().filter(|n| n.contains("/data/")).collect();
    store.alter(&data[0], |bytes| bytes[5000] ^= 1);
    store.remove(&data[1]);
    let device = open(&store, options()).unwrap();
    let mut into = [Block::zeroed()];
    let altered = device.read(128, &mut into).unwrap_err().to_string();
    assert!(altered.contains("data/00000001/") && altered.contains("damaged"), "{altered}");
    let missing = device.read(192, &mut into).unwrap_err().to_string();
    assert!(missing.contains("missing"), "{missing}");
    assert_eq!(read(&device, 144, 48), [7; 48], "other pieces");
    assert_eq!(read(&device, 256, 1), [9]);
}

#[test]
fn large_writes_become_data_objects_and_reads_go_ahead() {
    let geometry = Geometry { zone_blocks: 8192, zones: 6, conventional: 1 };
    let store = store(7, Faults { latency: Duration::from_millis(20), ..Faults::default() });
    let device = create(&store, geometry);
    let blocks: Vec<Block> = (0..256).map(|_| block(5)).collect();
    let refs: Vec<&Block> = blocks.iter().collect();
    for i in 0..64 {
        device.write(8192 + i * 256, &refs).unwrap();
    }
    device.flush().unwrap();
    let stats = device.stats();
    assert_eq!(stats.count(Cause::Data).puts, 8);
    assert_eq!(stats.count(Cause::Commit).puts, 1);
    drop(device);
    let device = open(&store, options()).unwrap();
    for i in 0..64 {
        assert_eq!(read(&device, 8192 + i * 256, 256), [5; 256]);
    }
    let (read, ahead) = (device.stats().count(Cause::Read).gets, device.stats().count(Cause::Readahead).gets);
    // 64 MiB in 8 objects; the first steps are small.
    assert!(read + ahead <= 24, "{read} {ahead}");
}

/// Short runs are read ahead like the beginning of a long one, until that was useless too often.
#[test]
fn short_runs_elsewhere_fetch_no_more_than_twice_what_they_read() {
    let geometry = Geometry { zone_blocks: 8192, zones: 6, conventional: 1 };
    let store = store(7, Faults { latency: Duration::from_millis(20), ..Faults::default() });
    let device = create(&store, geometry);
    let content = block(5);
    (0..128).for_each(|i| device.write(8192 + i * 256, &[&content; 256]).unwrap());
    drop(device);
    let cache_bytes = 16 << 20;
    let device = open(&store, Options { cache_bytes, ..options() }).unwrap();
    let mut rng = segno_testkit::Rng::new(3);
    let before = device.stats().total().bytes_got;
    for _ in 0..2000 {
        let at = 8192 + rng.below(2046) * 16;
        (0..2).for_each(|i| assert_eq!(read(&device, at + i * 16, 16), [5; 16]));
    }
    let (got, used) = (device.stats().total().bytes_got - before, 2000 * (128 << 10));
    // The rest is read ahead until that counts as useless.
    assert!(got < 2 * used + (32 << 20), "{got} {used}");
}

#[test]
fn a_damaged_map_is_passed_over() {
    let too_long = |bytes: &mut Vec<u8>| bytes.resize(SMALL.map_bytes_max() as usize + 1, 0);
    for damage in [|bytes: &mut Vec<u8>| bytes.truncate(30), too_long] {
        let store = store(8, Faults::default());
        let device = create(&store, SMALL);
        write(&device, 128, &[1]);
        device.write_map().unwrap();
        write(&device, 129, &[2]);
        drop(device);
        let maps = || store.names().into_iter().filter(|n| n.contains("/map/")).collect::<Vec<_>>();
        let newest = maps().pop().unwrap();
        store.alter(&newest, damage);
        let device = open(&store, options()).unwrap();
        assert_eq!(read(&device, 128, 3), [1, 2, 0]);
        write(&device, 130, &[3]);
        drop(device);
        assert_eq!(read(&open(&store, options()).unwrap(), 128, 4), [1, 2, 3, 0]);
    }
}

#[test]
fn a_map_longer_than_that_of_the_largest_volume_of_its_size_is_not_read() {
    let store = store(16, Faults::default());
    drop(create(&store, SMALL));
    let most = usize::try_from(SMALL.map_bytes_max()).unwrap();
    let maps = || store.names().into_iter().filter(|n| n.contains("/map/"));
    for len in [most, most + 1] {
        maps().for_each(|name| store.alter(&name, |bytes| bytes.resize(len, 0)));
        let error = open(&store, options()).map(|_| ()).unwrap_err().to_string();
        assert_eq!(error.contains("longer than it can be"), len > most, "{len} bytes: {error}");
    }
}

/// Objects that the map before the newest needs stay, however often the newest map is written again.
#[test]
fn commits_behind_the_older_map_stay_until_there_is_a_third() {
    let store = store(14, Faults::default());
    let device = create(&store, SMALL);
    let commits = || store.names().into_iter().filter(|n| n.contains("/log/")).collect::<Vec<_>>();
    for fill in 1..=3 {
        write(&device, 0, &[fill]);
        device.flush().unwrap();
    }
    let all = commits();
    assert_eq!(all.len(), 3);
    for _ in 0..3 {
        device.write_map().unwrap();
        device.delete_due_after(Duration::from_secs(1 << 20)).unwrap();
        assert_eq!(commits(), all, "the first map of the volume is the older one");
    }
    write(&device, 0, &[4]);
    device.write_map().unwrap();
    device.delete_due_after(Duration::from_secs(1 << 20)).unwrap();
    assert_eq!(
        commits().len(),
        2,
        "the commit with the block, and the one that the newest map does not name"
    );
}

/// A program that never flushes; the object of the log must not be too large to read.
#[test]
fn a_group_with_too_many_changes_is_committed() {
    let store = store(15, Faults::default());
    let device = create(&store, SMALL);
    write(&device, 128, &[1]);
    for _ in 0..1 << 20 {
        device.reset_zone(192).unwrap();
    }
    let puts = store.puts();
    write(&device, 129, &[2]);
    assert_eq!(store.puts() - puts, 1, "what was written before");
    let store = kill(device, &store);
    let reader = open(&store, Options { read_only: true, ..options() }).unwrap();
    assert_eq!(read(&reader, 128, 2), [1, 0]);
}

/// Of two requests of a read the first fails; the other piece, whose request is cancelled, must be readable
/// later.
#[test]
fn a_read_that_failed_does_not_block_later_ones() {
    let store = store(9, Faults { latency: Duration::from_millis(5), ..Faults::default() });
    let device = create(&store, SMALL);
    write(&device, 128, &[1]);
    device.flush().unwrap();
    write(&device, 129, &[2]);
    device.flush().unwrap();
    drop(device);
    let first = store.names().into_iter().find(|n| n.contains("/log/")).unwrap();
    store.remove(&first);
    let device = open(&store, options()).unwrap();
    device.read(128, &mut [Block::zeroed(), Block::zeroed()]).unwrap_err();
    assert_eq!(read(&device, 129, 1), [2]);
}

/// 1 TiB, with 20 ms a request and the maximum number of commits after the map, in simulated time.
#[test]
fn a_large_volume_is_mounted_in_bounded_rounds() {
    let store = store(13, Faults::default());
    let large = Geometry { zone_blocks: 8192, zones: 32768, conventional: 80 };
    let device = create(&store, large);
    for i in 0..1000 {
        write(&device, 80 * 8192 + i, &[1]);
        device.flush().unwrap();
    }
    let store = kill(device, &store);
    store.set_faults(Faults { latency: Duration::from_millis(20), ..Faults::default() });
    let runtime = runtime();
    let took = runtime.block_on(async {
        let begun = tokio::time::Instant::now();
        let remote =
            crate::wire::remote::Remote::new(Arc::new(store.client()), prefix(), Duration::from_secs(9));
        let handle = tokio::runtime::Handle::current();
        let open = crate::device::OpenVolume::open(Arc::new(remote), &options(), &handle).await;
        open.unwrap();
        begun.elapsed()
    });
    assert!(took <= Duration::from_secs(2), "{took:?}");
    println!("{} rounds of 20 ms", took.as_millis() / 20);
}

/// Mounts at the same moment: one gets the volume, and the others fail.
#[test]
fn of_two_mounts_at_a_time_one_wins() {
    for seed in 0..1000 {
        let runtime = runtime();
        runtime.block_on(async {
            let store = FaultStore::new(seed, Faults { delay_bits: 6, ..Faults::default() });
            let remote = || {
                Arc::new(crate::wire::remote::Remote::new(
                    Arc::new(store.client()),
                    prefix(),
                    Duration::from_secs(99),
                ))
            };
            crate::device::create(&remote(), SMALL, false, false).await.unwrap();
            let mounts = (0..2).map(|_| {
                let remote = remote();
                tokio::spawn(async move {
                    let handle = tokio::runtime::Handle::current();
                    let options = Options { takeover: false, ..options() };
                    crate::device::OpenVolume::open(remote, &options, &handle).await
                })
            });
            let mut won = 0;
            for mount in mounts.collect::<Vec<_>>() {
                match mount.await.unwrap() {
                    Ok(open) => {
                        let (writer, _) = open.writer.as_ref().unwrap();
                        writer.write(0, &[&block(1)]).await.unwrap();
                        writer.flush().await.unwrap();
                        won += 1;
                    }
                    Err(StoreError::Held { .. } | StoreError::LostRace { .. }) => {}
                    Err(e) => panic!("seed {seed}: {e}"),
                }
            }
            assert_eq!(won, 1, "seed {seed}");
        });
    }
}
