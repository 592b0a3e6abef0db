use super::*;
use crate::decompress;
use proptest::prelude::*;

const ALL: [(Algorithm, u8); 9] = [
    (Algorithm::Lzo, 0),
    (Algorithm::LzoRle, 0),
    (Algorithm::Lz4, 0),
    (Algorithm::Lz4, 3),
    (Algorithm::Lz4, 9),
    (Algorithm::Lz4, 16),
    (Algorithm::Zstd, 0),
    (Algorithm::Zstd, 3),
    (Algorithm::Zstd, 22),
];

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|i| b"static int f2fs_write_begin(struct file *file) "[(i + i / 113) % 47]).collect()
}

fn noise(len: usize) -> Vec<u8> {
    let mut x = 1u64;
    let mut next = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (x >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Decodes a cluster by its header (`struct compress_data`), as the kernel does.
fn decoded(algorithm: Algorithm, stored: &[u8], len: usize, checksum: bool) -> Vec<u8> {
    assert!(stored.len().is_multiple_of(BLOCK) && stored.len() < len);
    let word = |at: usize| u32::from_le_bytes(stored[at..at + 4].try_into().unwrap());
    let data = &stored[HEADER..HEADER + word(0) as usize];
    assert_eq!(stored.len(), (HEADER + data.len()).next_multiple_of(BLOCK), "no more blocks than needed");
    assert!(stored[8..HEADER].iter().chain(&stored[HEADER + data.len()..]).all(|&b| b == 0));
    assert_eq!(word(4), if checksum { crc(0xF2F5_2010, data) } else { 0 });
    let mut out = vec![0xAA; len];
    decompress(algorithm, data, &mut out).unwrap();
    out
}

#[test]
fn clusters_of_every_size_come_back() {
    for (algorithm, level) in ALL {
        for log in 2..=8 {
            let checksum = log % 2 == 0;
            let len = BLOCK << log;
            let mut encoder = ClusterEncoder::new(algorithm, level, log, checksum).unwrap();
            let mut half = noise(len / 2);
            half.resize(len, 0);
            for plain in [text(len), vec![0; len], half] {
                let stored = encoder.encode(&plain);
                let stored = stored.unwrap_or_else(|| panic!("{algorithm}:{level} {log}")).to_vec();
                assert!(decoded(algorithm, &stored, len, checksum) == plain, "{algorithm}:{level} {log}");
                assert!(encoder.encode(&plain).unwrap() == stored, "the second time differs");
            }
            assert_eq!(encoder.encode(&noise(len)), None, "{algorithm}:{level} {log}");
            assert_eq!(encoder.encode(&text(len - 1)), None);
        }
    }
}

/// The kernel's workspace has room for a window of a cluster, and its decoder does not skip a version mark of
/// LZO-RLE.
#[test]
fn streams_are_those_of_the_kernel() {
    for (level, log) in [(1, 2), (3, 4), (19, 8), (22, 2)] {
        let mut encoder = ClusterEncoder::new(Algorithm::Zstd, level, log, false).unwrap();
        let stored = encoder.encode(&text(BLOCK << log)).unwrap();
        assert_eq!(stored[HEADER..HEADER + 4], [0x28, 0xB5, 0x2F, 0xFD]);
        // Frame header: no content size, no checksum, no dictionary; then 2^(10 + exponent) without mantissa.
        assert_eq!(stored[HEADER + 4], 0, "level {level}");
        assert_eq!(stored[HEADER + 5], (12 + log - 10) << 3, "level {level}");
    }
    let mut encoder = ClusterEncoder::new(Algorithm::LzoRle, 0, 2, false).unwrap();
    assert_ne!(encoder.encode(&vec![0; 4 * BLOCK]).unwrap()[HEADER], 17);
}

#[test]
fn levels_are_checked() {
    for (algorithm, level) in ALL {
        check_level(algorithm, level).unwrap();
    }
    let said = |a, l| check_level(a, l).unwrap_err().to_string();
    assert_eq!(said(Algorithm::Lzo, 1), "lzo has no level 1; it has no levels");
    assert_eq!(said(Algorithm::Lz4, 2), "lz4 has no level 2; 3 to 16 are possible");
    assert_eq!(said(Algorithm::Zstd, 23), "zstd has no level 23; 1 to 22 are possible");
}

proptest! {
    #[test]
    fn any_cluster_comes_back(
        (algorithm, level) in prop::sample::select(&ALL[..]),
        seed in prop::collection::vec(any::<u8>(), 1..600),
        repeat in 1..64usize,
    ) {
        let len = 4 * BLOCK;
        let plain: Vec<u8> = seed.iter().flat_map(|&b| std::iter::repeat_n(b, repeat)).cycle().take(len).collect();
        let mut encoder = ClusterEncoder::new(algorithm, level, 2, true).unwrap();
        if let Some(stored) = encoder.encode(&plain) {
            prop_assert!(decoded(algorithm, stored, len, true) == plain);
        }
    }
}
