//! Blocks in objects: pieces of 16 blocks, each followed by a CRC-32C that also covers the identity of piece,
//! object and volume. So a range of blocks can be read and checked without the rest, and cannot be mistaken
//! for another.
use crate::ids::LogPlace;
use crate::wire::names::ObjectId;
use bytes::Bytes;
use segno_format::BLOCK_SIZE;
use std::ops::Range;

/// Blocks of a data object: 8 MiB.
pub(crate) const OBJECT_BLOCKS: u16 = 2048;
/// Blocks of a piece; the last one of an object may have fewer.
pub(crate) const PIECE_BLOCKS: u32 = 16;
const PIECE_BYTES: usize = PIECE_BLOCKS as usize * BLOCK_SIZE;
const CRC_BYTES: usize = 4;

/// Encoded length of `blocks` blocks.
pub(crate) fn encoded_len(blocks: u32) -> usize {
    blocks as usize * BLOCK_SIZE + blocks.div_ceil(PIECE_BLOCKS) as usize * CRC_BYTES
}

/// Byte range of pieces in an object with `blocks` blocks.
pub(crate) fn byte_range(pieces: Range<u32>, blocks: u32) -> Range<u64> {
    let at = |piece: u32| encoded_len(piece.saturating_mul(PIECE_BLOCKS).min(blocks)) as u64;
    at(pieces.start)..at(pieces.end)
}

fn seed(volume: &[u8; 16], id: ObjectId, piece: u32) -> u32 {
    let (kind, LogPlace { epoch, seq }) = id.numbers();
    let mut crc = crc32c::crc32c(volume);
    crc = crc32c::crc32c_append(crc, &[kind]);
    crc = crc32c::crc32c_append(crc, &epoch.get().to_le_bytes());
    crc = crc32c::crc32c_append(crc, &seq.get().to_le_bytes());
    crc32c::crc32c_append(crc, &piece.to_le_bytes())
}

/// Appends blocks, one after the other in `slices`, as the pieces of an object.
pub(crate) fn encode(volume: &[u8; 16], id: ObjectId, slices: &[&[u8]], out: &mut Vec<u8>) {
    let (mut piece, mut filled, mut crc) = (0, 0, seed(volume, id, 0));
    for slice in slices {
        let mut rest = *slice;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(PIECE_BYTES - filled));
            out.extend_from_slice(now);
            crc = crc32c::crc32c_append(crc, now);
            (rest, filled) = (later, filled + now.len());
            if filled == PIECE_BYTES {
                out.extend_from_slice(&crc.to_le_bytes());
                (piece, filled) = (piece + 1, 0);
                crc = seed(volume, id, piece);
            }
        }
    }
    if filled > 0 {
        out.extend_from_slice(&crc.to_le_bytes());
    }
}

/// Splits the blocks in `slices`, which follow each other, into pieces.
pub(crate) fn split(slices: &[&[u8]]) -> Vec<Bytes> {
    slices.concat().chunks(PIECE_BYTES).map(Bytes::copy_from_slice).collect()
}

/// Splits consecutive pieces and checks each. `None` if one is damaged or cut off.
pub(crate) fn decode(volume: &[u8; 16], id: ObjectId, first: u32, bytes: &Bytes) -> Option<Vec<Bytes>> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for piece in first.. {
        let len = (bytes.len() - at).min(PIECE_BYTES + CRC_BYTES);
        if len == 0 {
            break;
        }
        let blocks = bytes.slice(at..at + len.checked_sub(CRC_BYTES)?);
        let crc = bytes.get(at + blocks.len()..at + len)?;
        let whole = !blocks.is_empty() && blocks.len().is_multiple_of(BLOCK_SIZE);
        if !whole || crc32c::crc32c_append(seed(volume, id, piece), &blocks).to_le_bytes() != crc {
            return None;
        }
        pieces.push(blocks);
        at += len;
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Epoch, Seq};

    #[test]
    fn a_piece_is_read_alone_and_passes_for_no_other() {
        let id = ObjectId::Data { epoch: Epoch::new(1), number: 2 };
        let volume = [7; 16];
        let blocks: Vec<u8> = (0..37).flat_map(|b| [b; BLOCK_SIZE]).collect();
        let mut out = Vec::new();
        let (a, b) = blocks.split_at(5 * BLOCK_SIZE);
        encode(&volume, id, &[a, b], &mut out);
        assert_eq!(out.len(), encoded_len(37));
        let out = Bytes::from(out);
        let part = |r: Range<u32>| {
            let r = byte_range(r, 37);
            out.slice(r.start as usize..r.end as usize)
        };
        let read = |r: Range<u32>| decode(&volume, id, r.start, &part(r)).unwrap().concat();
        assert_eq!(read(0..3), blocks);
        assert_eq!(read(1..2), blocks[16 * BLOCK_SIZE..32 * BLOCK_SIZE]);
        assert_eq!(read(2..3), blocks[32 * BLOCK_SIZE..]);
        assert!(decode(&volume, id, 1, &part(0..1)).is_none(), "another piece");
        let other = ObjectId::Log(LogPlace::new(Epoch::new(1), Seq::new(2)));
        assert!(decode(&volume, other, 0, &part(0..1)).is_none(), "another object");
        assert!(decode(&[8; 16], id, 0, &part(0..1)).is_none(), "another volume");
        assert!(decode(&volume, id, 2, &part(2..3).slice(..9)).is_none(), "cut off");
        let mut bad = part(0..1).to_vec();
        bad[77] ^= 1;
        assert!(decode(&volume, id, 0, &bad.into()).is_none(), "altered");
    }
}
