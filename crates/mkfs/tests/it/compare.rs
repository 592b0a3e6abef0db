//! Two images, one by mkfs.f2fs and one by us.
use rustix::fs::{SeekFrom, seek};
use segno_device::{FileDevice, OpenOptions};
use segno_format::checkpoint::RawCheckpoint;
use segno_format::nat::{RawNatBlock, RawNatEntry};
use segno_format::superblock::RawSuperblock;
use segno_format::{BLOCK_SIZE, Block, Nid};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::f2fs_tools;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zerocopy::IntoBytes;

pub const MIB: u64 = 1 << 20;
const UUID: [u8; 16] = [0x5e, 0x61, 0x6e, 0x6f, 1, 2, 0x43, 4, 0x85, 6, 7, 8, 9, 10, 11, 12];
const UUID_TEXT: &str = "5e616e6f-0102-4304-8506-0708090a0b0c";
const TIME: u64 = 1_700_000_000;
/// Blocks read at once.
const BATCH: usize = 1024;

/// Formats devices of these sizes with both tools and compares everything that either of them wrote.
pub fn same_as_mkfs_f2fs(args: &[&str], sizes: &[u64], opts: &MkfsOptions) {
    same_on_sectors(args, sizes, None, opts);
}

/// The same where `mkfs.f2fs` is told how many sectors to use.
pub fn same_on_sectors(args: &[&str], sizes: &[u64], sectors: Option<u64>, opts: &MkfsOptions) {
    let context = format!("mkfs.f2fs {} on {sizes:?} bytes", args.join(" "));
    let dir = tempfile::tempdir().unwrap();
    let theirs = with_mkfs_f2fs(&context, dir.path(), args, sizes, sectors);
    let opts = MkfsOptions {
        uuid: Some(UUID),
        timestamp: Some(TIME),
        checkpoint_ver: Some(checkpoint_ver(&theirs[0])),
        discard: opts.discard.or(Some(true)),
        ..opts.clone()
    };
    // Paths are recorded in the superblock: ours must get the same ones, so theirs step aside.
    let moved: Vec<PathBuf> = theirs.iter().map(|p| p.with_extension("theirs")).collect();
    theirs.iter().zip(&moved).for_each(|(from, to)| std::fs::rename(from, to).unwrap());
    let ours: Vec<PathBuf> = theirs.iter().zip(sizes).map(|(p, &bytes)| sparse(p, bytes)).collect();
    segno_mkfs::format(&members(&ours), &opts).unwrap_or_else(|e| panic!("{context}: {e}"));
    for (ours, theirs) in ours.iter().zip(&moved) {
        compare_images(&context, ours, theirs);
    }
    f2fs_tools::assert_clean(&context, &ours[0]);
}

fn with_mkfs_f2fs(
    context: &str,
    dir: &Path,
    args: &[&str],
    sizes: &[u64],
    sectors: Option<u64>,
) -> Vec<PathBuf> {
    let paths: Vec<PathBuf> =
        (0u64..).zip(sizes).map(|(i, &bytes)| sparse(&dir.join(format!("dev{i}")), bytes)).collect();
    let time = TIME.to_string();
    let mut all = vec!["-f", "-r", "-T", &time, "-U", UUID_TEXT];
    for path in &paths[1..] {
        all.extend(["-c", path.to_str().unwrap()]);
    }
    all.extend(args);
    let behind = sectors.map(|n| PathBuf::from(n.to_string()));
    let operands: Vec<PathBuf> = paths.iter().take(1).cloned().chain(behind).collect();
    let output = f2fs_tools::run("mkfs.f2fs", &all, &operands).unwrap();
    assert!(output.status.success(), "{context} failed:\n{}", f2fs_tools::text(&output));
    paths
}

/// A sparse file.
pub fn sparse(path: &Path, bytes: u64) -> PathBuf {
    File::create(path).unwrap().set_len(bytes).unwrap();
    path.to_owned()
}

pub fn members(paths: &[PathBuf]) -> Vec<Member> {
    let member = |path: &PathBuf| Member {
        device: Arc::new(FileDevice::open(path, OpenOptions::default()).unwrap()),
        path: path.to_str().unwrap().to_owned(),
        zeroed: false,
    };
    paths.iter().map(member).collect()
}

fn checkpoint_ver(path: &Path) -> u32 {
    let image = File::open(path).unwrap();
    let sb = RawSuperblock::from_block(&block(&image, 0).0);
    let cp = block(&image, sb.cp_blkaddr.get().into());
    cp.view::<RawCheckpoint>().checkpoint_ver.get().try_into().unwrap()
}

fn block(image: &File, addr: u64) -> Block {
    read(image, addr, 1).remove(0)
}

// A `FileDevice` would take a lock, and a tool that another test is just starting could hold a copy of it for
// a moment.
fn read(image: &File, addr: u64, count: usize) -> Vec<Block> {
    let mut into = vec![Block::zeroed(); count];
    image.read_exact_at(into.as_mut_bytes(), addr * BLOCK_SIZE as u64).unwrap();
    into
}

/// Compares every block that is not a hole in one of them.
fn compare_images(context: &str, ours: &Path, theirs: &Path) {
    let written: Vec<Range<u64>> = written_blocks(ours).into_iter().chain(written_blocks(theirs)).collect();
    let (ours, theirs) = (File::open(ours).unwrap(), File::open(theirs).unwrap());
    let nat = RawSuperblock::from_block(&block(&ours, 0).0).nat_blkaddr.get();
    for range in written {
        for at in range.clone().step_by(BATCH) {
            let count = (range.end - at).min(BATCH as u64) as usize;
            let (a, b) = (read(&ours, at, count), read(&theirs, at, count));
            for (addr, (a, b)) in (at..).zip(a.into_iter().zip(b)) {
                if a.0 != b.0 {
                    compare_blocks(context, addr, nat.into(), [a, b]);
                }
            }
        }
    }
}

fn compare_blocks(context: &str, addr: u64, nat: u64, mut pair: [Block; 2]) {
    if addr < 2 {
        pair.iter_mut().for_each(mask_superblock);
    } else if addr == nat {
        pair.iter_mut().for_each(mask_journaled);
    }
    let [ours, theirs] = pair;
    if let Some(at) = (0..BLOCK_SIZE).find(|&i| ours.0[i] != theirs.0[i]) {
        let line = at / 16 * 16..at / 16 * 16 + 16;
        panic!(
            "{context}: block {addr} differs at byte {at}\n  from {}: ours {:02x?}\n  mkfs.f2fs {:02x?}",
            line.start,
            &ours.0[line.clone()],
            &theirs.0[line.clone()]
        );
    }
}

/// Clears the fields that may differ: the formatter's name, bytes after a device path's NUL, and the
/// checksum.
fn mask_superblock(block: &mut Block) {
    let mut sb = RawSuperblock::from_block(&block.0);
    sb.version.fill(0);
    sb.init_version.fill(0);
    for device in &mut sb.devs {
        let end = device.path.iter().position(|&b| b == 0).unwrap();
        device.path[end..].fill(0);
    }
    sb.crc = 0.into();
    sb.store(&mut block.0);
}

/// mkfs.f2fs stores some inodes of the NAT journal in the NAT block too, where no implementation reads them.
fn mask_journaled(block: &mut Block) {
    block.view_mut::<RawNatBlock>().entries[Nid::ROOT.0 as usize..].fill(RawNatEntry::default());
}

/// Blocks of a sparse file that are not holes.
fn written_blocks(path: &Path) -> Vec<Range<u64>> {
    let file = File::open(path).unwrap();
    let mut extents = Vec::new();
    let mut at = 0;
    while let Ok(start) = seek(&file, SeekFrom::Data(at)) {
        at = seek(&file, SeekFrom::Hole(start)).unwrap();
        extents.push(start / BLOCK_SIZE as u64..at.div_ceil(BLOCK_SIZE as u64));
    }
    extents
}
