//! Volumes made by mkfs.f2fs and filled by sload.f2fs, read into memory.
use segno_check::{CheckOptions, Kind, Report, check};
use segno_device::{BlockDevice, FileDevice, MemDevice, OpenOptions, Snapshot};
use segno_format::Block;
use segno_testkit::f2fs_tools;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Most blocks copied in one go.
const RUN: u64 = 256;

/// Formats a sparse file.
pub fn mkfs(path: &Path, bytes: u64, args: &[&str]) {
    fs::File::create(path).unwrap().set_len(bytes).unwrap();
    f2fs_tools::succeed("mkfs.f2fs", &[&["-q", "-f"], args, &[path.to_str().unwrap()]].concat());
}

/// Copies a directory into a volume.
pub fn sload(path: &Path, source: &Path, args: &[&str]) {
    f2fs_tools::succeed(
        "sload.f2fs",
        &[&["-f", source.to_str().unwrap()], args, &[path.to_str().unwrap()]].concat(),
    );
}

/// A directory with something of everything that sload.f2fs can copy.
pub fn populate(dir: &Path) {
    fs::create_dir_all(dir.join("many")).unwrap();
    fs::create_dir_all(dir.join("sub/deep")).unwrap();
    for i in 0..700 {
        fs::write(dir.join(format!("many/file{i:05}")), [b'x'; 40]).unwrap();
    }
    fs::write(dir.join("small"), b"hello").unwrap();
    fs::write(dir.join("empty"), b"").unwrap();
    fs::write(dir.join("two"), [7; 8192]).unwrap();
    fs::write(dir.join("three"), [8; 12288]).unwrap();
    // More than the slots of an inode and two direct nodes.
    fs::write(dir.join("big"), vec![9; 4096 * 3000]).unwrap();
    fs::write(dir.join("sub/inner"), b"inner").unwrap();
    std::os::unix::fs::symlink("small", dir.join("link")).unwrap();
    std::os::unix::fs::symlink("t".repeat(4000), dir.join("longlink")).unwrap();
}

/// Reads an image file into memory.
pub fn load(path: &Path) -> Snapshot {
    let file = FileDevice::open(path, OpenOptions { read_only: true, direct: false }).unwrap();
    let mem = MemDevice::new(file.block_count());
    let mut buf = vec![Block::zeroed(); RUN as usize];
    for addr in (0..file.block_count()).step_by(RUN as usize) {
        let n = RUN.min(file.block_count() - addr) as usize;
        file.read(addr, &mut buf[..n]).unwrap();
        mem.write(addr, &buf[..n].iter().collect::<Vec<_>>()).unwrap();
    }
    mem.snapshot()
}

/// A filled volume with every feature that matters for the damage tests, made once.
pub fn filled() -> &'static Snapshot {
    static IMAGE: OnceLock<Snapshot> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let (source, image) = (dir.path().join("source"), dir.path().join("image"));
        fs::create_dir(&source).unwrap();
        populate(&source);
        let features = "extra_attr,inode_checksum,sb_checksum,compression,quota,lost_found,encrypt,casefold";
        mkfs(&image, 160 << 20, &["-O", features, "-C", "utf8"]);
        sload(&image, &source, &[]);
        load(&image)
    })
}

/// Checks a device with the default options.
pub fn report(device: &dyn BlockDevice) -> Report {
    check(device, &CheckOptions::default(), &mut |_| {}).unwrap()
}

/// The kinds of all problems, each once, in order.
pub fn kinds(report: &Report) -> Vec<Kind> {
    let mut kinds: Vec<_> = report.problems.iter().map(|p| p.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// The first things found, for messages.
pub fn text(report: &Report) -> String {
    report.problems.iter().take(12).map(|p| format!("{:?}: {p}\n", p.kind)).collect()
}
