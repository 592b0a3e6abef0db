//! Files that were deleted: all of them while nothing was written since, and never bytes of another file.
use super::fixture::{Aged, Oracle, aged, content, features, look, reopen};
use segno_device::MemDevice;
use segno_rescue::output::{OutputOptions, Target};
use segno_rescue::undelete::{self, Lost, Proof};
use segno_rescue::{Class, Tree, Volume};
use segno_testkit::Rng;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn undelete(device: &MemDevice, to: &Path) -> Vec<Lost> {
    let volume = Volume::find(device, look(device).unwrap(), false);
    undelete::require(&volume).unwrap();
    let tree = Tree::build(&volume);
    let dead = undelete::deleted(&volume, &tree);
    let proof = Proof::of(&volume, &dead, &mut |_, _| {});
    let mut target = Target::open(to, OutputOptions { resume: true, ..OutputOptions::default() }).unwrap();
    let stop = AtomicBool::new(false);
    let mut output =
        undelete::Output { target: &mut target, taken: HashSet::new(), unproven: false, stop: &stop };
    let each = dead.iter().map(|d| {
        let mut lost = undelete::describe(&volume, &tree, d, &proof);
        undelete::copy(&volume, d, &proof, &mut output, &mut lost).unwrap();
        lost
    });
    each.collect()
}

/// A volume from which half of the files were deleted, with those files.
fn half_deleted(seed: u64) -> (Arc<MemDevice>, Oracle, Oracle) {
    let Aged { device, files } = aged(seed, 1000, 160, features(), 0);
    let volume = reopen(&device);
    let (gone, kept): (Vec<_>, Vec<_>) = files.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
    for (_, (path, _)) in &gone {
        volume.remove_file(path).unwrap();
    }
    volume.close().unwrap();
    (device, gone.into_iter().map(|(_, f)| f).collect(), kept.into_iter().map(|(_, f)| f).collect())
}

#[test]
fn all_that_was_deleted_comes_back_with_its_path() {
    let (device, gone, _) = half_deleted(31);
    let dir = tempfile::tempdir().unwrap();
    let lost = undelete(&device, dir.path());
    for (path, (bytes, _)) in &gone {
        let back = std::fs::read(dir.path().join(path));
        let said = lost.iter().find(|l| l.item.path == *path);
        assert!(back.is_ok_and(|b| b == *bytes), "{path}: {said:?}");
    }
    assert_eq!(lost.iter().filter(|l| l.item.class == Class::A).count(), gone.len());
}

/// Every recovered byte is the file's, or part of a hole.
#[test]
fn no_foreign_byte_comes_back() {
    for percent in [1, 10, 50] {
        let (device, gone, kept) = half_deleted(32);
        let volume = reopen(&device);
        let mut rng = Rng::new(percent);
        let free = volume.statfs().blocks_free * 4096 * percent / 100;
        let (mut written, mut i, mut new) = (0, 0, Oracle::new());
        while written < free {
            let bytes = content(&mut rng);
            written += bytes.len() as u64;
            let path = format!("new/{i}");
            volume.create_dir_all("new").unwrap();
            volume.write(&path, &bytes).unwrap();
            new.insert(path, (bytes, 0));
            i += 1;
        }
        // A second generation of deleted files.
        for (path, _) in new.iter().step_by(3).chain(kept.iter().step_by(5)) {
            volume.remove_file(path).unwrap();
        }
        volume.close().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let lost = undelete(&device, dir.path());
        let mut whole = 0;
        for l in lost.iter().filter(|l| l.item.failed.is_none()) {
            let back = std::fs::read(dir.path().join(&l.item.path)).unwrap();
            let marked = l.item.path.trim_end_matches(".partial");
            let written = [&gone, &kept, &new].into_iter().find_map(|files| files.get(marked));
            let (bytes, _) = written.unwrap_or_else(|| panic!("{l:?} was never written"));
            assert_eq!(back.len(), bytes.len(), "{l:?}");
            for (at, (got, want)) in back.chunks(4096).zip(bytes.chunks(4096)).enumerate() {
                let hole = got.iter().all(|&b| b == 0);
                assert!(got == want || hole, "{percent} %: foreign bytes in block {at} of {l:?}");
                assert!(!hole || l.item.class == Class::C, "{percent} %: an unmarked hole in {l:?}");
            }
            whole += usize::from(back == *bytes);
        }
        let total = lost.len();
        println!("{percent} % of the free space written: {whole} of {total} deleted files whole");
        assert!(whole > 0);
    }
}
