//! Conversion against a plain description of the format, against Debian's tools, and of hostile files.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;
use segno_sparse::{Checksum, Index, SparseError, Writer, pack, unpack};
use std::fs::File;
use std::io::{Cursor, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

const RAW: u16 = 0xCAC1;
const FILL: u16 = 0xCAC2;
const DONT_CARE: u16 = 0xCAC3;
const CRC32: u16 = 0xCAC4;

fn file(bytes: &[u8]) -> File {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn header(block_size: u32, blocks: u32, chunks: u32) -> Vec<u8> {
    let mut out = 0xED26_FF3A_u32.to_le_bytes().to_vec();
    [1u16, 0, 28, 12].iter().for_each(|v| out.extend(v.to_le_bytes()));
    [block_size, blocks, chunks, 0].iter().for_each(|v| out.extend(v.to_le_bytes()));
    out
}

fn chunk(kind: u16, blocks: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = kind.to_le_bytes().to_vec();
    out.extend([0, 0]);
    out.extend(blocks.to_le_bytes());
    out.extend((12 + payload.len() as u32).to_le_bytes());
    out.extend(payload);
    out
}

fn image(block_size: u32, blocks: u32, chunks: &[Vec<u8>]) -> File {
    file(&[header(block_size, blocks, chunks.len() as u32), chunks.concat()].concat())
}

fn unpacked(parts: &[File], checksum: Checksum) -> Result<(Vec<u8>, usize), SparseError> {
    let raw = tempfile::tempfile().unwrap();
    let mismatches = unpack(parts, &raw, checksum)?;
    Ok((content(&raw), mismatches.len()))
}

/// A tool of Debian's android-sdk-libsparse-utils; scripts/setup installs them.
fn tool(name: &str, args: &[&Path]) {
    let done = Command::new(name).args(args).status();
    assert!(done.expect("scripts/setup installs it").success(), "{name}");
}

/// Blocks of zeros, of a word, and of noise, in runs.
fn blocks() -> impl Strategy<Value = Vec<u8>> {
    let run = (0..4u32, 1..9usize, any::<u32>());
    prop::collection::vec(run, 0..12).prop_map(|runs| {
        let mut out = Vec::new();
        for (kind, n, seed) in runs {
            for i in 0..(n * 1024) as u32 {
                let word = match kind {
                    0 => 0,
                    1 => seed,
                    _ => seed.wrapping_mul(i | 1).rotate_left(i % 31),
                };
                out.extend(word.to_le_bytes());
            }
        }
        out
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// img2simg writes the same file, simg2img reads ours, and we read it.
    #[test]
    fn as_debians_tools(bytes in blocks(), cut in 0..4096usize) {
        let bytes = &bytes[..bytes.len().saturating_sub(cut)];
        let dir = tempfile::tempdir().unwrap();
        let [raw, theirs, ours, back] = ["raw", "theirs", "ours", "back"].map(|n| dir.path().join(n));
        std::fs::write(&raw, bytes).unwrap();
        tool("img2simg", &[&raw, &theirs]);
        pack(&File::open(&raw).unwrap(), File::create(&ours).unwrap(), 4096).unwrap();
        prop_assert_eq!(std::fs::read(&ours).unwrap(), std::fs::read(&theirs).unwrap());
        tool("simg2img", &[&ours, &back]);
        let (mine, _) = unpacked(&[File::open(&ours).unwrap()], Checksum::Require).unwrap();
        prop_assert_eq!(&mine, &std::fs::read(&back).unwrap());
        prop_assert_eq!(&mine[..bytes.len()], bytes);
    }

    /// Any range of the image reads as its bytes, whatever the size of a block.
    #[test]
    fn ranges_read_in_place(bytes in blocks(), log in 2..14u32, from in 0..9000usize, len in 0..20000usize) {
        let sparse = tempfile::tempfile().unwrap();
        pack(&file(&bytes), sparse.try_clone().unwrap(), 1 << log).unwrap();
        let index = Index::read(&sparse).unwrap();
        prop_assert!(index.size >= bytes.len() as u64);
        let (from, to) = (from.min(bytes.len()), (from + len).min(bytes.len()));
        let mut read = vec![7; to.saturating_sub(from)];
        index.read_at(&sparse, &mut read, from as u64).unwrap();
        prop_assert_eq!(&read[..], &bytes[from..to]);
        prop_assert!(index.read_at(&sparse, &mut [0; 2], index.size - index.size.min(1)).is_err());
    }

    /// Damage anywhere gives an error or an image of the size that the header states, in bounded memory.
    #[test]
    fn damage_is_contained(bytes in blocks(), at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let sparse = tempfile::tempfile().unwrap();
        pack(&file(&bytes), sparse.try_clone().unwrap(), 4096).unwrap();
        let mut damaged = content(&sparse);
        let at = at.index(damaged.len().min(120));
        damaged[at] = value;
        if let Ok(index) = Index::read(&file(&damaged)) {
            prop_assert_eq!(index.extents.iter().map(|e| e.len).sum::<u64>(), index.size);
            prop_assert!(index.extents.len() <= damaged.len() / 12);
        }
    }
}

#[test]
fn fills_of_words_and_gaps_are_read() {
    let sparse = image(
        8,
        5,
        &[chunk(FILL, 2, &[1, 2, 3, 4]), chunk(DONT_CARE, 1, &[]), chunk(RAW, 2, b"sixteen bytes...")],
    );
    let (bytes, _) = unpacked(&[sparse.try_clone().unwrap()], Checksum::Require).unwrap();
    let expected = [&[1, 2, 3, 4].repeat(4)[..], &[0; 8], b"sixteen bytes..."].concat();
    assert_eq!(bytes, expected);
    let index = Index::read(&sparse).unwrap();
    for from in 0..40 {
        let mut part = vec![9; 40 - from];
        index.read_at(&sparse, &mut part, from as u64).unwrap();
        assert_eq!(part, expected[from..], "from {from}");
    }
}

/// A checksum is over all that precedes it, gaps as zeros, and need not be at the end.
#[test]
fn checksums_are_checked() {
    let words = [7u8, 0, 0, 0].repeat(4);
    let first = crc32fast::hash(&[&words[..], &[0; 8]].concat());
    let both = crc32fast::hash(&[&words[..], &[0; 8], &words[..]].concat());
    let with = |a: u32, b: u32| {
        let fill = chunk(FILL, 2, &[7, 0, 0, 0]);
        let sum = |v: u32| chunk(CRC32, 0, &v.to_le_bytes());
        image(8, 5, &[fill.clone(), chunk(DONT_CARE, 1, &[]), sum(a), fill, sum(b)])
    };
    assert_eq!(unpacked(&[with(first, both)], Checksum::Require).unwrap().1, 0);
    assert_eq!(unpacked(&[with(first, 1)], Checksum::Report).unwrap().1, 1);
    let e = unpacked(&[with(2, both)], Checksum::Require).unwrap_err();
    assert!(matches!(e, SparseError::Checksum { stored: 2, .. }), "{e}");
    // A sum between two fills of one word: the first is complete when it is compared.
    let sum = crc32fast::hash(&[7, 0, 0, 0, 7, 0, 0, 0]);
    let fill = chunk(FILL, 1, &[7, 0, 0, 0]);
    let split = image(8, 2, &[fill.clone(), chunk(CRC32, 0, &sum.to_le_bytes()), fill]);
    assert_eq!(unpacked(&[split], Checksum::Require).unwrap().1, 0);
}

/// The parts of a split image are laid over each other: a gap keeps what an earlier part wrote.
#[test]
fn parts_are_laid_over_each_other() {
    let first = || image(4, 3, &[chunk(RAW, 1, b"aaaa"), chunk(RAW, 1, b"bbbb"), chunk(DONT_CARE, 1, &[])]);
    let second = image(4, 3, &[chunk(DONT_CARE, 1, &[]), chunk(FILL, 1, &[0; 4]), chunk(RAW, 1, b"cccc")]);
    assert_eq!(unpacked(&[first(), second], Checksum::Require).unwrap().0, b"aaaa\0\0\0\0cccc");
    let e = unpacked(&[first(), image(4, 0, &[])], Checksum::Require).unwrap_err();
    assert!(matches!(e, SparseError::SizesDiffer { first: 12, other: 0 }), "{e}");
}

#[test]
fn hostile_files_are_refused() {
    let raw = || chunk(RAW, 1, &[1; 8]);
    let reason = |f: File| Index::read(&f).unwrap_err();
    let mut short = raw();
    short[8] = 12;
    assert!(matches!(reason(image(8, 1, &[short])), SparseError::ChunkLength { found: 12, needed: 20, .. }));
    let mut huge = raw();
    huge[4..8].fill(0xFF);
    assert!(matches!(reason(image(8, 1, &[huge])), SparseError::ChunkLength { .. }));
    let e = reason(image(8, 1, &[raw(), raw()]));
    assert!(matches!(e, SparseError::TooManyBlocks { number: 1, end: 2, total: 1, .. }), "{e}");
    assert!(matches!(reason(image(8, 3, &[raw()])), SparseError::MissingBlocks { found: 1, total: 3 }));
    assert!(matches!(reason(image(8, 1, &[chunk(0xCAC9, 1, &[])])), SparseError::ChunkType { .. }));
    assert!(matches!(reason(image(8, 1, &[chunk(CRC32, 1, &[0; 4])])), SparseError::Header { .. }));
    for block_size in [0, 6, 1 << 31] {
        assert!(matches!(reason(image(block_size, 0, &[])), SparseError::BlockSize { .. }), "{block_size}");
    }
    // A billion chunks in a file of none.
    let e = reason(file(&header(4096, u32::MAX, 1_000_000_000)));
    assert!(matches!(e, SparseError::Truncated { number: 0, .. }), "{e}");
    let mut cut = content(&image(8, 1, &[raw()]));
    cut.pop();
    assert!(matches!(reason(file(&cut)), SparseError::Truncated { missing: 1, .. }));
    assert!(matches!(reason(file(b"")), SparseError::Truncated { .. }));
    assert!(matches!(reason(file(&[0; 40])), SparseError::Magic { found: 0 }));
    let mut newer = header(8, 0, 0);
    newer[4] = 2;
    assert!(matches!(reason(file(&newer)), SparseError::Version { major: 2, .. }));
    // 16 TiB that take no space: checked and summed without going through them.
    let zeros = image(4096, u32::MAX, &[chunk(DONT_CARE, u32::MAX, &[]), chunk(CRC32, 0, &[0; 4])]);
    assert_eq!(Index::read(&zeros).unwrap().size, u64::from(u32::MAX) * 4096);
}

#[test]
fn larger_headers_are_skipped() {
    let mut bytes = header(4, 1, 1);
    bytes[8] = 32;
    bytes[10] = 16;
    bytes.extend([0; 4]);
    let mut raw = chunk(RAW, 1, &[]);
    raw[8] = 20;
    bytes.extend(raw);
    bytes.extend([0; 4]);
    bytes.extend(b"data");
    assert_eq!(unpacked(&[file(&bytes)], Checksum::Require).unwrap().0, b"data");
}

#[test]
fn raw_chunks_are_split_where_asked() {
    let mut writer = Writer::new(Cursor::new(Vec::new()), 8, 16).unwrap();
    writer.write(b"a-block.b-block.c-block.d-block.e-block.").unwrap();
    writer.skip(3).unwrap();
    writer.skip(1).unwrap();
    let mut bytes = Cursor::new(writer.finish().unwrap().into_inner());
    bytes.flush().unwrap();
    let sparse = file(bytes.get_ref());
    let index = Index::read(&sparse).unwrap();
    assert_eq!(index.extents.iter().map(|e| e.len).collect::<Vec<_>>(), [16, 16, 8, 32]);
    assert_eq!(unpacked(&[sparse], Checksum::Require).unwrap().0[..16], *b"a-block.b-block.");
}

/// Ends though the file has 4 TiB, of which 12 KiB are stored.
#[test]
fn holes_are_packed_without_being_read() {
    const SIZE: u64 = (4 << 40) + 5;
    let raw = tempfile::tempfile().unwrap();
    raw.set_len(SIZE).unwrap();
    let places = [0, (1 << 40) + 4096, 3 << 40];
    places.iter().for_each(|&at| raw.write_all_at(&[7; 4096], at).unwrap());
    raw.write_all_at(&[1], places[0]).unwrap();
    let sparse = tempfile::tempfile().unwrap();
    assert_eq!(pack(&raw, sparse.try_clone().unwrap(), 4096).unwrap(), SIZE);
    let index = Index::read(&sparse).unwrap();
    assert_eq!(index.size, SIZE.next_multiple_of(4096));
    for (from, data) in [(0, 0), (1 << 20, places[1]), (places[1] + 4096, places[2])] {
        assert_eq!(index.next_data(from), Some(data), "{from}");
    }
    let mut block = [0; 4096];
    for at in places {
        index.read_at(&sparse, &mut block, at).unwrap();
        assert_eq!((block[0], block[4095]), (if at == 0 { 1 } else { 7 }, 7), "{at}");
    }
    // The last block was filled up, so it is stored.
    assert_eq!(index.next_data(places[2] + 4096), Some(SIZE - 5));
    assert!(sparse.metadata().unwrap().len() < 20_000);
}
