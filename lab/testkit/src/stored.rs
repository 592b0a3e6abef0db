//! Objects of volumes on object stores with right checksums and wrong content.
use crate::Rng;

/// Of a commit's object: magic, length of the record, inline blocks, checksum.
const TAIL: usize = 20;
const CHECKSUM: usize = 4;
const MAGIC: usize = 8;

/// Sets bytes of a record, and its checksum.
fn spoil(record: &mut [u8], rng: &mut Rng) {
    let Some((body, sum)) = record.split_last_chunk_mut::<CHECKSUM>() else { return };
    if body.len() <= MAGIC {
        return;
    }
    for _ in 0..rng.between(1, 3) {
        // The magic number stays, so that the content is reached.
        let at = rng.between(MAGIC as u64, body.len() as u64 - 1) as usize;
        let len = 1 << rng.below(4);
        let value = match rng.below(4) {
            0 => u64::MAX,
            1 => 0,
            2 => rng.below(1 << 16),
            _ => rng.below(u64::MAX),
        };
        body.iter_mut().skip(at).take(len).zip(value.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
    *sum = crc32c::crc32c(body).to_le_bytes();
}

/// Spoils the object of a name. Its blocks stay as they are.
pub fn spoil_object(name: &str, bytes: &mut [u8], rng: &mut Rng) {
    if !name.contains("/log/") {
        return spoil(bytes, rng);
    }
    let Some((before, tail)) = bytes.split_last_chunk_mut::<TAIL>() else { return };
    let len = tail.get(MAGIC..).and_then(|rest| rest.first_chunk()).map(|len| u32::from_le_bytes(*len));
    if rng.one_in(4) {
        return spoil(tail, rng);
    }
    let start = len.and_then(|len| before.len().checked_sub(len as usize)).unwrap_or_default();
    if let Some(record) = before.get_mut(start..) {
        spoil(record, rng);
    }
}
