//! Records to bytes. Integers are little-endian or unsigned LEB128; a record is a multiple of four bytes.
use super::{Attr, InodeNew, Map, Record, Run, Time};
use segno_format::Ino;

/// Type codes. The meaning of one never changes; a reader stops at one that it does not know.
pub(super) mod code {
    pub(crate) const INODE_NEW: u8 = 0x01;
    pub(crate) const ATTR: u8 = 0x02;
    pub(crate) const NLINK: u8 = 0x03;
    pub(crate) const INODE_FREE: u8 = 0x04;
    pub(crate) const DENTRY_ADD: u8 = 0x10;
    pub(crate) const DENTRY_DEL: u8 = 0x11;
    pub(crate) const DENTRY_SET: u8 = 0x12;
    pub(crate) const DOTDOT: u8 = 0x13;
    pub(crate) const DIR_TOUCH: u8 = 0x14;
    pub(crate) const MAP: u8 = 0x20;
    pub(crate) const PACKED: u8 = 0x21;
    pub(crate) const RESERVE: u8 = 0x22;
    pub(crate) const UNMAP: u8 = 0x23;
    pub(crate) const TRUNCATE: u8 = 0x24;
    pub(crate) const COLLAPSE: u8 = 0x25;
    pub(crate) const INSERT: u8 = 0x26;
    pub(crate) const COMPRESSION: u8 = 0x27;
    pub(crate) const RELEASED: u8 = 0x28;
    pub(crate) const INLINE_DATA: u8 = 0x30;
    pub(crate) const INLINE_OFF: u8 = 0x31;
    pub(crate) const XATTR_SET: u8 = 0x40;
    pub(crate) const XATTR_DEL: u8 = 0x41;
}

/// Flags of a record; what they say depends on its type.
pub(super) mod flag {
    /// A dentry record carries the hash of its name.
    pub(crate) const HASH: u8 = 1;
    /// A dentry record names its child's `i_pino` and `i_name`.
    pub(crate) const PRIMARY: u8 = 2;
    /// An inode without a link.
    pub(crate) const TMPFILE: u8 = 1;
    /// A new inode has a project id of its own.
    pub(crate) const PROJID: u8 = 2;
    /// A new inode is a device.
    pub(crate) const RDEV: u8 = 4;
    /// A map carries checksums.
    pub(crate) const CRCS: u8 = 1;
    /// A map of blocks that cleaning moved.
    pub(crate) const MOVED: u8 = 2;
    /// Compression is on; saved blocks are released.
    pub(crate) const ON: u8 = 1;
}

/// Runs in one record. What has more becomes several, so the length always fits.
pub(super) const MAX_RUNS: usize = 2048;
/// Checksums in one record.
pub(super) const MAX_CRCS: usize = 8192;

impl Record {
    /// Appends the record to `out`: one, or several for a map of many runs.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Map(map) => pieces(map).for_each(|piece| one(out, code::MAP, |out| map_body(out, &piece))),
            Self::Packed(map) => {
                pieces(map).for_each(|piece| one(out, code::PACKED, |out| map_body(out, &piece)));
            }
            other => one(out, other.code(), |out| other.body(out)),
        }
    }

    /// An upper bound for the bytes that [`Record::encode`] adds.
    #[must_use]
    pub fn encoded_bound(&self) -> usize {
        match self {
            // Length and type, and per run and checksum what LEB128 takes at most.
            Self::Map(m) | Self::Packed(m) => {
                (1 + m.runs.len() / MAX_RUNS + m.crcs.len() / MAX_CRCS) * 16
                    + m.runs.len() * 20
                    + m.crcs.len() * 4
            }
            Self::DentryAdd { name, .. } | Self::DentryDel { name, .. } | Self::DentrySet { name, .. } => {
                24 + name.len()
            }
            Self::InlineData { bytes, .. } => 16 + bytes.len(),
            Self::XattrSet { name, value, .. } => 16 + name.len() + value.len(),
            Self::XattrDel { name, .. } => 12 + name.len(),
            Self::InodeNew(_) => 60,
            Self::Attr(_) => 96,
            _ => 28,
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::InodeNew(_) => code::INODE_NEW,
            Self::Attr(_) => code::ATTR,
            Self::Nlink(_) => code::NLINK,
            Self::InodeFree => code::INODE_FREE,
            Self::DentryAdd { .. } => code::DENTRY_ADD,
            Self::DentryDel { .. } => code::DENTRY_DEL,
            Self::DentrySet { .. } => code::DENTRY_SET,
            Self::DotDot { .. } => code::DOTDOT,
            Self::DirTouch(_) => code::DIR_TOUCH,
            Self::Map(_) => code::MAP,
            Self::Packed(_) => code::PACKED,
            Self::Compression(_) => code::COMPRESSION,
            Self::Released(_) => code::RELEASED,
            Self::Reserve { .. } => code::RESERVE,
            Self::Unmap { .. } => code::UNMAP,
            Self::Truncate { .. } => code::TRUNCATE,
            Self::Collapse { .. } => code::COLLAPSE,
            Self::Insert { .. } => code::INSERT,
            Self::InlineData { .. } => code::INLINE_DATA,
            Self::InlineOff => code::INLINE_OFF,
            Self::XattrSet { .. } => code::XATTR_SET,
            Self::XattrDel { .. } => code::XATTR_DEL,
        }
    }

    /// Writes the body; returns the flags.
    fn body(&self, out: &mut Vec<u8>) -> u8 {
        match self {
            Self::InodeNew(new) => return inode_new(out, new),
            Self::Attr(attr) => attr_body(out, attr),
            Self::Nlink(delta) => out.extend(delta.to_le_bytes()),
            Self::InodeFree | Self::InlineOff => {}
            Self::DentryAdd { ino, file_type, hash, primary, name } => {
                put_ino(out, *ino);
                out.push(*file_type);
                return dentry(out, *hash, *primary, name);
            }
            Self::DentryDel { ino, hash, name } => {
                put_ino(out, *ino);
                return dentry(out, *hash, false, name);
            }
            Self::DentrySet { old, new, file_type, hash, primary, name } => {
                put_ino(out, *old);
                put_ino(out, *new);
                out.push(*file_type);
                return dentry(out, *hash, *primary, name);
            }
            Self::DotDot { parent } => put_ino(out, *parent),
            Self::DirTouch(time) => put_time(out, *time),
            Self::Map(map) | Self::Packed(map) => return map_body(out, map),
            Self::Compression(None) | Self::Released(false) => {}
            Self::Released(true) => return flag::ON,
            Self::Compression(Some(how)) => {
                out.extend([how.algorithm, how.log_cluster]);
                out.extend(how.flag.to_le_bytes());
                return flag::ON;
            }
            Self::Reserve { page, count }
            | Self::Unmap { page, count }
            | Self::Collapse { page, count }
            | Self::Insert { page, count } => {
                put_varint(out, *page);
                put_varint(out, *count);
            }
            Self::Truncate { size } => put_varint(out, *size),
            Self::InlineData { offset, bytes } => {
                out.extend(offset.to_le_bytes());
                put_bytes(out, bytes);
            }
            Self::XattrSet { index, name, value } => {
                out.push(*index);
                put_bytes(out, name);
                put_bytes(out, value);
            }
            Self::XattrDel { index, name } => {
                out.push(*index);
                put_bytes(out, name);
            }
        }
        0
    }
}

/// Writes header, body and padding of one record.
fn one(out: &mut Vec<u8>, code: u8, body: impl FnOnce(&mut Vec<u8>) -> u8) {
    let start = out.len();
    out.extend([code, 0, 0, 0]);
    let flags = body(out);
    out.resize(out.len().next_multiple_of(4), 0);
    // Nothing that the engine makes comes near 256 KiB: a value is at most a block, and maps are cut into pieces.
    let words = u16::try_from((out.len() - start) / 4).unwrap_or(u16::MAX);
    let [low, high] = words.to_le_bytes();
    if let Some(header) = out.get_mut(start..start + 4) {
        header.copy_from_slice(&[code, flags, low, high]);
    }
}

/// A map as records of bounded size; a run is cut where its checksums would not fit.
fn pieces(map: &Map) -> impl Iterator<Item = Map> + '_ {
    let most = if map.crcs.is_empty() { u32::MAX } else { MAX_CRCS as u32 };
    let mut crcs = map.crcs.iter().copied();
    let mut runs = map.runs.iter().flat_map(move |r| cut_run(*r, most)).peekable();
    std::iter::from_fn(move || {
        let mut piece = Map { runs: Vec::new(), crcs: Vec::new(), moved: map.moved };
        let mut pages = 0;
        while let Some(run) = runs.next_if(|r| {
            piece.runs.len() < MAX_RUNS
                && (map.crcs.is_empty() || pages + u64::from(r.count) <= MAX_CRCS as u64)
        }) {
            pages += u64::from(run.count);
            if !map.crcs.is_empty() {
                piece.crcs.extend(crcs.by_ref().take(run.count as usize));
            }
            piece.runs.push(run);
        }
        (!piece.runs.is_empty()).then_some(piece)
    })
}

fn cut_run(run: Run, most: u32) -> impl Iterator<Item = Run> {
    let mut rest = run;
    std::iter::from_fn(move || {
        let count = rest.count.min(most);
        let part = Run { count, ..rest };
        rest = Run {
            page: rest.page + u64::from(count),
            addr: rest.addr.offset(count),
            count: rest.count - count,
        };
        (count > 0).then_some(part)
    })
}

/// Runs as differences to the end of the run before.
fn map_body(out: &mut Vec<u8>, map: &Map) -> u8 {
    put_varint(out, map.runs.len() as u64);
    let (mut page, mut addr) = (0u64, 0u32);
    for run in &map.runs {
        put_varint(out, run.page.wrapping_sub(page));
        put_varint(out, zigzag(i64::from(run.addr.0) - i64::from(addr)));
        put_varint(out, run.count.into());
        page = run.page.wrapping_add(run.count.into());
        addr = run.addr.0.wrapping_add(run.count);
    }
    for crc in &map.crcs {
        out.extend(crc.to_le_bytes());
    }
    (if map.crcs.is_empty() { 0 } else { flag::CRCS }) | (if map.moved { flag::MOVED } else { 0 })
}

fn inode_new(out: &mut Vec<u8>, new: &InodeNew) -> u8 {
    out.extend(new.mode.to_le_bytes());
    out.extend([new.inline, new.advise]);
    for v in [new.uid, new.gid] {
        put_varint(out, v.into());
    }
    for v in [new.flags, new.generation, new.pino.0] {
        out.extend(v.to_le_bytes());
    }
    out.extend(new.inline_xattr_size.to_le_bytes());
    put_time(out, new.time);
    let mut flags = if new.tmpfile { flag::TMPFILE } else { 0 };
    for (value, flag) in [(new.projid, flag::PROJID), (new.rdev, flag::RDEV)] {
        if value != 0 {
            out.extend(value.to_le_bytes());
            flags |= flag;
        }
    }
    flags
}

fn attr_body(out: &mut Vec<u8>, a: &Attr) {
    let at = out.len();
    out.extend([0, 0]);
    let mut mask = 0u16;
    let mut bit = 1u16;
    let mut put = |out: &mut Vec<u8>, bytes: Option<&[u8]>| {
        if let Some(bytes) = bytes {
            out.extend(bytes);
            mask |= bit;
        }
        bit = bit.wrapping_shl(1);
    };
    put(out, a.mode.map(u16::to_le_bytes).as_ref().map(<[u8; 2]>::as_slice));
    for v in [a.uid, a.gid, a.projid, a.flags, a.pino.map(|p| p.0)] {
        put(out, v.map(u32::to_le_bytes).as_ref().map(<[u8; 4]>::as_slice));
    }
    put(out, a.size.map(u64::to_le_bytes).as_ref().map(<[u8; 8]>::as_slice));
    for t in [a.atime, a.mtime, a.ctime] {
        let bytes = t.map(|t| {
            let mut b = Vec::with_capacity(12);
            put_time(&mut b, t);
            b
        });
        put(out, bytes.as_deref());
    }
    for v in [a.advise, a.inline] {
        put(out, v.map(|v| [v]).as_ref().map(<[u8; 1]>::as_slice));
    }
    put(out, a.gc_failures.map(u16::to_le_bytes).as_ref().map(<[u8; 2]>::as_slice));
    if let Some(place) = out.get_mut(at..at + 2) {
        place.copy_from_slice(&mask.to_le_bytes());
    }
}

fn dentry(out: &mut Vec<u8>, hash: Option<u32>, primary: bool, name: &[u8]) -> u8 {
    if let Some(hash) = hash {
        out.extend(hash.to_le_bytes());
    }
    put_bytes(out, name);
    (if hash.is_some() { flag::HASH } else { 0 }) | (if primary { flag::PRIMARY } else { 0 })
}

fn put_ino(out: &mut Vec<u8>, ino: Ino) {
    out.extend(ino.0.to_le_bytes());
}

fn put_time(out: &mut Vec<u8>, time: Time) {
    out.extend(time.secs.to_le_bytes());
    out.extend(time.nsec.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)) as u64
}
