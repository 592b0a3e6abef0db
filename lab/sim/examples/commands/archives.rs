//! Archives: entries that unpack to much, headers with any value and right checksums, compressed or cut off.
use segno_testkit::archive::{Archive, seal_header};
use segno_testkit::{Rng, rng};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const BLOCK: usize = 512;
const KEYS: [&str; 14] = [
    "path",
    "linkpath",
    "size",
    "uid",
    "gid",
    "mtime",
    "hdrcharset",
    "GNU.sparse.major",
    "GNU.sparse.realsize",
    "GNU.sparse.map",
    "GNU.sparse.name",
    "SCHILY.xattr.user.x",
    "SCHILY.acl.access",
    "LIBARCHIVE.xattr.user.y",
];

pub fn make(seed: u64, number: u64, path: &Path) -> Result<(), String> {
    let mut rng = Rng::new(rng::mix(seed) ^ number);
    let mut bytes = (0..rng.between(1, 12)).fold(Archive::default(), |a, _| part(a, &mut rng)).finish();
    for _ in 0..rng.below(6).saturating_sub(3) {
        spoil(&mut bytes, &mut rng);
    }
    if rng.one_in(12) {
        bytes.truncate(rng.below(bytes.len() as u64) as usize);
    }
    let packer = [None, Some("gzip"), Some("zstd")][rng.below(3) as usize];
    match packer {
        None => std::fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display())),
        Some(packer) => pack(packer, &bytes, path),
    }
}

/// One more thing in an archive.
fn part(mut archive: Archive, rng: &mut Rng) -> Archive {
    let many = 1usize << rng.below(10);
    match rng.below(8) {
        0 => archive.files(many),
        1 => archive.deep(many, 1 << rng.below(15)),
        2 => archive.parts(many),
        3 => {
            let kind = if rng.one_in(2) { b'g' } else { b'x' };
            archive.extended(kind, &[(KEYS[rng.below(KEYS.len() as u64) as usize], value(rng))])
        }
        4 => {
            // Zeros that a compressor makes small.
            archive.entry("zeros", b'0', &vec![0; 1 << rng.between(10, 25)]);
            archive
        }
        5 => {
            // Long names and links of GNU tar, of any length.
            let kind = if rng.one_in(2) { b'L' } else { b'K' };
            archive.entry("././@LongLink", kind, &vec![b'n'; 1 << rng.below(20)]);
            archive
        }
        6 => {
            let kind = *b"0123456789SVMDNAgxX\0".get(rng.below(20) as usize).unwrap_or(&b'0');
            archive.entry("typed", kind, &vec![7; rng.below(3000) as usize]);
            archive
        }
        _ => {
            archive.entry("data", b'0', &vec![rng.draw() as u8; rng.below(100_000) as usize]);
            archive
        }
    }
}

fn value(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => "9".repeat(rng.between(1, 30) as usize),
        1 => format!("-{}", rng.draw()),
        2 => "../".repeat(rng.below(1000) as usize),
        3 => "x".repeat(1 << rng.below(20)),
        4 => (0..rng.below(2000)).map(|_| format!("{},", rng.draw() >> rng.below(64))).collect(),
        _ => String::new(),
    }
}

/// Sets bytes of a header; in most cases its checksum.
fn spoil(bytes: &mut [u8], rng: &mut Rng) {
    let blocks = bytes.len() / BLOCK;
    let headers: Vec<usize> =
        (0..blocks).filter(|i| bytes[i * BLOCK + 257..].starts_with(b"ustar")).collect();
    if headers.is_empty() {
        return;
    }
    let at = headers[rng.below(headers.len() as u64) as usize] * BLOCK;
    let header = &mut bytes[at..at + BLOCK];
    let field = [0, 100, 124, 124, 136, 156, 157, 257, 265, 345, 386, 482][rng.below(12) as usize];
    let len = 1 + rng.below(12) as usize;
    match rng.below(4) {
        0 => header[field..field + len].fill(b'7'),
        // A number in base 256.
        1 => {
            header[field] = 0x80;
            header[field + 1..field + 1 + len].fill(rng.draw() as u8);
        }
        2 => header[field..field + len].fill(0),
        _ => header[field..field + len].iter_mut().for_each(|b| *b = rng.draw() as u8),
    }
    if !rng.one_in(8) {
        seal_header(header);
    }
}

fn pack(packer: &str, bytes: &[u8], path: &Path) -> Result<(), String> {
    let text = |e: std::io::Error| format!("{packer}: {e}");
    let out = File::create(path).map_err(text)?;
    let mut child =
        Command::new(packer).args(["-1", "-c"]).stdin(Stdio::piped()).stdout(out).spawn().map_err(text)?;
    child.stdin.take().ok_or("no input of the compressor")?.write_all(bytes).map_err(text)?;
    match child.wait().map_err(text)?.success() {
        true => Ok(()),
        false => Err(format!("{packer} failed")),
    }
}
