//! One entry of an archive: its header combined with the extended headers.
use super::header::{GnuSparse, Header};
use super::pax::{self, Records, decimal};
use segno_engine::Time;
use std::collections::BTreeMap;

/// Keys without information on the file, or with information that images do not store by design.
const IGNORED: [&[u8]; 15] = [
    b"atime",
    b"ctime",
    b"comment",
    b"uname",
    b"gname",
    b"charset",
    b"LIBARCHIVE.creationtime",
    b"LIBARCHIVE.symlinktype",
    b"SCHILY.dev",
    b"SCHILY.ino",
    b"SCHILY.nlink",
    b"SCHILY.filetype",
    b"SCHILY.devmajor",
    b"SCHILY.devminor",
    b"SCHILY.realsize",
];
const XATTR: &[u8] = b"SCHILY.xattr.";
const ENCODED_XATTR: &[u8] = b"LIBARCHIVE.xattr.";
const SPARSE: &[u8] = b"GNU.sparse.";

/// Bytes of names and values of the extended attributes of a file. A volume has room for less.
const XATTRS_MAX: usize = 16 << 10;

/// Whether a record is left out.
pub(crate) fn is_ignored(key: &[u8]) -> bool {
    IGNORED.contains(&key)
}

/// Whether a record makes no sense for several files.
pub(crate) fn is_of_one_file(key: &[u8]) -> bool {
    matches!(key, b"path" | b"linkpath" | b"size") || key.starts_with(SPARSE)
}

/// How the data of a sparse file is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sparse {
    /// In the header and the blocks after it.
    Gnu(GnuSparse),
    /// Extents that are known already, and the size of the file.
    Extents(Vec<(u64, u64)>, u64),
    /// The data begins with the list of extents; the size of the file.
    InData(u64),
}

/// An entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) header: Header,
    pub(crate) time: Time,
    pub(crate) sparse: Option<Sparse>,
    /// Full names and values in the form of getxattr(2).
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Entry {
    /// Combines a header, the global records and the entry's own records; the header already has a name from
    /// a preceding GNU header.
    pub(crate) fn new(mut header: Header, global: &Records, records: &Records) -> Result<Self, String> {
        let time = Time { secs: header.mtime, nsec: 0 };
        let sparse = header.sparse.take().map(Sparse::Gnu);
        let mut entry = Self { header, time, sparse, ..Self::default() };
        for records in [global, records] {
            let earlier = std::mem::take(&mut entry.xattrs);
            for (key, value) in records {
                entry.record(key, value)?;
            }
            for (name, value) in earlier {
                entry.xattrs.entry(name).or_insert(value);
            }
        }
        let bytes: usize = entry.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > XATTRS_MAX {
            let path = String::from_utf8_lossy(&entry.header.path);
            return Err(format!(
                "{path} has {bytes} bytes of extended attributes, more than a volume has room for"
            ));
        }
        if records.keys().any(|k| k.starts_with(SPARSE)) {
            entry.sparse = Some(of_records(records)?);
            if let Some(name) = records.get(&b"GNU.sparse.name"[..]) {
                entry.header.path.clone_from(name);
            }
        }
        Ok(entry)
    }

    fn record(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let bad = || format!("{} is {:?}", String::from_utf8_lossy(key), String::from_utf8_lossy(value));
        match key {
            b"path" => self.header.path = value.to_vec(),
            b"linkpath" => self.header.link = value.to_vec(),
            b"size" => self.header.size = decimal(value).ok_or_else(bad)?,
            b"uid" => self.header.uid = decimal(value).ok_or_else(bad)?,
            b"gid" => self.header.gid = decimal(value).ok_or_else(bad)?,
            b"mtime" => self.time = pax::time(value).ok_or_else(bad)?,
            b"hdrcharset" if [&b"BINARY"[..], b"ISO-IR 10646 2000 UTF-8"].contains(&value) => {}
            b"RHT.security.selinux" => {
                let label = value.strip_suffix(b"\0").unwrap_or(value);
                self.xattrs.insert(b"security.selinux".to_vec(), label.to_vec());
            }
            b"SCHILY.acl.access" | b"SCHILY.acl.default" => {
                let name = if key.ends_with(b"access") { "access" } else { "default" };
                let name = format!("system.posix_acl_{name}").into_bytes();
                self.xattrs.insert(name, super::acl::parse(value)?);
            }
            _ => {
                if let Some(name) = key.strip_prefix(XATTR) {
                    self.xattrs.insert(name.to_vec(), value.to_vec());
                } else if let Some(name) = key.strip_prefix(ENCODED_XATTR) {
                    let name = percent(name).ok_or_else(bad)?;
                    // The plain form, if both are there.
                    let value = base64(value).ok_or_else(bad)?;
                    self.xattrs.entry(name).or_insert(value);
                } else if !key.starts_with(SPARSE) {
                    return Err(format!(
                        "extended header {} is not supported; --ignore-header leaves it out",
                        bad()
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The three forms of GNU.sparse: pairs of records, one list, or a list in the data.
fn of_records(records: &Records) -> Result<Sparse, String> {
    let get = |key: &[u8]| records.get(&[SPARSE, key].concat());
    let number = |key: &[u8]| get(key).and_then(|v| decimal::<u64>(v));
    if get(b"major").is_some_and(|v| v == b"1") {
        let size = number(b"realsize").ok_or("a sparse file has no GNU.sparse.realsize")?;
        return Ok(Sparse::InData(size));
    }
    let size =
        number(b"size").or_else(|| number(b"realsize")).ok_or("a sparse file has no GNU.sparse.size")?;
    let map = get(b"map").ok_or("a sparse file has no GNU.sparse.map")?;
    let numbers: Option<Vec<u64>> = map.split(|&b| b == b',').map(decimal).collect();
    let numbers = numbers.ok_or("GNU.sparse.map is no list of numbers")?;
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("GNU.sparse.map has an odd number of numbers".into());
    }
    Ok(Sparse::Extents(pairs.iter().map(|&[offset, len]| (offset, len)).collect(), size))
}

/// A name with `%XX`.
fn percent(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let (hex, behind) = tail.split_at_checked(2)?;
            out.push(u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?);
            rest = behind;
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

/// Base 64 with or without padding.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    let end = text.iter().rposition(|&b| b != b'=' && !b.is_ascii_whitespace()).map_or(0, |i| i + 1);
    STANDARD_NO_PAD.decode(text.get(..end)?).ok()
}
