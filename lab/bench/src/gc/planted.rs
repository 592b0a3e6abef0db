//! Faults planted between engine and zones: each check must find its own.
use super::rig::{Devices, Rig, zoned};
use super::tag::{Content, Tag};
use super::verify::{explained, verify};
use super::verifying_device::VerifyingDevice;
use super::{placement, tag};
use parking_lot::Mutex;
use segno_device::{BlockDevice, Buffer, MemDevice, Reading, Zone, ZoneLimits};
use segno_format::{BLOCK_SIZE, Block};
use segno_gcmodel::{Experiment, Workload};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

/// Changes the blocks of each write.
struct Planted<F> {
    inner: Arc<dyn BlockDevice>,
    change: Mutex<F>,
}

impl<F: FnMut(&mut [Block]) + Send> BlockDevice for Planted<F> {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.inner.read(addr, into)
    }
    fn start_read(&self, addr: u64, into: Buffer) -> Reading {
        self.inner.start_read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        let mut changed: Vec<Block> = blocks.iter().map(|&b| b.clone()).collect();
        (self.change.lock())(&mut changed);
        self.inner.write(addr, &changed.iter().collect::<Vec<_>>())
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.inner.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.inner.discard(addr, count)
    }
    fn read_only(&self) -> bool {
        false
    }
    fn zones(&self) -> io::Result<Vec<Zone>> {
        self.inner.zones()
    }
    fn zone_limits(&self) -> ZoneLimits {
        self.inner.zone_limits()
    }
    fn reset_zone(&self, start: u64) -> io::Result<()> {
        self.inner.reset_zone(start)
    }
    fn finish_zone(&self, start: u64) -> io::Result<()> {
        self.inner.finish_zone(start)
    }
}

type Change = Box<dyn FnMut(&mut [Block]) + Send>;

fn planted(inner: Arc<dyn BlockDevice>, change: Change) -> Arc<dyn BlockDevice> {
    Arc::new(Planted { inner, change: Mutex::new(change) })
}

fn none() -> Change {
    Box::new(|_| {})
}

/// Sections of one segment, and few dirty pages.
fn small() -> Experiment {
    let e = Experiment::named("E1").unwrap();
    Experiment { zones: 32, blocks_per_zone: 512, file_blocks: Some(4000), dirty_pages: Some(64), ..e }
}

/// A rig with faults above and below the verifying device.
fn rig(e: Experiment, above: Change, below: Change) -> Rig {
    let (zoned, main) = zoned(&e).unwrap();
    let verifier = Arc::new(VerifyingDevice::new(planted(zoned.clone(), below), main, &e));
    let top = planted(verifier.clone(), above);
    Rig::new(e, Devices { zoned, verifier, top }, "greedy", true, 1).unwrap()
}

/// Runs so many writes; then what stopped the run, or what the checks at the end found.
fn found(mut rig: Rig, writes: u64) -> String {
    let run = |rig: &mut Rig| {
        rig.lay_out()?;
        while rig.written < writes {
            rig.step()?;
        }
        Ok(())
    };
    explained(&mut rig, run)
        .and_then(|()| verify(&mut rig))
        .map_or_else(|e| format!("{e:#}"), |violations| format!("{violations} violations"))
}

/// Calls `change` for the page that is the `nth` to be written.
fn nth_page(nth: u32, change: impl Fn(&mut [Block], usize) + Send + 'static) -> Change {
    let mut seen = 0;
    Box::new(move |blocks| {
        for i in 0..blocks.len() {
            if matches!(Content::of(&blocks[i]), Content::Tag(_)) {
                seen += 1;
                if seen == nth {
                    change(blocks, i);
                }
            }
        }
    })
}

#[test]
fn runs_without_faults_pass_every_check() {
    assert_eq!(found(rig(small(), none(), none()), 12_000), "0 violations");
    let zipf = Experiment { workload: Workload::Zipf(0.99), fsync_every: Some(7), ..small() };
    assert_eq!(found(rig(zipf, none(), none()), 3_000), "0 violations");
    let files = Experiment { zones: 48, blocks_per_zone: 512, ..Experiment::named("E8").unwrap() };
    assert_eq!(found(rig(files, none(), none()), 6_000), "0 violations");
}

#[test]
fn a_flipped_bit_is_found_when_it_is_written() {
    for byte in [0, 2000, BLOCK_SIZE - 1] {
        let flip = nth_page(4500, move |blocks, i| blocks[i].0[byte] ^= 4);
        let found = found(rig(small(), flip, none()), 2_000);
        assert!(found.contains("a damaged block with Tag") && found.contains("is written"), "{found}");
    }
}

#[test]
fn swapped_addresses_are_found_by_placement() {
    // Among the last pages of the layout, which are written together.
    let swap = nth_page(3970, |blocks, i| blocks.swap(i, i + 1));
    let found = found(rig(small(), swap, none()), 500);
    assert!(found.starts_with("placement") && found.contains("is in the slot of block"), "{found}");
}

#[test]
fn what_is_no_page_is_found_in_a_section_of_pages() {
    let wipe = nth_page(100, |blocks, i| blocks[i].0.fill(0));
    let found = found(rig(small(), wipe, none()), 500);
    assert!(found.starts_with("placement") && found.contains("it holds no newest copy"), "{found}");
}

#[test]
fn dropped_moves_are_found_when_they_are_moved_again() {
    let mut seen = HashSet::new();
    let drop_moves: Change = Box::new(move |blocks| {
        for block in blocks {
            if let Content::Tag(Tag { page, version, .. }) = Content::of(block)
                && !seen.insert((page, version))
            {
                block.0.fill(0xFF);
            }
        }
    });
    let found = found(rig(small(), none(), drop_moves), 60_000);
    assert!(found.contains("Other is read instead of version"), "{found}");
}

#[test]
fn what_nothing_moves_is_found_when_all_is_read_back() {
    let flip = nth_page(3000, |blocks, i| blocks[i].0[1] ^= 1);
    let found = found(rig(small(), none(), flip), 10);
    assert!(found.contains("Damaged") && found.contains("is read instead of version 1"), "{found}");
}

#[test]
fn a_page_that_only_the_tables_have_is_found() {
    let mut rig = rig(small(), none(), none());
    rig.lay_out().unwrap();
    rig.v.unmount().unwrap();
    placement::check(&rig).unwrap();
    rig.dev.verifier.deleted(rig.files[0].0, 17..18);
    let found = format!("{:#}", placement::check(&rig).unwrap_err());
    assert!(found.contains("it holds no newest copy; its slot is that of block 17"), "{found}");
}

#[test]
fn only_the_newest_copy_may_be_read_moved_and_outlive_a_reset() {
    let e = Experiment { file_blocks: Some(2), ..small() };
    let verifier = VerifyingDevice::new(Arc::new(MemDevice::new(4 * 512)), 512, &e);
    verifier.created(9, 0);
    let write = |addr, version| {
        let mut block = Block::zeroed();
        tag::Tag { ino: 9, page: 1, version }.fill(&mut block.0);
        verifier.write(addr, &[&block])
    };
    let read = |addr| verifier.read(addr, &mut [Block::zeroed()]);
    write(600, 1).unwrap();
    write(1100, 1).unwrap();
    read(1100).unwrap();
    assert!(read(600).unwrap_err().to_string().contains("page 1 has version 1 in block 588"));
    write(1101, 2).unwrap();
    read(1100).unwrap_err();
    assert!(write(1102, 1).unwrap_err().to_string().contains("is written after version 2"));
    assert_eq!((verifier.newest_in(0), verifier.newest_in(1)), (vec![], vec![(77, 1)]));
    assert!(verifier.reset_zone(1024).unwrap_err().to_string().contains("newest copies"));
    assert!(verifier.fault().unwrap().contains("block 88 of the main area"), "the first fault is kept");
}
