//! Entries of directories that lead where no file system lets them, and walks of trees.
use segno::{BlockDevice, Device, DirEntry, FormatOptions, MountOptions, Result, Volume};
use segno_device::MemDevice;
use segno_format::Block;
use std::sync::Arc;

const BLOCKS: u64 = 16 << 10;
const ROOT: u32 = 3;

/// A volume with `/a/b` and `/c/file`. Each entry of a directory that has the bytes of the first is replaced by the second, which are
/// made of the inode numbers of `/a`, `/a/b` and `/c`.
fn edited(entries: impl Fn([u32; 3]) -> [Vec<u8>; 2]) -> Device {
    let storage = Arc::new(MemDevice::new(BLOCKS));
    let device = Device::from(storage.clone() as Arc<dyn BlockDevice>);
    segno::format(&device, &FormatOptions::default()).unwrap();
    let volume = Volume::open(&device).unwrap();
    volume.create_dir_all("/a/b").unwrap();
    volume.create_dir("/c").unwrap();
    volume.write("/c/file", "").unwrap();
    let [old, new] = entries(["/a", "/a/b", "/c"].map(|path| volume.metadata(path).unwrap().ino()));
    volume.close().unwrap();
    let (mut found, mut block) = (0, [Block::zeroed()]);
    for addr in 0..BLOCKS {
        storage.read(addr, &mut block).unwrap();
        if let Some(at) = block[0].0.windows(old.len()).position(|bytes| bytes == old) {
            block[0].0[at..at + new.len()].copy_from_slice(&new);
            storage.write(addr, &[&block[0]]).unwrap();
            found += 1;
        }
    }
    assert!(found > 0, "no entry was found");
    device
}

/// An entry: inode number, length of the name, type.
fn entry(ino: u32, name: &str) -> Vec<u8> {
    [&ino.to_le_bytes()[..], &[name.len() as u8, 0, 2]].concat()
}

/// A volume where `/a/b` is another directory, of this path.
fn led_to(target: &str) -> Device {
    edited(|[a, b, c]| {
        let target = match target {
            "/a" => a,
            "/c" => c,
            _ => ROOT,
        };
        [entry(b, "b"), entry(target, "b")]
    })
}

#[test]
fn a_directory_that_contains_itself_ends_a_walk() {
    let device = led_to("/a");
    assert!(!segno::check(&device).unwrap().is_clean());
    let volume = Volume::open(&device).unwrap();
    let errors: Vec<_> = volume.walk("/").unwrap().filter_map(|entry| entry.err()).collect();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!((errors[0].errno(), errors[0].path().unwrap().to_str()), (117, Some("/a/b")));
    let refused = volume.remove_dir_all("/a").unwrap_err();
    assert_eq!(refused.errno(), 117, "{refused}");
}

/// Paths, and the errors.
fn walked(volume: &Volume, sorted: bool) -> (Vec<String>, Vec<segno::Error>) {
    let walk = volume.walk("/").unwrap();
    let all: Vec<Result<DirEntry>> = if sorted { walk.sorted().collect() } else { walk.collect() };
    let (mut paths, mut errors) = (Vec::new(), Vec::new());
    for entry in all {
        match entry {
            Ok(entry) => paths.push(entry.path().to_str().unwrap().to_owned()),
            Err(e) => errors.push(e),
        }
    }
    (paths, errors)
}

#[test]
fn a_directory_with_two_names_is_walked_once_and_the_rest_too() {
    for read_only in [true, false] {
        for (target, rest) in [("/", &["/a", "/c", "/c/file"][..]), ("/c", &["/a", "/a/b", "/a/b/file"])] {
            let device = led_to(target);
            let volume = Volume::open_with(&device, &MountOptions::new().read_only(read_only)).unwrap();
            let (paths, errors) = walked(&volume, true);
            assert_eq!(paths, rest, "{target}");
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert_eq!(errors[0].errno(), 117);
            let text = errors[0].to_string();
            let ino = volume.metadata(target).unwrap().ino();
            assert!(text.contains(&format!("nid {ino}: a directory with two names")), "{text}");
            assert_eq!(walked(&volume, false).1.len(), 1);
        }
    }
}

#[test]
fn a_rename_below_parents_that_form_a_loop_is_refused() {
    let device = edited(|[a, b, _]| [entry(a, ".."), entry(b, "..")]);
    let volume = Volume::open(&device).unwrap();
    let refused = volume.rename("/c", "/a/b/c").unwrap_err();
    assert_eq!(refused.errno(), 117, "{refused}");
    assert!(refused.to_string().contains("parents form a loop"), "{refused}");
    assert!(volume.exists("/c/file").unwrap());
}

#[test]
fn a_directory_that_is_renamed_during_a_walk_is_no_damage() {
    let device = Device::in_memory(64 << 20);
    segno::format(&device, &FormatOptions::default()).unwrap();
    let volume = Volume::open(&device).unwrap();
    for dir in ["/a/inner", "/b", "/c"] {
        volume.create_dir_all(dir).unwrap();
    }
    let mut seen = 0;
    for entry in volume.walk("/").unwrap().sorted() {
        let entry = entry.unwrap();
        seen += usize::from(entry.file_name() == "inner");
        if entry.path().to_str() == Some("/a/inner") {
            volume.rename("/a/inner", "/b/inner").unwrap();
        }
    }
    assert_eq!(seen, 2);
}

/// Deeper than names are read ahead, with more names in each directory than are read at once.
#[test]
fn a_deep_tree_is_walked_whole() {
    const DEPTH: usize = 100;
    let device = Device::in_memory(256 << 20);
    segno::format(&device, &FormatOptions::default()).unwrap();
    let volume = Volume::open(&device).unwrap();
    let (mut dir, mut expected) = (String::new(), Vec::new());
    for depth in 0..DEPTH {
        for i in 0..if depth % 30 == 0 { 600 } else { 3 } {
            let path = format!("{dir}/f{i}");
            volume.write(&path, "").unwrap();
            expected.push(path);
        }
        dir += &format!("/d{depth}");
        volume.create_dir(&dir).unwrap();
        expected.push(dir.clone());
    }
    expected.sort();
    for sorted in [true, false] {
        let (mut paths, errors) = walked(&volume, sorted);
        assert!(errors.is_empty(), "{errors:?}");
        paths.sort();
        assert!(paths == expected, "sorted: {sorted}: {} of {}", paths.len(), expected.len());
    }
}
