//! Metadata of Android super images, as liblp lays them out.
use sha2::{Digest, Sha256};

const SECTOR: usize = 512;
const METADATA_MAX: u32 = 65_536;
const HEADER: u32 = 128;

/// Name, attributes and pieces of a partition; a piece is a sector, a length in sectors and a kind.
pub type SuperPartition<'a> = (&'a str, u32, &'a [(u64, u64, u32)]);

/// A super image of these slots, with zeros in its partitions.
///
/// # Panics
///
/// If it is too short for its metadata.
#[must_use]
pub fn super_image(slots: &[&[SuperPartition<'_>]], bytes: usize) -> Vec<u8> {
    let mut image = vec![0; bytes];
    let count = slots.len() as u32;
    let geometry = [&words(&[0x616C_4467, 52])[..], &[0; 32], &words(&[METADATA_MAX, count, 4096])].concat();
    let geometry = sealed(geometry, 8);
    for at in [4096, 8192] {
        put(&mut image, at, &geometry);
    }
    let copies = slots.iter().chain(slots);
    for (n, slot) in copies.enumerate() {
        put(&mut image, 12_288 + n * METADATA_MAX as usize, &tables(slot));
    }
    image
}

/// Puts the bytes of a volume into the pieces of a partition.
///
/// # Panics
///
/// If a piece is not in the image.
pub fn fill(image: &mut [u8], pieces: &[(u64, u64, u32)], volume: &[u8]) {
    let mut rest = volume;
    for &(start, sectors, _) in pieces {
        let (piece, next) = rest.split_at(rest.len().min(sectors as usize * SECTOR));
        put(image, start as usize * SECTOR, piece);
        rest = next;
    }
}

fn tables(slot: &[SuperPartition<'_>]) -> Vec<u8> {
    let (mut partitions, mut extents, mut count) = (Vec::new(), Vec::new(), 0u32);
    for (name, attributes, pieces) in slot {
        let mut fixed = [0; 36];
        put(&mut fixed, 0, name.as_bytes());
        partitions.extend(fixed);
        partitions.extend(words(&[*attributes, count, pieces.len() as u32, 0]));
        for &(start, sectors, kind) in *pieces {
            extents.extend(sectors.to_le_bytes());
            extents.extend(words(&[kind]));
            extents.extend(start.to_le_bytes());
            extents.extend(words(&[0]));
        }
        count += pieces.len() as u32;
    }
    let split = partitions.len() as u32;
    let tables = [partitions, extents].concat();
    let mut header = words(&[0x414C_5030, 10, HEADER]);
    header.extend([0; 32]);
    header.extend(words(&[tables.len() as u32]));
    header.extend(Sha256::digest(&tables));
    header.extend(words(&[0, slot.len() as u32, 52, split, count, 24]));
    header.resize(HEADER as usize, 0);
    [sealed(header, 12), tables].concat()
}

/// With the SHA-256 of a record in it, as of the record with zeros there.
fn sealed(mut record: Vec<u8>, at: usize) -> Vec<u8> {
    let sum = Sha256::digest(&record);
    put(&mut record, at, &sum);
    record
}

fn words(all: &[u32]) -> Vec<u8> {
    all.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[allow(clippy::indexing_slicing, reason = "the callers of this crate are tests")]
fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
    into[at..at + bytes.len()].copy_from_slice(bytes);
}
