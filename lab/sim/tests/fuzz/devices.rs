//! The superblock of a volume on two devices, with its table.
use segno_device::{BlockDevice, MemDevice, OpenOptions, open_volume};
use segno_format::superblock::RawSuperblock;
use segno_format::{BLOCK_SIZE, Block};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::fuzz::{Mutator, Outcome, Target};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Blocks of each device.
const BLOCKS: [u64; 2] = [48 * 256, 24 * 256];
/// Where the superblock is in its block, and its bytes.
const AT: usize = 1024;
const BYTES: usize = 3072;

/// Two files of these sizes, and the superblock of the first.
struct Volume {
    _dir: tempfile::TempDir,
    paths: [PathBuf; 2],
    first: File,
    superblock: Vec<u8>,
}

fn volume() -> Volume {
    let devices = BLOCKS.map(|n| Arc::new(MemDevice::new(n)));
    let member = |d: &Arc<MemDevice>| Member { device: d.clone(), path: "member".into(), zeroed: true };
    let members: Vec<Member> = devices.iter().map(member).collect();
    segno_mkfs::format(&members, &MkfsOptions::default()).unwrap();
    let mut block = [Block::zeroed()];
    devices[0].read(0, &mut block).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let paths = ["first", "second"].map(|name| dir.path().join(name));
    let files = paths.each_ref().map(|path| File::create_new(path).unwrap());
    files.iter().zip(BLOCKS).for_each(|(f, n)| f.set_len(n * BLOCK_SIZE as u64).unwrap());
    let [first, _] = files;
    Volume { _dir: dir, paths, first, superblock: block[0].0[AT..AT + BYTES].to_vec() }
}

/// The devices have as many blocks as both files together, all of which can be read; a refusal shows nothing that a terminal obeys.
fn open(volume: &Volume, input: &[u8]) -> Outcome {
    let mut block = Block::zeroed();
    block.0[AT..].iter_mut().zip(input).for_each(|(b, i)| *b = *i);
    let mut sb = RawSuperblock::from_block(&block.0);
    sb.seal();
    sb.store(&mut block.0);
    (0..2).for_each(|copy| volume.first.write_all_at(&block.0, copy * BLOCK_SIZE as u64).unwrap());
    let parsed = sb.parse(0).is_ok();
    match open_volume(&volume.paths, OpenOptions { read_only: true, direct: false }) {
        Ok(_) if !parsed => Err("a volume without a superblock was opened".into()),
        Ok(device) => {
            let count = device.block_count();
            let mut last = [Block::zeroed()];
            let read = device.read(count.saturating_sub(1), &mut last);
            match read {
                Ok(()) if count <= BLOCKS.iter().sum() => Ok(true),
                read => Err(format!("the last of {count} blocks: {read:?}")),
            }
        }
        Err(e) => {
            let text = e.to_string();
            if text.contains(|c: char| c.is_control() && c != '\n') {
                Err(format!("{text:?}"))
            } else {
                Ok(parsed)
            }
        }
    }
}

#[test]
fn fuzz_device_tables() {
    let volume = volume();
    let superblock = RawSuperblock::from_block(
        &[[0; AT].to_vec(), volume.superblock.clone()].concat().try_into().unwrap(),
    );
    let table = std::mem::offset_of!(RawSuperblock, devs);
    assert_eq!(superblock.devs[1].path[..6], *b"member");
    // Half of the inputs change the table alone.
    let fixup = |bytes: &mut Vec<u8>, rng: &mut segno_testkit::Rng| {
        if rng.one_in(2) {
            bytes[..table].copy_from_slice(&volume.superblock[..table]);
        }
    };
    let mutator =
        Mutator { seeds: vec![volume.superblock.clone()], resized: 0, fixup: &fixup, ..Mutator::default() };
    let run = |i: &Vec<u8>| open(&volume, i);
    let target = Target { name: "devices", runs: 1_000, draw: &|rng| mutator.draw(rng), run: &run };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}
