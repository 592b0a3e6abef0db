//! The encoder.

use super::{
    FAR_DISTANCE_BASE, FAR_FIELD_MAX, FAR_MATCH, FIRST_BYTE_BASE, LITERAL_FIELD_MAX, LITERAL_LEN_BASE,
    MATCH_LEN_BASE, MID_FIELD_MAX, MID_MATCH,
};
use alloc::vec;
use alloc::vec::Vec;

const MATCH_LEN_MIN: usize = 4;
const NEAR_LEN_MAX: usize = 8;
const NEAR_DISTANCE_MAX: usize = 0x800;
const MID_DISTANCE_MAX: usize = 0x4000;
const FAR_DISTANCE_MAX: usize = 0xBFFF;
const FIRST_LITERALS_MAX: usize = (u8::MAX - FIRST_BYTE_BASE) as usize;

const HASH_BITS: u32 = 13;
/// Knuth's multiplier for hashing: 2^32 divided by the golden ratio.
const HASH_FACTOR: u32 = 0x9E37_79B1;
/// The search step grows after 2^5 literals in a row without a match.
const SKIP_SHIFT: u32 = 5;

/// Encodes `data` as a plain LZO1X stream, which every LZO1X decoder reads.
///
/// The search is greedy and remembers one position for each hash of four bytes. Incompressible data grows by about
/// one byte in 255.
#[must_use]
pub fn compress(data: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder { out: Vec::new(), count_at: None };
    let mut seen = Seen::new();
    let mut literals_from = 0;
    let mut pos = 0;
    while let Some(four) = data.get(pos..).and_then(<[u8]>::first_chunk) {
        let candidate = seen.replace(four, pos);
        match candidate.and_then(|at| match_len(data, at, pos).map(|len| (pos - at, len))) {
            Some((distance, len)) => {
                encoder.literals(data.get(literals_from..pos).unwrap_or_default());
                encoder.copy(distance, len);
                pos += len;
                literals_from = pos;
            }
            None => pos += 1 + ((pos - literals_from) >> SKIP_SHIFT),
        }
    }
    encoder.literals(data.get(literals_from..).unwrap_or_default());
    encoder.end()
}

/// Length of the match of `pos` at `at`, if it is worth an instruction and near enough for one.
fn match_len(data: &[u8], at: usize, pos: usize) -> Option<usize> {
    let (old, new) = (data.get(at..)?, data.get(pos..)?);
    let len = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    (len >= MATCH_LEN_MIN && pos - at <= FAR_DISTANCE_MAX).then_some(len)
}

/// The last position of each hash of four bytes.
struct Seen(Vec<Option<usize>>);

impl Seen {
    fn new() -> Self {
        Self(vec![None; 1 << HASH_BITS])
    }

    fn replace(&mut self, four: &[u8; 4], pos: usize) -> Option<usize> {
        let hash = u32::from_le_bytes(*four).wrapping_mul(HASH_FACTOR) >> (u32::BITS - HASH_BITS);
        self.0.get_mut(usize::try_from(hash).ok()?)?.replace(pos)
    }
}

struct Encoder {
    out: Vec<u8>,
    /// The byte whose two lowest bits count the literals after the last match.
    count_at: Option<usize>,
}

impl Encoder {
    fn literals(&mut self, bytes: &[u8]) {
        match (bytes.len(), self.count_at.and_then(|at| self.out.get_mut(at))) {
            (0, _) => return,
            (len @ 1..=3, Some(count)) => *count |= low_byte(len),
            (len @ 1..=FIRST_LITERALS_MAX, None) => self.out.push(FIRST_BYTE_BASE + low_byte(len)),
            (len, _) => self.op_with_length(0, len - LITERAL_LEN_BASE, LITERAL_FIELD_MAX),
        }
        self.out.extend_from_slice(bytes);
    }

    fn copy(&mut self, distance: usize, len: usize) {
        if len <= NEAR_LEN_MAX && distance <= NEAR_DISTANCE_MAX {
            let offset = distance - 1;
            self.count_at = Some(self.out.len());
            self.out.push(low_byte(((len - 1) << 5) | ((offset & 7) << 2)));
            self.out.push(low_byte(offset >> 3));
        } else if distance <= MID_DISTANCE_MAX {
            self.op_with_length(MID_MATCH, len - MATCH_LEN_BASE, MID_FIELD_MAX);
            self.le16_operand(distance - 1);
        } else {
            let offset = distance - FAR_DISTANCE_BASE;
            let high = low_byte((offset >> 14) << 3);
            self.op_with_length(FAR_MATCH | high, len - MATCH_LEN_BASE, FAR_FIELD_MAX);
            self.le16_operand(offset & 0x3FFF);
        }
    }

    fn end(mut self) -> Vec<u8> {
        self.out.extend_from_slice(&[FAR_MATCH | 1, 0, 0]);
        self.out
    }

    fn op_with_length(&mut self, op: u8, len: usize, field_max: usize) {
        if len <= field_max {
            self.out.push(op | low_byte(len));
            return;
        }
        self.out.push(op);
        // The last length byte is not zero, so an exact multiple of 255 ends in 255.
        let rest = len - field_max - 1;
        self.out.resize(self.out.len() + rest / 255, 0);
        self.out.push(low_byte(rest % 255 + 1));
    }

    fn le16_operand(&mut self, offset: usize) {
        self.count_at = Some(self.out.len());
        self.out.push(low_byte((offset << 2) & 0xFF));
        self.out.push(low_byte(offset >> 6));
    }
}

fn low_byte(value: usize) -> u8 {
    value.to_le_bytes()[0]
}
