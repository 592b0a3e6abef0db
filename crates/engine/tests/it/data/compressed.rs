//! Compressed files: the model of plain files holds for every algorithm and cluster size, and saved blocks can be released.
use super::model::Run;
use super::{BLOCK, Rig};
use crate::common::{assert_clean_to_f2fs_tools, quiet};
use segno_codec::Algorithm;
use segno_device::BlockDevice;
use segno_engine::{CompressMode, Compression, MountOptions};
use segno_format::cluster::compressed_data;
use segno_format::inode::InodeFlags;
use segno_format::{Block, Features, Ino};
use segno_mkfs::MkfsOptions;
use segno_testkit::Rng;

const ALGORITHMS: [Algorithm; 4] = [Algorithm::Lzo, Algorithm::Lz4, Algorithm::Zstd, Algorithm::LzoRle];

fn format() -> MkfsOptions {
    let features = Features::EXTRA_ATTR
        | Features::COMPRESSION
        | Features::INODE_CHKSUM
        | Features::FLEXIBLE_INLINE_XATTR
        | Features::QUOTA_INO;
    MkfsOptions { features, ..MkfsOptions::default() }
}

/// Every file is compressed.
fn options(algorithm: Algorithm, log_cluster: u8) -> MountOptions {
    let compression = Compression {
        algorithm,
        log_cluster,
        checksum: log_cluster.is_multiple_of(2),
        extensions: vec!["*".into()],
        ..Compression::default()
    };
    MountOptions { compression, ..quiet() }
}

fn rig(algorithm: Algorithm, log_cluster: u8) -> Rig {
    Rig::with_options(128, &format(), options(algorithm, log_cluster))
}

/// Stretches of one byte, of a short pattern, and of noise.
fn mixed(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut data = Vec::with_capacity(len);
    while data.len() < len {
        let n = (1 + rng.below(40_000) as usize).min(len - data.len());
        let tag = rng.draw() as u8;
        match rng.below(4) {
            0 => data.extend(std::iter::repeat_n(tag, n)),
            1 => data.extend((0..n).map(|_| rng.draw() as u8)),
            _ => data.extend((0..n).map(|i| tag.wrapping_add((i % 61) as u8 ^ (i / 977) as u8))),
        }
    }
    data
}

fn saved(rig: &Rig, ino: Ino) -> u64 {
    rig.volume.compress_blocks(ino).unwrap()
}

#[test]
fn a_compressed_file_matches_a_byte_array() {
    for (log, seed) in (2..=8).zip(0xC0_0001u64..) {
        for (n, algorithm) in (0..).zip(ALGORITHMS) {
            let mut run = Run::new(rig(algorithm, log), seed + 16 * n, mixed, false);
            for _ in 0..4 {
                run.write(0, 5 << 20);
                run.rig.volume.sync().unwrap();
                assert!(saved(&run.rig, run.ino) > 0, "nothing was compressed");
                run.steps(50);
            }
            let context = format!("{algorithm} in clusters of {} blocks", 1 << log);
            run.rig.volume.unmount().unwrap();
            assert_clean_to_f2fs_tools(&*run.rig.dev, &context);
            run.rig.volume =
                segno_engine::Volume::mount(run.rig.dev.clone(), run.rig.options.clone()).unwrap();
            run.empty();
        }
    }
}

#[test]
fn blocks_are_counted_like_those_of_plain_files_until_they_are_released() {
    let mut rig = rig(Algorithm::Lz4, 2);
    let (ino, v) = (rig.create("f"), rig.volume.clone());
    let free = |rig: &Rig| rig.volume.statfs().bfree;
    rig.write(ino, 0, &vec![7; 16 * BLOCK as usize]);
    v.sync().unwrap();
    assert_eq!((rig.blocks(ino), saved(&rig, ino)), (16, 12));
    let before = free(&rig);
    assert_eq!(v.release_compress_blocks(ino).unwrap(), 12);
    assert_eq!((rig.blocks(ino), saved(&rig, ino), free(&rig)), (4, 0, before + 12));
    assert_eq!(v.release_compress_blocks(ino).unwrap_err().errno(), 22);
    drop(v);
    rig.remount();
    let v = rig.volume.clone();
    assert_eq!(rig.read(ino, 0, 1 << 20), vec![7; 16 * BLOCK as usize]);
    assert_eq!(v.write(ino, 5, b"x").unwrap_err().errno(), 1);
    assert_eq!(v.reserve_compress_blocks(ino).unwrap(), 12);
    assert_eq!((rig.blocks(ino), saved(&rig, ino), free(&rig)), (16, 12, before));
    assert_eq!(v.reserve_compress_blocks(ino).unwrap_err().errno(), 22);
    rig.write(ino, 5, b"x");
    drop(v);
    rig.remount();
    let mut expected = vec![7; 16 * BLOCK as usize];
    expected[5] = b'x';
    assert_eq!(rig.read(ino, 0, 1 << 20), expected);
    rig.volume.release_compress_blocks(ino).unwrap();
    rig.truncate(ino, 0);
    rig.write(ino, 0, b"anew");
    rig.remount();
    assert_eq!(rig.read(ino, 0, 10), b"anew");
}

#[test]
fn without_room_nothing_is_reserved() {
    let rig = rig(Algorithm::Zstd, 4);
    let (ino, v) = (rig.create("f"), rig.volume.clone());
    rig.write(ino, 0, &vec![7; 1024 * BLOCK as usize]);
    let released = v.release_compress_blocks(ino).unwrap();
    let filler = rig.create("filler");
    let mut at = 0;
    while let Ok(n) = v.write(filler, at, &vec![9; 64 * BLOCK as usize]) {
        at += n as u64;
    }
    assert_eq!(v.reserve_compress_blocks(ino).unwrap_err().errno(), 28);
    assert_eq!((saved(&rig, ino), rig.blocks(ino)), (0, 1024 - released + 1));
    rig.truncate(filler, 0);
    assert_eq!(v.reserve_compress_blocks(ino).unwrap(), released);
    v.unmount().unwrap();
    assert_clean_to_f2fs_tools(&*rig.dev, "after a failed reservation");
}

#[test]
fn programs_compress_and_decompress_on_request() {
    let mut options = options(Algorithm::LzoRle, 3);
    options.compression.mode = CompressMode::User;
    let mut rig = Rig::with_options(128, &format(), options);
    let ino = rig.create("f");
    let data = mixed(5, 3 << 20);
    rig.write(ino, 0, &data);
    rig.volume.sync().unwrap();
    assert_eq!(saved(&rig, ino), 0);
    rig.volume.rewrite_compressed(ino, true).unwrap();
    assert!(saved(&rig, ino) > 100);
    rig.remount();
    assert!(rig.read(ino, 0, 4 << 20) == data);
    rig.volume.rewrite_compressed(ino, false).unwrap();
    assert_eq!(saved(&rig, ino), 0);
    rig.remount();
    assert!(rig.read(ino, 0, 4 << 20) == data);
    rig.options.compression.mode = CompressMode::Fs;
    rig.remount();
    assert_eq!(rig.volume.rewrite_compressed(ino, true).unwrap_err().errno(), 95);
}

#[test]
fn a_damaged_cluster_is_an_input_error_of_its_file() {
    let mut rig = rig(Algorithm::Lz4, 2);
    let ino = rig.create("f");
    rig.write(ino, 0, &[b'x'; 3 << 14]);
    rig.volume.unmount().unwrap();
    // A cluster of one byte is stored in one block: header, data, zeros.
    let mut block = Block::zeroed();
    let is_stored = |&at: &u64| {
        rig.dev.read(at, std::slice::from_mut(&mut block)).unwrap();
        compressed_data(0, &block.0, true).is_ok()
    };
    let places: Vec<u64> = (0..rig.dev.block_count()).filter(is_stored).collect();
    assert_eq!(places.len(), 3);
    // The last byte of the data's length, and of the data; the third one stays.
    for (&at, byte) in places.iter().zip([3, 24]) {
        rig.dev.read(at, std::slice::from_mut(&mut block)).unwrap();
        block.0[byte] ^= 1;
        rig.dev.write(at, &[&block]).unwrap();
    }
    rig.volume = segno_engine::Volume::mount(rig.dev.clone(), rig.options.clone()).unwrap();
    let mut bytes = [0; 100];
    for (cluster, why) in [(0, "length of the compressed data"), (1, "checksum")] {
        let error = rig.volume.read(ino, cluster << 14, &mut bytes).unwrap_err();
        assert_eq!(error.errno(), 5);
        assert!(error.to_string().contains(why), "{error}");
    }
    assert_eq!(rig.volume.read(ino, 2 << 14, &mut bytes).unwrap(), 100);
    assert_eq!(bytes, [b'x'; 100]);
    // The damage ends where the cluster is written anew.
    rig.write(ino, 0, &[b'y'; 3 << 14]);
    rig.volume.sync().unwrap();
    assert!(rig.read(ino, 0, 1 << 20) == [b'y'; 3 << 14]);
}

#[test]
fn the_flag_is_for_empty_files() {
    let rig = Rig::new(64, &format());
    let v = &rig.volume;
    let flags = |ino, set| v.set_flags(ino, set).map_err(|e| e.errno());
    let plain = rig.create("plain");
    rig.write(plain, 0, b"data");
    assert_eq!(flags(plain, InodeFlags::COMPR), Err(22));
    let file = rig.create("file");
    assert_eq!(v.compress_option(file).unwrap_err().errno(), 61);
    flags(file, InodeFlags::COMPR).unwrap();
    assert_eq!(v.compress_option(file).unwrap(), (1, 2));
    assert_eq!(flags(file, InodeFlags::COMPR | InodeFlags::NOCOMP), Err(22));
    v.set_compress_option(file, 2, 8).unwrap();
    for (algorithm, log) in [(4, 2), (0, 1), (0, 9)] {
        assert_eq!(v.set_compress_option(file, algorithm, log).unwrap_err().errno(), 22);
    }
    rig.write(file, 0, &vec![1; 1 << 20]);
    assert_eq!(v.set_compress_option(file, 0, 2).unwrap_err().errno(), 16);
    v.fsync(file).unwrap();
    assert_eq!(saved(&rig, file), 255);
    assert_eq!(v.set_compress_option(file, 0, 2).unwrap_err().errno(), 27);
    assert_eq!(flags(file, InodeFlags::empty()), Err(22));
    rig.truncate(file, 0);
    flags(file, InodeFlags::empty()).unwrap();
    rig.write(file, 0, &vec![1; 1 << 20]);
    v.fsync(file).unwrap();
    v.unmount().unwrap();
    assert_clean_to_f2fs_tools(&*rig.dev, "after the flag was removed");
}

#[test]
fn new_files_follow_lists_and_directories() {
    let rig = Rig::with_options(64, &format(), {
        let mut o = quiet();
        o.compression.extensions = vec!["log".into()];
        o.compression.excluded = vec!["gz".into()];
        o
    });
    let v = &rig.volume;
    let dir = v.mkdir(v.root(), b"d", 0o755, segno_engine::Owner::default()).unwrap().ino;
    v.set_flags(dir, InodeFlags::COMPR).unwrap();
    let flags = |parent, name: &str| {
        let ino =
            v.mknod(parent, name.as_bytes(), 0o100_644, (0, 0), segno_engine::Owner::default()).unwrap().ino;
        v.get_flags(ino).unwrap() & (InodeFlags::COMPR | InodeFlags::NOCOMP)
    };
    assert_eq!(flags(v.root(), "a"), InodeFlags::empty());
    assert_eq!(flags(v.root(), "a.log"), InodeFlags::COMPR);
    assert_eq!(flags(dir, "a"), InodeFlags::COMPR);
    assert_eq!(flags(dir, "a.gz"), InodeFlags::empty());
    v.set_flags(dir, InodeFlags::NOCOMP).unwrap();
    assert_eq!(flags(dir, "b"), InodeFlags::NOCOMP);
    assert_eq!(flags(dir, "b.log"), InodeFlags::COMPR);
    let sub = v.mkdir(dir, b"d", 0o755, segno_engine::Owner::default()).unwrap().ino;
    assert!(v.get_flags(sub).unwrap().contains(InodeFlags::NOCOMP));
}
