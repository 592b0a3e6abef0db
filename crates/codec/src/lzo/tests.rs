use super::*;
use crate::CodecError;
use proptest::prelude::*;

/// Streams of the original library (`lzo1x_1`, `lzo1x_999`) and of the kernel (`lzo-rle`).
#[test]
fn decodes_streams_of_other_encoders() {
    let period = b"abc".repeat(70);
    let vectors = [
        ("lzo1x_1", &period[..], "03616263616263209b14000d63616263616263616263616263616263110000"),
        ("lzo1x_999", &period[..], "1461626320ae0800110000"),
        (
            "lzo1x_999",
            &mixed_matches()[..],
            "00e800049d128e2c251977ad9e59b40405c935c613ff8ee352d9025d91133da503cb03ac593acf44317978b548 \
               8e04b9cd8db69f54d118cb5d052b7816c6361929370eaddce07bd3ed55f5948b58efa457b9b4ccea0b21ed1371 \
               1bfc641ed8df6c5a7840ac08dd179bfe8dbcfc6443d8c6bd430e70e17de20cb0edbca160152db57f24beca4767 \
               65da0ebc609ddc6dda5b5a0811f6561182f7f6a41674fa39ef888fbdbb779bb162b4acb94e5ad279ce0f406a2a \
               fec7eb6f4174fecb8f76659a1b079f9b2a37731cb18f6467572b9369713a158a14edc22cbc30a1fabe0a926441 \
               c39fc7759e4f00291eabdb8acca10f056eb2d501e4b47b8a752314451ff07e04f1f1f900f2000020078f0159b4 \
               f4270100f520000d0100f64000110000",
        ),
        (
            "lzo1x_1",
            &far_matches()[..],
            "0d7365676d656e742073756d6d6172790020000000000000000000000000000000000000000000000000000000 \
               000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000 \
               0000000000004c00001006bd382110000000000000000000000000000000000000000000000000000000000000 \
               000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000 \
               00000064bc38100000000000000000000000000000000000000000000000000000000000000000000000ae7c38 \
               0c000000000000000000000000000000200000000000000000000000000000000000000000000000000000d500 \
               00000100007365676d656e742073756d6d6172793f21110000",
        ),
        (
            "lzo1x_999",
            &far_matches()[..],
            "217365676d656e742073756d6d617279002000000000000000e600002000000000000000e60000200000000000 \
               0000e600002000000000000000e600002000000000000000e600002000000000000000e6000020000000000000 \
               00e600002000000000000000e600002000000000000000e60000200000000000000400001006bd382120000000 \
               00000000e63c202000000000000000e600002000000000000000e600002000000000000000e600002000000000 \
               000000e600002000000000000000e600002000000000000000e600002000000000000000e60000200000000000 \
               0000e600002000000000000000e600002000000000000000e600002000000000000000e6000020000000000000 \
               00e600002000000000000000e600002000000000000000e600002000000000000000e600002000000000000000 \
               e6000020000000008300001806c2323f21110000",
        ),
        (
            "lzo-rle",
            &far_matches()[..],
            "11010c7365676d656e742073756d6d6172791ffcffff1ffcffff1ffcffff1ffcffff1ffcffff1ffcffff1ffcff \
               ff1ffcffff1ffcffff19fcffc01006bd38211ffcffff1ffcffff1ffcffff1ffcffff1ffcffff1ffcffff1ffcff \
               ff1ffcffff1ffcffff1ffcffff1ffcffff1ffcffff1ffcffff1ffcffff1efcff2f000300000000000000000000 \
               00000000000000000000001ffcffff1ffcffff1ffcffff1ffcff5900020000007365676d656e742073756d6d61 \
               72793f21110000",
        ),
        (
            "lzo-rle",
            &runs_of_zeros()[..],
            "11010201000000001cffff240202021cffff4a03030318fdff70041cfdff950518ffffbb0606061cffffe00707 \
               071ffcffff1ffcffff1afcff0900020000000000000000000000000000000000000000110000",
        ),
    ];
    for (encoder, data, stream) in vectors {
        assert!(
            decoded(&unhex(stream), data.len()).as_deref() == Ok(data),
            "{encoder}, {} bytes",
            data.len()
        );
    }
}

/// A marker, again 20,015 and 36,016 bytes later: beyond both limits of the far match.
fn far_matches() -> Vec<u8> {
    let marker = b"segment summary";
    [&marker[..], &[0; 20_000], marker, b"!", &[0; 36_000], marker, b"?!"].concat()
}

/// Short matches at many distances, with 0 to 4 literals between them.
fn mixed_matches() -> Vec<u8> {
    let mut data = noise(250);
    let matches = [(250, 3, 1), (40, 4, 2), (7, 8, 3), (100, 40, 0), (300, 2, 1), (1, 9, 2), (2, 300, 4)];
    for (i, (distance, len, literals)) in matches.into_iter().enumerate() {
        let distance = data.len().min(distance);
        for _ in 0..len {
            data.push(data[data.len() - distance]);
        }
        data.resize(data.len() + literals, 0xF0 + i as u8);
    }
    data
}

/// Runs of zeros of growing length, with 1 to 4 other bytes between them.
fn runs_of_zeros() -> Vec<u8> {
    let mut data = Vec::new();
    for i in 1..8 {
        data.resize(data.len() + i % 4 + (i + 1) % 2, i as u8);
        data.resize(data.len() + 300 * i, 0);
    }
    data.resize(data.len() + 2100, 0);
    data
}

fn noise(len: usize) -> Vec<u8> {
    let mut x = 1u32;
    let next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        (x >> 24) as u8
    };
    core::iter::repeat_with(next).take(len).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Decodes into a buffer of `len` bytes and returns the part that was filled.
fn decoded(stream: &[u8], len: usize) -> Result<Vec<u8>, CodecError> {
    let mut out = vec![0xAA; len];
    let filled = decompress(stream, &mut out)?;
    out.truncate(filled);
    Ok(out)
}

const END: [u8; 3] = [0x11, 0, 0];

/// One instruction after `literals` first literals (the bytes 0, 1, 2, ...), then the end marker.
fn after_literals(literals: u8, instruction: &[u8]) -> Result<Vec<u8>, CodecError> {
    let first: Vec<u8> = (0..literals).collect();
    let stream = [&[17 + literals], &first[..], instruction, &END].concat();
    decoded(&stream, 400).map(|out| out[usize::from(literals)..].to_vec())
}

#[test]
fn every_match_form_decodes() {
    // 2 bytes from 4·0 + 2 + 1 back, then one literal.
    assert_eq!(after_literals(3, &[0b0000_1001, 0, b'x']).unwrap(), [0, 1, b'x']);
    // 3 and 4 bytes from 8·1 + 2 + 1 back.
    assert_eq!(after_literals(20, &[0b0100_1000, 1]).unwrap(), [9, 10, 11]);
    assert_eq!(after_literals(20, &[0b0110_1000, 1]).unwrap(), [9, 10, 11, 12]);
    // 5 and 8 bytes from 5 back; the longer one repeats itself.
    assert_eq!(after_literals(20, &[0b1001_0000, 0]).unwrap(), [15, 16, 17, 18, 19]);
    assert_eq!(after_literals(20, &[0b1111_0000, 0]).unwrap(), [15, 16, 17, 18, 19, 15, 16, 17]);
    // 2 + 5 bytes from 10 back, then two literals.
    assert_eq!(
        after_literals(20, &[0b0010_0101, 9 << 2 | 2, 0, b'x', b'y']).unwrap(),
        [10, 11, 12, 13, 14, 15, 16, b'x', b'y']
    );
    // 2 + 31 + 255 + 3 bytes from 1 back.
    assert_eq!(after_literals(20, &[0b0010_0000, 0, 3, 0, 0]).unwrap(), [19; 2 + 31 + 255 + 3]);
}

/// After four or more literals, the shortest form is a match of three at distances beyond the near forms.
#[test]
fn short_form_reaches_back_after_long_literals() {
    let data = noise(2060);
    // 2060 literals are 3 + 15 + 8·255 + 2; then 3 bytes from 4·1 + 3 + 2049 back.
    let stream = [&[0; 9][..], &[2], &data, &[0b0000_1100, 1], &END].concat();
    assert_eq!(decoded(&stream, 4096).unwrap()[2060..], data[4..7]);
}

#[test]
fn zero_runs_need_the_version_marker() {
    // 4 + 8·5 + 3 zeros and one literal; in a plain stream a match beyond the output.
    let run = [18, b'a', 0b0001_1011, 0xFD, 0xFF, 5, b'b', 0x11, 0, 0];
    let versioned = [&[17, 1], &run[..]].concat();
    assert_eq!(decoded(&versioned, 400).unwrap(), [&b"a"[..], &[0; 47], b"b"].concat());
    assert!(matches!(decoded(&run, 400), Err(CodecError::Malformed { .. })));
    assert_eq!(
        decoded(&[17, 2, 18, b'a', 0x11, 0, 0], 400),
        Err(CodecError::Malformed { at: Some(2), why: "unknown bitstream version" })
    );
}

#[test]
fn empty_stream_is_the_end_marker() {
    assert_eq!(decoded(&END, 0).unwrap(), []);
    assert_eq!(compress(&[]), END);
}

#[test]
fn damaged_streams_are_refused() {
    let data = far_matches();
    let stream = compress(&data);
    for len in 0..stream.len() {
        assert_eq!(decoded(&stream[..len], data.len()), Err(CodecError::Truncated), "cut to {len} bytes");
    }
    assert_eq!(decoded(&stream, data.len() - 1), Err(CodecError::TooLong));
    let refused = |stream: &[u8]| match decoded(stream, 400) {
        Err(CodecError::Malformed { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(&[0x11, 0, 0, 9]), "data follows the end marker");
    assert_eq!(refused(&[18, b'a', 0x12, 0, 0]), "end marker with a wrong length");
    assert_eq!(refused(&[18, b'a', 0b0100_0100, 0, 0x11, 0, 0]), "match begins before the output");
}

#[test]
fn encoder_finds_matches_at_every_distance() {
    for (data, len_max) in [(far_matches(), 340), (mixed_matches(), 330), (runs_of_zeros(), 140)] {
        let stream = compress(&data);
        assert_eq!(decoded(&stream, data.len()).unwrap(), data);
        assert!(stream.len() <= len_max, "{} bytes became {}", data.len(), stream.len());
    }
}

/// Bytes with the repetitions that make an encoder use its whole repertoire.
fn repetitive() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..40).prop_map(Piece::Literals),
        (1..30_000usize, 1..600usize).prop_map(|(distance, len)| Piece::Match(distance, len)),
        (1..20_000usize).prop_map(Piece::Zeros),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| {
        let mut data = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Literals(bytes) => data.extend(bytes),
                Piece::Zeros(len) => data.resize(data.len() + len, 0),
                Piece::Match(distance, len) if !data.is_empty() => {
                    let distance = distance % data.len() + 1;
                    (0..len).for_each(|_| data.push(data[data.len() - distance]));
                }
                Piece::Match(..) => {}
            }
        }
        data
    })
}

#[derive(Clone, Debug)]
enum Piece {
    Literals(Vec<u8>),
    Match(usize, usize),
    Zeros(usize),
}

proptest! {
    #[test]
    fn round_trips(data in repetitive()) {
        prop_assert!(decoded(&compress(&data), data.len()).as_deref() == Ok(&data[..]));
    }

    /// Nothing is known about the bytes but that the decoder returns.
    #[test]
    fn any_bytes_decode_or_fail(bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0..3000usize) {
        let _ = decoded(&bytes, len);
        let _ = decoded(&[&[17, 1], &bytes[..]].concat(), len);
    }

    /// One changed byte in a real stream gets further than random bytes do.
    #[test]
    fn a_damaged_stream_decodes_or_fails(data in repetitive(), at: prop::sample::Index, byte: u8) {
        let mut stream = compress(&data);
        let at = at.index(stream.len());
        stream[at] = byte;
        let _ = decoded(&stream, data.len());
    }
}
