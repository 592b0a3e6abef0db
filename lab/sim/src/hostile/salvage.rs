//! One damaged volume: check it, search it for nodes, read every file that is found, live and deleted, and show every
//! structure.
use super::base::Base;
use super::edit::Image;
use super::guard::Guard;
use segno_check::CheckOptions;
use segno_device::{BlockDevice, MemDevice};
use segno_rescue::scan::BadBlocks;
use segno_rescue::undelete::{self, Proof};
use segno_rescue::{ScanOptions, Tree, Verdicts, Volume, attrs, content, file, scan};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Blocks that may be read; undamaged volumes need a tenth.
const STEPS: u64 = 4_000_000;
/// Files of which structures are shown.
const SHOWN: usize = 12;

/// Structures that are shown of every volume.
const WHAT: [&str; 17] = [
    "sb",
    "cp",
    "nat",
    "sit",
    "ssa 0..3",
    "node 3",
    "inode 3",
    "path /a/b",
    "dentry /many",
    "xattr /attributes",
    "orphans",
    "quota",
    "chain",
    "journal",
    "block 1",
    "segment 0",
    "owner 9000",
];

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// Errors that the checker found.
    pub problems: u64,
    /// Names in the tree.
    pub names: usize,
    /// Bytes of files that were read.
    pub bytes: u64,
    /// Deleted files.
    pub deleted: usize,
    /// Structures that could be shown.
    pub shown: usize,
}

/// Runs an image; an error is a violation.
pub fn run(base: &Base, image: &Image) -> Result<Salvaged, String> {
    let device = MemDevice::from_snapshot(&base.image);
    base.layout.apply(&device, &image.edits, image.sealed)?;
    let blocks = device.block_count();
    let guard = Arc::new(Guard::new(device, STEPS));
    let mut out = Salvaged::default();
    check(&guard, &mut out)?;
    files(&guard, blocks, &mut out)?;
    guard.verdict().map_err(|e| format!("rescue: {e}"))?;
    guard.allow(STEPS);
    structures(&guard, &mut out);
    guard.verdict().map_err(|e| format!("dump: {e}"))?;
    if guard.writes() > 0 { Err("the volume was written to".into()) } else { Ok(out) }
}

fn check(guard: &Arc<Guard>, out: &mut Salvaged) -> Result<(), String> {
    let options = CheckOptions { max_problems: 4, ..Default::default() };
    let full = segno_check::check(&**guard, &options, &mut |_| {});
    guard.verdict().map_err(|e| format!("check: {e}"))?;
    out.problems = full.map_or(0, |report| report.errors);
    guard.allow(STEPS);
    let _any = segno_check::check_quick(&**guard, &options);
    guard.verdict().map_err(|e| format!("quick check: {e}"))?;
    guard.allow(STEPS);
    Ok(())
}

fn files(guard: &Arc<Guard>, blocks: u64, out: &mut Salvaged) -> Result<(), String> {
    let (known_bad, stop) = (BadBlocks::default(), AtomicBool::new(false));
    let options = ScanOptions { threads: 1, known_bad: &known_bad, base: None, stop: &stop };
    let Ok(found) = scan(&**guard, &options, &|_| {}) else { return Ok(()) };
    let volume = Volume::find(&**guard, found, false);
    let tree = Tree::build(&volume);
    let verdicts = Verdicts::of(&volume, &tree, &mut |_, _| {});
    out.names = tree.entries.len();
    let mut records: Vec<u32> = tree.entries.iter().filter_map(|e| e.record).collect();
    records.sort_unstable();
    records.dedup();
    for record in records.into_iter().filter_map(|r| tree.record(r)) {
        let Some(f) = file::Opened::live(&volume, &record.node) else { continue };
        let _any = attrs::xattrs(&volume, &f);
        let allowed = |s: &file::Slot| !verdicts.is_foreign(s);
        out.bytes += read(&volume, &f, &allowed)?;
    }
    // A block has one owner. So all files together are no larger than the device, except for compressed and
    // inline data.
    let limit = blocks * 4096 * 8;
    if out.bytes > limit {
        return Err(format!("{} bytes came from {blocks} blocks", out.bytes));
    }
    if undelete::require(&volume).is_ok() {
        let dead = undelete::deleted(&volume, &tree);
        let proof = Proof::of(&volume, &dead, &mut |_, _| {});
        out.deleted = dead.len();
        for d in &dead {
            let _lost = undelete::describe(&volume, &tree, d, &proof);
            read(&volume, &d.file, &|s| proof.allows(&volume, d, s, true))?;
        }
    }
    Ok(())
}

fn read(volume: &Volume<'_>, f: &file::Opened, allowed: &dyn Fn(&file::Slot) -> bool) -> Result<u64, String> {
    let (mut bytes, size) = (0, f.raw().i_size.get());
    let mut behind = false;
    let done = content::read(volume, f, allowed, &mut |offset, part| {
        bytes += part.len() as u64;
        behind |= offset.saturating_add(part.len() as u64) > size;
        Ok(())
    });
    match (done, behind) {
        (Err(e), _) => Err(format!("a sink that never fails failed: {e}")),
        (Ok(_), true) => Err(format!("inode {} gave bytes behind its end", f.node.ino)),
        (Ok(_), false) => Ok(bytes),
    }
}

fn structures(guard: &Arc<Guard>, out: &mut Salvaged) {
    let device: Arc<dyn BlockDevice> = guard.clone();
    let Ok(shown) = segno_dump::Image::open(&device, &segno_dump::What::Chain) else { return };
    let more = (4..4 + SHOWN)
        .flat_map(|n| [format!("inode {n}"), format!("dentry {n}"), format!("owner {}", 9000 + 97 * n)]);
    for words in WHAT.iter().map(|w| (*w).to_owned()).chain(more) {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let Ok(what) = segno_dump::What::parse(&words, false, true) else { continue };
        if let Ok(value) = shown.show(&what) {
            out.shown += 1;
            let _infallible = segno_dump::print(&mut std::io::sink(), &value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::base;
    use super::*;
    use segno_engine::MountOptions;

    /// Includes compressed files, data that fsync wrote before the cut, and data on two devices.
    #[test]
    fn content_is_what_the_engine_reads() {
        for base in base::bases().unwrap().iter().filter(|b| b.name != "journal") {
            let device = MemDevice::from_snapshot(&base.image);
            let (known_bad, stop) = (BadBlocks::default(), AtomicBool::new(false));
            let found = scan(
                &device,
                &ScanOptions { threads: 1, known_bad: &known_bad, base: None, stop: &stop },
                &|_| {},
            )
            .unwrap();
            let volume = Volume::find(&device, found, false);
            let tree = Tree::build(&volume);
            let engine = Arc::new(MemDevice::from_snapshot(&base.image));
            let options = MountOptions { background: false, ..base.mount_options() };
            let mounted = segno_engine::Volume::mount(engine, options).unwrap();
            let mut compared = 0;
            for (at, e) in (0u32..).zip(&tree.entries) {
                let Some(record) = e.record.and_then(|r| tree.record(r)) else { continue };
                let ino = tree.components(at).into_iter().fold(mounted.root(), |dir, name| {
                    mounted.lookup(dir, name).unwrap_or_else(|e| panic!("{}: {e}", name.escape_ascii())).ino
                });
                assert_eq!(
                    (ino.0, e.guessed),
                    (record.node.nid, false),
                    "{}: {}",
                    base.name,
                    e.name.escape_ascii()
                );
                let f = file::Opened::live(&volume, &record.node).unwrap();
                if !f.raw().is_reg() {
                    continue;
                }
                let mut theirs = vec![0; 4096];
                content::read(&volume, &f, &|_| true, &mut |offset, part| {
                    theirs.resize(part.len(), 0);
                    mounted.read(ino, offset, &mut theirs).unwrap();
                    assert!(theirs == part, "{}: {} at {offset}", base.name, e.name.escape_ascii());
                    compared += part.len();
                    Ok(())
                })
                .unwrap();
            }
            assert!(compared > 4_000_000, "{}: {compared}", base.name);
        }
    }
}
