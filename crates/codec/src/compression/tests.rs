use super::*;
use proptest::prelude::*;

const CLUSTER: usize = 16_384;

/// Half a cluster of compressible text, then zeros.
fn cluster() -> Vec<u8> {
    let mut data: Vec<u8> = (0..CLUSTER / 2).map(|i| b"node footer "[(i + i / 97) % 12]).collect();
    data.resize(CLUSTER, 0);
    data
}

fn compressed(algorithm: Algorithm, data: &[u8]) -> Vec<u8> {
    match algorithm {
        Algorithm::Lzo | Algorithm::LzoRle => lzo::compress(data),
        Algorithm::Lz4 => lz4_block(data),
        Algorithm::Zstd => zstd_without_content_size(data),
    }
}

fn lz4_block(data: &[u8]) -> Vec<u8> {
    let mut block = vec![0; lz4_flex::block::get_maximum_output_size(data.len())];
    let len = lz4_flex::block::compress_into(data, &mut block).unwrap();
    block.truncate(len);
    block
}

/// The kernel compresses in streaming mode, which leaves the content size out of the frame.
fn zstd_without_content_size(data: &[u8]) -> Vec<u8> {
    let mut context = zstd_safe::CCtx::create();
    context.set_parameter(zstd_safe::CParameter::ContentSizeFlag(false)).unwrap();
    let mut frame = vec![0; zstd_safe::compress_bound(data.len())];
    let len = context.compress2(&mut frame[..], data).unwrap();
    frame.truncate(len);
    assert_eq!(zstd_safe::get_frame_content_size(&frame).unwrap(), None);
    frame
}

const ALL: [Algorithm; 4] = [Algorithm::Lzo, Algorithm::Lz4, Algorithm::Zstd, Algorithm::LzoRle];

type Decompress = fn(Algorithm, &[u8], &mut [u8]) -> Result<(), CodecError>;

const DECODERS: [Decompress; 2] = [decompress, decompress_portable];

#[test]
fn numbers_are_those_of_the_inode() {
    assert_eq!([0, 1, 2, 3].map(Algorithm::from_disk), ALL.map(Some));
    assert_eq!(ALL.map(Algorithm::to_disk), [0, 1, 2, 3]);
    assert!((4..=u8::MAX).all(|id| Algorithm::from_disk(id).is_none()));
}

#[test]
fn a_cluster_is_filled_exactly() {
    for (algorithm, decompress) in ALL.into_iter().flat_map(|a| DECODERS.map(|d| (a, d))) {
        let data = cluster();
        let cdata = compressed(algorithm, &data);
        let mut out = vec![0xAA; CLUSTER];
        decompress(algorithm, &cdata, &mut out).unwrap();
        assert!(out == data, "{algorithm}");
        let longer = decompress(algorithm, &cdata, &mut vec![0; CLUSTER + 1]);
        assert_eq!(longer, Err(CodecError::TooShort { len: CLUSTER, expected: CLUSTER + 1 }), "{algorithm}");
        let shorter = decompress(algorithm, &cdata, &mut vec![0; CLUSTER - 1]);
        assert_eq!(shorter, Err(CodecError::TooLong), "{algorithm}");
        let cut = decompress(algorithm, &cdata[..cdata.len() / 2], &mut out);
        assert_eq!(cut, Err(CodecError::Truncated), "{algorithm}");
        assert!(decompress(algorithm, &[], &mut out).is_err(), "{algorithm}");
    }
}

/// A frame header may announce a window far larger than any cluster; it must not decide how much is allocated.
#[test]
fn a_huge_zstd_window_is_harmless() {
    // Magic, no content size, window 2^41, one empty last block.
    let frame = [0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xF8, 0x01, 0x00, 0x00];
    assert!(DECODERS.iter().all(|decompress| decompress(Algorithm::Zstd, &frame, &mut [0; 4096]).is_err()));
}

#[test]
fn errors_are_prose() {
    let error = CodecError::Malformed { at: Some(7), why: "match begins before the output" };
    assert_eq!(error.to_string(), "malformed compressed data before byte 7: match begins before the output");
    let error = decompress(Algorithm::Zstd, b"not a frame", &mut [0; 16]).unwrap_err();
    assert_eq!(error.to_string(), "malformed compressed data: Unknown frame descriptor");
    let error = decompress_portable(Algorithm::Zstd, b"not a frame", &mut [0; 16]).unwrap_err();
    assert_eq!(error.to_string(), "malformed compressed data: not a Zstandard frame");
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(
        algorithm in prop::sample::select(&ALL[..]),
        decompress in prop::sample::select(&DECODERS[..]),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        len in 0..3000usize,
    ) {
        let _ = decompress(algorithm, &bytes, &mut vec![0; len]);
    }

    #[test]
    fn a_damaged_cluster_decodes_or_fails(
        algorithm in prop::sample::select(&ALL[..]),
        decompress in prop::sample::select(&DECODERS[..]),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut cdata = compressed(algorithm, &cluster());
        for (at, byte) in damage {
            let at = at.index(cdata.len());
            cdata[at] = byte;
        }
        let _ = decompress(algorithm, &cdata, &mut vec![0; CLUSTER]);
    }

    #[test]
    fn round_trips(
        algorithm in prop::sample::select(&ALL[..]),
        decompress in prop::sample::select(&DECODERS[..]),
        data in prop::collection::vec(0..4u8, 1..2000),
    ) {
        let mut out = vec![0xAA; data.len()];
        decompress(algorithm, &compressed(algorithm, &data), &mut out).unwrap();
        prop_assert_eq!(out, data);
    }
}
