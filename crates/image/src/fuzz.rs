//! Fuzz targets: archives, and the lists that give files their metadata.
use crate::content::{Content, Place};
use crate::meta;
use crate::options::{BuildOptions, Metadata};
use crate::source::tar::{Spool, read};
use crate::tree::{Inode, Kind, Tree};
use crate::{Error, Result};
use flate2::write::GzEncoder;
use rustix::fs::{MemfdFlags, memfd_create};
use segno_format::dentry::FileType;
use segno_testkit::Rng;
use segno_testkit::fuzz::{Mutator, Outcome, Target};
use segno_testkit::memory::Counting;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Cursor, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const BLOCK: usize = 512;

/// Builds an archive, without checksums.
#[derive(Default)]
struct Archive(Vec<u8>);

impl Archive {
    fn entry(mut self, path: &str, kind: u8, link: &str, data: &[u8]) -> Self {
        let mut block = [0; BLOCK];
        let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
        put(0, path.as_bytes());
        put(100, b"0000644\x000000012\x000000034\x00");
        put(124, format!("{:011o}\0", data.len()).as_bytes());
        put(136, b"00000000144\0");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        put(329, b"0000001\x000000002\x00");
        self.0.extend_from_slice(&block);
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(BLOCK), 0);
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 2 * BLOCK]);
        self.0
    }
}

fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let len = (rest + 1..).find(|n| n - n.to_string().len() == rest).unwrap();
    format!("{len} {key}={value}\n")
}

fn archives() -> Vec<Vec<u8>> {
    let plain = Archive::default()
        .entry("dir/", b'5', "", b"")
        .entry("dir/file", b'0', "", &[7; 700])
        .entry("dir/hard", b'1', "dir/file", b"")
        .entry("dir/soft", b'2', "../target", b"")
        .entry("null", b'3', "", b"")
        .entry("loop", b'4', "", b"")
        .entry("fifo", b'6', "", b"");
    let long = "n".repeat(200);
    let gnu = Archive::default()
        .entry("././@LongLink", b'L', "", format!("long/{long}\0").as_bytes())
        .entry("././@LongLink", b'K', "", b"a/long/target\0")
        .entry("short", b'2', "t", b"");
    let records = [
        ("path", "pax/of/file"),
        ("mtime", "12.5"),
        ("uid", "70000"),
        ("SCHILY.xattr.user.name", "value"),
        ("SCHILY.acl.access", "user::rw-,user:5:r--,group::r--,mask::r--,other::---"),
        ("LIBARCHIVE.xattr.user.other", "dmFsdWU="),
    ];
    let records: String = records.iter().map(|(k, v)| record(k, v)).collect();
    let map = "2\n0\n512\n1536\n512\n";
    let sparse = [
        ("GNU.sparse.major", "1"),
        ("GNU.sparse.minor", "0"),
        ("GNU.sparse.name", "holes"),
        ("GNU.sparse.realsize", "2048"),
    ];
    let sparse: String = sparse.iter().map(|(k, v)| record(k, v)).collect();
    let mut data = map.as_bytes().to_vec();
    data.resize(BLOCK, 0);
    data.resize(BLOCK + 1024, 5);
    let pax = Archive::default()
        .entry("g", b'g', "", record("gname", "staff").as_bytes())
        .entry("x", b'x', "", records.as_bytes())
        .entry("file", b'0', "", b"data")
        .entry("x", b'x', "", sparse.as_bytes())
        .entry("GNUSparseFile/holes", b'0', "", &data);
    let mut old = Archive::default().entry("old", b'S', "", &[3; 1024]);
    for (at, text) in [
        (386, "00000000000\0"),
        (398, "00000001000\0"),
        (410, "00000003000\0"),
        (422, "00000001000\0"),
        (483, "00000004000\0"),
    ] {
        old.0[at..at + 12].copy_from_slice(text.as_bytes());
    }
    old.0[257..265].copy_from_slice(b"ustar  \0");
    [plain, gnu, pax, old].map(Archive::end).to_vec()
}

/// Makes the checksum right of every block that begins like a header.
fn fixup(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for block in bytes.chunks_exact_mut(BLOCK).filter(|b| b[257..262] == *b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    if rng.one_in(8) {
        let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).unwrap();
        *bytes = packed.finish().unwrap();
        if rng.one_in(4) {
            let at = rng.index(bytes.len());
            bytes[at] = rng.draw() as u8;
        }
    }
}

/// Bytes as a file of the host.
struct Hosted(File);

impl Hosted {
    fn new(bytes: &[u8]) -> Self {
        let file = File::from(memfd_create("input", MemfdFlags::CLOEXEC).unwrap());
        file.write_all_at(bytes, 0).unwrap();
        Self(file)
    }

    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

/// Size and extents of a file. The extents must be within the archive.
fn extents(content: &Content) -> std::result::Result<String, String> {
    let Place::Archive(pieces) = &content.place else { return Err("data that is in no archive".into()) };
    let (end, mut at) = (pieces.archive.metadata().map_err(|e| e.to_string())?.len(), 0);
    for extent in &pieces.extents {
        if extent.start < at || extent.start.checked_add(extent.len).is_none_or(|to| to > content.size) {
            return Err(format!("an extent at {} of {} bytes", extent.start, content.size));
        }
        if extent.at.checked_add(extent.len).is_none_or(|to| to > end) {
            return Err(format!("an extent that is behind the end {end} of the archive"));
        }
        at = extent.start + extent.len;
    }
    let extents: Vec<(u64, u64)> = pieces.extents.iter().map(|p| (p.start, p.len)).collect();
    Ok(format!("{} {extents:?}", content.size))
}

/// The whole tree as text, after a check of its references.
fn listed(tree: &Tree) -> std::result::Result<String, String> {
    let mut text = String::new();
    let mut directories = vec![0; tree.inodes.len()];
    for inode in &tree.inodes {
        let what = match &inode.kind {
            Kind::Directory(names) => {
                for (name, to) in names {
                    let is_special =
                        name.is_empty() || matches!(&**name, b"." | b"..") || name.contains(&b'/');
                    if is_special || name.len() > 255 || name.contains(&0) || *to >= tree.inodes.len() {
                        return Err(format!("the name {} leads to {to}", name.escape_ascii()));
                    }
                    directories[*to] += usize::from(tree.inodes[*to].kind.is_dir());
                }
                format!("{names:?}")
            }
            Kind::File(content) => extents(content)?,
            other => format!("{other:?}"),
        };
        let _infallible = writeln!(
            text,
            "{what} {:o} {} {} {:?} {:?}",
            inode.mode, inode.uid, inode.gid, inode.time, inode.xattrs
        );
    }
    if directories.iter().any(|names| *names > 1) || directories.first() == Some(&1) {
        return Err("a directory has two names".into());
    }
    Ok(text)
}

/// As a file and as a stream an archive gives the same tree, or neither gives one.
fn archive(bytes: &[u8]) -> Outcome {
    let options = BuildOptions::default();
    let hosted = Hosted::new(bytes);
    let as_file = Spool::open(&hosted.path()).and_then(|s| read(s, &options));
    let as_stream =
        Spool::of_stream("archive", Box::new(Cursor::new(bytes.to_vec()))).and_then(|s| read(s, &options));
    match (&as_file, &as_stream) {
        (Ok(one), Ok(other)) if listed(one)? == listed(other)? => Ok(true),
        (Ok(_), Ok(_)) => Err("a file and a stream give different trees".into()),
        (Err(Error::Archive { number, why, .. }), Err(_)) => {
            Ok(*number > 1 || !why.contains("checksum of the header"))
        }
        (Err(_), Err(_)) => Ok(false),
        (one, other) => {
            Err(format!("as a file {:?}, as a stream {:?}", one.as_ref().err(), other.as_ref().err()))
        }
    }
}

#[test]
fn fuzz_archives() {
    let words: &[&[u8]] = &[
        b"../",
        b"/",
        b"0",
        b"7777777\0",
        b"\x80",
        b"\xff",
        b"path=",
        b"GNU.sparse.",
        b"ustar  \0",
        b"L",
        b"x",
        b"g",
    ];
    let mutator = Mutator { seeds: archives(), words, resized: 6, fixup: &fixup, ..Mutator::default() };
    let target = Target {
        name: "archives",
        runs: 1_500,
        draw: &|rng| mutator.draw(rng),
        run: &|i: &Vec<u8>| archive(i),
    };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}

fn lists() -> Vec<Vec<u8>> {
    let all = [
        "# table\n/dev d 755 0 0 - - - - -\n/dev/null c 666 0 0 1 3 0 0 -\n/dev/tty c 666 0 5 4 0 0 1 4\n/a f 4755 0 0\n|xattr cap_net_raw+ep\n",
        "a 0 2000 0755\n / 0 0 755 selabel=u:object_r:x:s0\n/d/b 70000 4294967295 4711 capabilities=0x1400\na\\040b 0 0 644\n",
        "/ u:object_r:root:s0\n/d(/.*)? u:object_r:d:s0\n/a -- u:object_r:a:s0\n/.*\\.so <<none>>\n/[a-z]+ -d x\n",
        "# rules\n^a$ compress=lz4 cluster=3\n.* flags=+A-d project=7\n^d/ compress=none\n",
        "{\"path\":\"a\",\"type\":\"file\",\"mode\":420,\"uid\":0,\"gid\":5,\"mtime\":[5,7],\"xattrs\":{\"user.x\":\"dmFs\"},\"flags\":16}\n\
         {\"path\":\"n\",\"type\":\"char device\",\"mode\":384,\"uid\":0,\"gid\":0,\"mtime\":[0,0],\"device\":[1,3]}\n\
         {\"path\":\"d\\\\057b\",\"host\":\"d/b\",\"type\":\"file\",\"mode\":0,\"uid\":0,\"gid\":0,\"mtime\":[0,0],\"link\":\"a\"}\n",
    ];
    (0u8..).zip(all).map(|(kind, text)| [&[kind], text.as_bytes()].concat()).collect()
}

/// A directory with a file, and one in the root.
fn tree() -> Result<Tree> {
    let mut tree = Tree::default();
    let time = Default::default();
    let pipe = || Kind::Special { kind: FileType::Fifo, numbers: (0, 0) };
    let root = tree.add(Inode::directory(0o755, time));
    let dir = tree.add(Inode::directory(0o755, time));
    tree.link(root, b"d", dir)?;
    for (parent, name) in [(root, &b"a"[..]), (dir, b"b"), (dir, b"x.so")] {
        let file = tree.add(Inode::new(pipe(), 0o644, time));
        tree.link(parent, name, file)?;
    }
    tree.in_order()
}

/// The tree that a list makes is the same each time, and its references lead to inodes.
fn list(input: &[u8]) -> Outcome {
    let (kind, text) = input.split_first().unwrap_or((&0, &[]));
    let hosted = Hosted::new(text);
    let mut metadata = Metadata {
        fs_config_default: Some((0, 0, 0o755, 0o644)),
        allow_unlabeled: true,
        ..Metadata::default()
    };
    let files = vec![hosted.path()];
    match kind {
        0 => metadata.device_tables = files,
        1 => metadata.fs_config = files,
        2 => metadata.file_contexts = files,
        3 => metadata.rules = files,
        _ => metadata.manifest = files.into_iter().next(),
    }
    let options = BuildOptions { metadata, ..BuildOptions::default() };
    let made = || {
        let mut tree = tree()?;
        meta::apply(&mut tree, &options).map(|_| listed(&tree))
    };
    match (made(), made()) {
        (Ok(Err(why)), _) => Err(why),
        (Ok(one), Ok(other)) if one == other => Ok(true),
        (Err(Error::Line { line, .. }), Err(_)) => Ok(line > 1),
        (Err(_), Err(_)) => Ok(true),
        (one, other) => Err(format!("once {:?}, and then {:?}", one.err(), other.err())),
    }
}

#[test]
fn fuzz_lists() {
    let words: &[&[u8]] = &[
        b" ",
        b"\n",
        b"/",
        b"-",
        b"..",
        b"4294967295",
        b"0777",
        b"(",
        b"*",
        b"{9999}",
        b"\\134",
        b"\"",
        b"null",
        b"=",
        b"lz4",
    ];
    let mutator = Mutator { seeds: lists(), words, resized: 2, kept: 1, ..Mutator::default() };
    let target =
        Target { name: "lists", runs: 1_500, draw: &|rng| mutator.draw(rng), run: &|i: &Vec<u8>| list(i) };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}
