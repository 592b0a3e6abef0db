//! Fuzz target: sparse images with changed headers and chunks.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]
use rustix::fs::{MemfdFlags, memfd_create};
use segno_sparse::{Index, MAGIC, Writer};
use segno_testkit::fuzz::{Mutator, Outcome, Target};
use segno_testkit::memory::Counting;
use std::fs::File;
use std::io::Cursor;
use std::os::unix::fs::FileExt;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that are read of an image.
const READ: usize = 3 << 12;

fn seeds() -> Vec<Vec<u8>> {
    let writer = || Writer::new(Cursor::new(Vec::new()), 512, 1 << 20).unwrap();
    let mut plain = writer();
    plain.write(&[7; 1024]).unwrap();
    plain.skip(5).unwrap();
    plain.fill(0x0102_0304, 3).unwrap();
    plain.write(&[9; 512]).unwrap();
    let mut holes = writer();
    holes.skip(1 << 20).unwrap();
    holes.fill(0, 9).unwrap();
    let [plain, holes] = [plain, holes].map(|w| w.finish().unwrap().into_inner());
    // A chunk with the checksum of everything before it.
    let mut checksum = holes.clone();
    checksum.extend([0xc4, 0xca, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1, 2, 3, 4]);
    checksum[20] += 1;
    vec![plain, holes, checksum]
}

/// All reads of a range return the same bytes from within the image; holes have no data.
fn read(bytes: &[u8]) -> Outcome {
    let file: File = memfd_create("image", MemfdFlags::CLOEXEC).map_err(|e| e.to_string())?.into();
    file.write_all_at(bytes, 0).map_err(|e| e.to_string())?;
    if !Index::is_sparse(&file).map_err(|e| e.to_string())? {
        return Ok(false);
    }
    let Ok(index) = Index::read(&file) else { return Ok(true) };
    let mut at = 0;
    for extent in &index.extents {
        if extent.start != at || extent.len == 0 {
            return Err(format!("an extent at {}, and the one before ends at {at}", extent.start));
        }
        at += extent.len;
    }
    if at != index.size || index.extents.len() * 12 > bytes.len() {
        return Err(format!("{} extents end at {at}, the image at {}", index.extents.len(), index.size));
    }
    let (mut first, mut again) = (vec![1; READ], vec![2; READ]);
    for from in [0, index.size / 2, index.size.saturating_sub(READ as u64)] {
        let len = (index.size - from).min(READ as u64) as usize;
        let done = index.read_at(&file, &mut first[..len], from);
        if done.is_ok() != index.read_at(&file, &mut again[..len], from).is_ok() {
            return Err(format!("one of two reads at {from} failed: {done:?}"));
        }
        if done.is_ok() && first[..len] != again[..len] {
            return Err(format!("two reads at {from} differ"));
        }
        let data = index.next_data(from).unwrap_or(index.size).min(from + len as u64);
        if done.is_ok() && first[..(data - from) as usize].iter().any(|b| *b != 0) {
            return Err(format!("there is data before {data}, where the next is said to be"));
        }
    }
    Ok(true)
}

#[test]
fn fuzz_sparse_images() {
    let mutator = Mutator {
        seeds: seeds(),
        fixup: &|bytes, rng| {
            if let Some(magic) = bytes.get_mut(..4).filter(|_| !rng.one_in(50)) {
                magic.copy_from_slice(&MAGIC.to_le_bytes());
            }
        },
        ..Mutator::default()
    };
    let target =
        Target { name: "sparse", runs: 4_000, draw: &|rng| mutator.draw(rng), run: &|i: &Vec<u8>| read(i) };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}
