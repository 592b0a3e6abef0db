//! Volumes made by mkfs.f2fs, filled by sload.f2fs.
use super::super::output;
use super::tree::{Tree, plant, tree};
use rustix::fs::{SeekFrom, seek};
use segno_testkit::f2fs_tools;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Options of both tools.
pub struct Set {
    pub name: &'static str,
    mkfs: &'static [&'static str],
    sload: &'static [&'static str],
    devices: usize,
    mib: u64,
}

const fn set(name: &'static str, mkfs: &'static [&'static str], sload: &'static [&'static str]) -> Set {
    Set { name, mkfs, sload, devices: 1, mib: 80 }
}

const EVERYTHING: &str = "extra_attr,inode_checksum,sb_checksum,inode_crtime,project_quota,quota,encrypt,verity,lost_found,\
                          compression,casefold";

/// Not flexible_inline_xattr: sload.f2fs 1.15 cuts the index of large files then. Nor `-c`, which Debian's has not.
pub const SETS: [Set; 16] = [
    set("plain", &[], &[]),
    set("extra", &["-O", "extra_attr"], &["-P"]),
    set("checksums", &["-O", "extra_attr,inode_checksum,sb_checksum"], &[]),
    set("times", &["-O", "extra_attr,inode_crtime"], &["-T", "1000000"]),
    set("quota", &["-O", "extra_attr,project_quota,quota"], &[]),
    set("casefold", &["-O", "casefold", "-C", "utf8"], &[]),
    set("compression", &["-O", "extra_attr,compression"], &[]),
    set("seed", &["-r", "-O", "sb_checksum"], &["-P"]),
    set("encrypt", &["-O", "encrypt,verity"], &[]),
    set("lost_found", &["-O", "lost_found"], &[]),
    Set { mib: 160, ..set("sections", &["-s", "2"], &[]) },
    Set { mib: 160, ..set("zones", &["-s", "2", "-z", "2", "-a", "0"], &[]) },
    set("provision", &["-o", "30", "-w", "4096", "-i", "-a", "1"], &[]),
    set("android", &["-g", "android"], &[]),
    Set { devices: 2, ..set("devices", &[], &[]) },
    set("everything", &["-O", EVERYTHING, "-C", "utf8"], &[]),
];

/// The pieces of a device that are not holes.
pub type Pieces = Vec<(u64, Vec<u8>)>;

pub fn pieces(path: &Path) -> Pieces {
    let file = std::fs::File::open(path).unwrap();
    let (mut out, mut end) = (Pieces::new(), 0);
    while let Ok(start) = seek(&file, SeekFrom::Data(end)) {
        end = seek(&file, SeekFrom::Hole(start)).unwrap();
        let mut piece = vec![0; (end - start) as usize];
        file.read_exact_at(&mut piece, start).unwrap();
        out.push((start, piece));
    }
    out
}

/// A volume and its files.
pub struct Volume {
    dir: tempfile::TempDir,
    pub devices: Vec<PathBuf>,
    pub files: Tree,
    pub deleted: Tree,
    /// It was not unmounted.
    pub crashed: bool,
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

impl Set {
    pub fn make(&self) -> Volume {
        let mut volume = Volume::empty(self.devices, self.mib);
        let others = volume.devices[1..].iter().flat_map(|path| ["-c", text(path)]);
        let args: Vec<&str> =
            ["-f", "-q"].into_iter().chain(self.mkfs.iter().copied()).chain(others).collect();
        f2fs_tools::succeed("mkfs.f2fs", &[&args[..], &[volume.first()]].concat());
        volume.load("tree", self.sload);
        volume
    }
}

impl Volume {
    fn empty(devices: usize, mib: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let device = |i| {
            let path = dir.path().join(format!("device-{i}"));
            std::fs::File::create(&path).unwrap().set_len(mib << 20).unwrap();
            path
        };
        let devices = (0..devices).map(device).collect();
        Self { dir, devices, files: Tree::new(), deleted: Tree::new(), crashed: false }
    }

    pub fn of_image(bytes: &[u8]) -> Self {
        let volume = Self::empty(1, 0);
        let file = std::fs::File::create(&volume.devices[0]).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
        for (i, piece) in bytes.chunks(4096).enumerate().filter(|(_, p)| p.iter().any(|b| *b != 0)) {
            file.write_all_at(piece, i as u64 * 4096).unwrap();
        }
        volume
    }

    pub fn of_segno() -> Self {
        let volume = Self::empty(1, 128);
        output(&["mkfs", "-q", "-f", volume.first()]);
        volume
    }

    pub fn first(&self) -> &str {
        text(&self.devices[0])
    }

    /// The first finding of fsck.f2fs.
    pub fn fsck(&self) -> Option<String> {
        f2fs_tools::fsck(&self.devices[0]).unwrap().verdict().err()
    }

    /// A path in the directory of the devices.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The content of the devices.
    pub fn snapshot(&self) -> Vec<Pieces> {
        self.devices.iter().map(|path| pieces(path)).collect()
    }

    pub fn restore(&self, snapshot: &[Pieces]) {
        for (path, pieces) in self.devices.iter().zip(snapshot) {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            let bytes = file.metadata().unwrap().len();
            file.set_len(0).unwrap();
            file.set_len(bytes).unwrap();
            pieces.iter().for_each(|(at, piece)| file.write_all_at(piece, *at).unwrap());
        }
    }

    pub fn add_by_segno(&mut self, top: &str) {
        let source = self.source(top);
        output(&["put", self.first(), text(&source.join(top)), "/"]);
    }

    pub fn add_by_sload(&mut self, top: &str) {
        self.load(top, &[]);
    }

    fn load(&mut self, top: &str, options: &[&str]) {
        let source = self.source(top);
        f2fs_tools::succeed("sload.f2fs", &[&["-f", text(&source)], options, &[self.first()]].concat());
    }

    /// A directory of the host with a further tree, which the volume is taken to have.
    fn source(&mut self, top: &str) -> PathBuf {
        let source = self.beside(&format!("source of {top}"));
        let more = tree(top);
        plant(&more, &source);
        self.files.extend(more);
        source
    }
}
