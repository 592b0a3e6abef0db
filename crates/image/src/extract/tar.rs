//! Writes a tree as a tar archive: ustar headers, and extended ones where those do not suffice. Equal trees
//! give equal archives.
use super::{Extracted, Found, names_of};
use crate::content::Content;
use crate::tree::{Index, Inode, Kind, Tree, path_of};
use crate::{Error, Progress, Result};
use segno_format::dentry::FileType;
use segno_format::inode::InodeFlags;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

const BLOCK: usize = 512;
const BUFFER: usize = 1 << 20;
/// Holes are looked for in units of a block of the volume.
const UNIT: u64 = 4096;
/// Numbers that fit into seven and eleven octal digits.
const SMALL: u64 = 1 << 21;
const LARGE: u64 = 1 << 33;
const NAME: usize = 100;

/// Writes everything.
pub(super) fn write(
    tree: &Tree,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Extracted> {
    let mut writer =
        Writer { tree, out, first: HashMap::new(), done: Extracted::default(), buffer: vec![0; BUFFER] };
    for found in names_of(tree)? {
        writer.one(&found)?;
        let path = || path_of(&found.path);
        progress(Progress { path: &path, files: writer.done.files, bytes: writer.done.bytes });
    }
    writer.put(&[0; 2 * BLOCK])?;
    writer.out.flush().map_err(failed)?;
    Ok(writer.done)
}

fn failed(e: std::io::Error) -> Error {
    Error::host("write", Path::new("the archive"), e)
}

/// The fields of a header.
#[derive(Default)]
struct Header {
    path: Vec<u8>,
    link: Vec<u8>,
    kind: u8,
    size: u64,
    numbers: (u32, u32),
    /// Records of an extended header in front.
    records: Vec<(Vec<u8>, Vec<u8>)>,
}

struct Writer<'a> {
    tree: &'a Tree,
    out: &'a mut dyn Write,
    /// First paths of files with several names.
    first: HashMap<Index, Vec<u8>>,
    done: Extracted,
    buffer: Vec<u8>,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(failed)
    }

    fn one(&mut self, found: &Found) -> Result<()> {
        let inode = self.tree.get(found.index)?;
        let mut header = Header { path: shown(&found.path, inode), ..Header::default() };
        if let Some(first) = self.first.get(&found.index) {
            (header.kind, header.link) = (b'1', first.clone());
            return self.header(inode, header);
        }
        if !inode.kind.is_dir() {
            self.first.insert(found.index, header.path.clone());
        }
        self.done.files += 1;
        self.done.incomplete += u64::from(inode.flags != InodeFlags::empty() || inode.projid != 0);
        for (name, value) in &inode.xattrs {
            header.records.push(([b"SCHILY.xattr.", &name[..]].concat(), value.clone()));
        }
        match &inode.kind {
            Kind::Directory(_) => header.kind = b'5',
            Kind::Symlink(target) => (header.kind, header.link) = (b'2', target.to_vec()),
            Kind::Special { kind, numbers } => {
                header.numbers = *numbers;
                header.kind = match kind {
                    FileType::CharDevice => b'3',
                    FileType::BlockDevice => b'4',
                    FileType::Fifo => b'6',
                    _ => {
                        let why = "tar archives have no sockets; extract to a directory";
                        return Err(Error::entry(path_of(&found.path), why));
                    }
                };
            }
            Kind::File(content) => return self.file(inode, content, header),
        }
        self.header(inode, header)
    }

    fn file(&mut self, inode: &Inode, content: &Content, mut header: Header) -> Result<()> {
        let reading = content.open()?;
        let extents = extents(&reading, content.size)?;
        header.kind = b'0';
        let whole = [(0, content.size)];
        let (extents, list) = if extents[..] == whole || content.size == 0 {
            (whole.to_vec(), Vec::new())
        } else {
            for (key, value) in [("major", "1"), ("minor", "0"), ("realsize", &content.size.to_string())] {
                header.records.push((format!("GNU.sparse.{key}").into_bytes(), value.as_bytes().to_vec()));
            }
            header.records.push((b"GNU.sparse.name".to_vec(), header.path.clone()));
            (extents.clone(), list(&extents))
        };
        let stored: u64 = extents.iter().map(|(_, len)| len).sum();
        header.size = stored + list.len() as u64;
        self.header(inode, header)?;
        self.put(&list)?;
        for (start, len) in extents {
            let (mut at, end) = (start, start + len);
            while at < end {
                let len = usize::try_from(end - at).map_or(BUFFER, |n| n.min(BUFFER));
                let part = self.buffer.get_mut(..len).unwrap_or_default();
                reading.read(part, at)?;
                self.out.write_all(part).map_err(failed)?;
                at += len as u64;
                self.done.bytes += len as u64;
            }
        }
        let padding = stored.next_multiple_of(BLOCK as u64) - stored;
        self.put([0; BLOCK].get(..padding as usize).unwrap_or_default())
    }

    fn header(&mut self, inode: &Inode, mut header: Header) -> Result<()> {
        let text = |n: u64| n.to_string().into_bytes();
        let mut extra = |needed: bool, key: &str, value: Vec<u8>| {
            if needed {
                header.records.push((key.as_bytes().to_vec(), value));
            }
        };
        extra(header.path.len() > NAME, "path", header.path.clone());
        extra(header.link.len() > NAME, "linkpath", header.link.clone());
        extra(header.size >= LARGE, "size", text(header.size));
        extra(u64::from(inode.uid) >= SMALL, "uid", text(inode.uid.into()));
        extra(u64::from(inode.gid) >= SMALL, "gid", text(inode.gid.into()));
        let secs = u64::try_from(inode.time.secs).ok().filter(|s| *s < LARGE);
        extra(secs.is_none() || inode.time.nsec != 0, "mtime", time(inode));
        if !header.records.is_empty() {
            header.records.sort_unstable();
            let records: Vec<u8> = header.records.iter().flat_map(|(k, v)| record(k, v)).collect();
            let front = Header {
                path: b"././@PaxHeader".to_vec(),
                kind: b'x',
                size: records.len() as u64,
                ..Header::default()
            };
            self.put(&block(&front, &[0o644, 0, 0, 0]))?;
            self.put(&records)?;
            let padding = records.len().next_multiple_of(BLOCK) - records.len();
            self.put([0; BLOCK].get(..padding).unwrap_or_default())?;
        }
        let numbers = [inode.mode.into(), inode.uid.into(), inode.gid.into(), secs.unwrap_or(0)];
        self.put(&block(&header, &numbers))
    }
}

/// The path in the archive.
fn shown(path: &[u8], inode: &Inode) -> Vec<u8> {
    let end: &[u8] = if inode.kind.is_dir() { b"/" } else { b"" };
    if path.is_empty() { b"./".to_vec() } else { [b"./", path, end].concat() }
}

/// Seconds, with a fraction if there is one.
fn time(inode: &Inode) -> Vec<u8> {
    let (secs, nsec) = (inode.time.secs, inode.time.nsec);
    let text = if nsec == 0 {
        secs.to_string()
    } else if secs < 0 {
        // The fraction counts away from zero.
        let whole = secs + 1;
        let sign = if whole == 0 { "-" } else { "" };
        format!("{sign}{whole}.{:09}", 1_000_000_000 - nsec)
    } else {
        format!("{secs}.{nsec:09}")
    };
    text.into_bytes()
}

/// `LENGTH KEY=VALUE`, where the length counts itself.
fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    [format!("{len} ").as_bytes(), key, b"=", value, b"\n"].concat()
}

/// A header block. Numbers: mode, user, group, time.
fn block(header: &Header, numbers: &[u64; 4]) -> [u8; BLOCK] {
    let mut out = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| {
        out.iter_mut().skip(at).zip(bytes).for_each(|(to, from)| *to = *from);
    };
    let octal = |n: u64, digits: usize, limit: u64| {
        let n = if n < limit { n } else { 0 };
        format!("{n:0digits$o}\0").into_bytes()
    };
    let [mode, uid, gid, mtime] = *numbers;
    put(0, header.path.get(..NAME.min(header.path.len())).unwrap_or_default());
    put(100, &octal(mode, 7, SMALL));
    put(108, &octal(uid, 7, SMALL));
    put(116, &octal(gid, 7, SMALL));
    put(124, &octal(header.size, 11, LARGE));
    put(136, &octal(mtime, 11, LARGE));
    put(148, b"        ");
    put(156, &[header.kind]);
    put(157, header.link.get(..NAME.min(header.link.len())).unwrap_or_default());
    put(257, b"ustar\x0000");
    let (major, minor) = header.numbers;
    put(329, &octal(major.into(), 7, SMALL));
    put(337, &octal(minor.into(), 7, SMALL));
    let sum: u64 = out.iter().map(|&b| u64::from(b)).sum();
    let sum = format!("{sum:06o}\0 ");
    out.iter_mut().skip(148).zip(sum.bytes()).for_each(|(to, from)| *to = from);
    out
}

/// Where a file has data, in whole units.
fn extents(reading: &crate::content::Reading, size: u64) -> Result<Vec<(u64, u64)>> {
    let mut extents: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    while let Some(data) = reading.next_data(at)? {
        let start = data / UNIT * UNIT;
        let end = reading.next_hole(start)?.next_multiple_of(UNIT).min(size);
        match extents.last_mut() {
            Some((first, len)) if *first + *len == start => *len = end - *first,
            _ => extents.push((start, end - start)),
        }
        at = end;
    }
    // The end of the list is the end of the file.
    if extents.last().is_none_or(|(start, len)| start + len < size) {
        extents.push((size, 0));
    }
    Ok(extents)
}

/// The list in front of the data of a sparse file, padded to whole blocks.
fn list(extents: &[(u64, u64)]) -> Vec<u8> {
    let mut text = format!("{}\n", extents.len());
    for (start, len) in extents {
        text.push_str(&format!("{start}\n{len}\n"));
    }
    let mut bytes = text.into_bytes();
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_count_their_own_length() {
        assert_eq!(record(b"path", b"a=b"), b"12 path=a=b\n");
        // A third digit makes the record longer by one more.
        assert!(record(b"a", &[b'x'; 93]).starts_with(b"99 a=x"));
        assert!(record(b"a", &[b'x'; 94]).starts_with(b"101 a=x"));
        assert_eq!([93, 94].map(|n| record(b"a", &vec![b'x'; n]).len()), [99, 101]);
    }
}
