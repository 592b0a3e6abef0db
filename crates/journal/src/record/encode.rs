//! Records to bytes. Integers are little-endian or unsigned LEB128; a record is a multiple of four bytes.
use super::{Attr, InodeNew, Mapping, Record, Run, Time};
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

/// Flags of a record; their meaning depends on its type.
pub(super) mod flag {
    /// A dentry record carries the hash of its name.
    pub(crate) const HASH: u8 = 1;
    /// A dentry record names its child's `i_pino` and `i_name`.
    pub(crate) const PRIMARY: u8 = 2;
    /// An inode without a link.
    pub(crate) const TMPFILE: u8 = 1;
    /// A new inode has a project id.
    pub(crate) const PROJID: u8 = 2;
    /// A new inode is a device.
    pub(crate) const RDEV: u8 = 4;
    /// A mapping carries checksums.
    pub(crate) const CRCS: u8 = 1;
    /// A mapping of blocks that cleaning moved.
    pub(crate) const MOVED: u8 = 2;
    /// Compression is on; saved blocks are released.
    pub(crate) const ON: u8 = 1;
}

/// Maximum number of runs in one record. A longer mapping becomes several records, so the length always fits.
pub(super) const MAX_RUNS: usize = 2048;
/// Maximum number of checksums in one record.
pub(super) const MAX_CRCS: usize = 8192;

impl Record {
    /// Appends the record to `out`: one, or several for a mapping of many runs.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Map(mapping) => pieces(mapping).for_each(|piece| Self::Map(piece).encode_one(out)),
            Self::Packed(mapping) => pieces(mapping).for_each(|piece| Self::Packed(piece).encode_one(out)),
            other => other.encode_one(out),
        }
    }

    /// An upper bound for the bytes that [`Record::encode`] adds.
    #[must_use]
    pub fn encoded_bound(&self) -> usize {
        match self {
            // Length and type, the maximum of a run in LEB128, and the checksums.
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

    /// Writes header, body and padding.
    fn encode_one(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; 4]);
        let (code, flags) = self.body(out);
        out.resize(out.len().next_multiple_of(4), 0);
        // No record of the engine is near 256 KiB: a value is limited to a block, and mappings are cut into
        // pieces.
        let words = u16::try_from((out.len() - start) / 4).unwrap_or(u16::MAX);
        let [low, high] = words.to_le_bytes();
        if let Some(header) = out.get_mut(start..start + 4) {
            header.copy_from_slice(&[code, flags, low, high]);
        }
    }

    /// Writes the body; returns type and flags.
    fn body(&self, out: &mut Vec<u8>) -> (u8, u8) {
        match self {
            Self::InodeNew(new) => (code::INODE_NEW, inode_new(out, new)),
            Self::Attr(attr) => {
                attr_body(out, attr);
                (code::ATTR, 0)
            }
            Self::Nlink(delta) => {
                out.extend(delta.to_le_bytes());
                (code::NLINK, 0)
            }
            Self::InodeFree => (code::INODE_FREE, 0),
            Self::DentryAdd { ino, file_type, hash, primary, name } => {
                put_ino(out, *ino);
                out.push(*file_type);
                (code::DENTRY_ADD, dentry(out, *hash, *primary, name))
            }
            Self::DentryDel { ino, hash, name } => {
                put_ino(out, *ino);
                (code::DENTRY_DEL, dentry(out, *hash, false, name))
            }
            Self::DentrySet { old, new, file_type, hash, primary, name } => {
                put_ino(out, *old);
                put_ino(out, *new);
                out.push(*file_type);
                (code::DENTRY_SET, dentry(out, *hash, *primary, name))
            }
            Self::DotDot { parent } => {
                put_ino(out, *parent);
                (code::DOTDOT, 0)
            }
            Self::DirTouch(time) => {
                put_time(out, *time);
                (code::DIR_TOUCH, 0)
            }
            Self::Map(mapping) => (code::MAP, mapping_body(out, mapping)),
            Self::Packed(mapping) => (code::PACKED, mapping_body(out, mapping)),
            Self::Compression(None) => (code::COMPRESSION, 0),
            Self::Compression(Some(how)) => {
                out.extend([how.algorithm, how.log_cluster]);
                out.extend(how.flag.to_le_bytes());
                (code::COMPRESSION, flag::ON)
            }
            Self::Released(released) => (code::RELEASED, if *released { flag::ON } else { 0 }),
            Self::Reserve { page, count } => put_range(out, code::RESERVE, *page, *count),
            Self::Unmap { page, count } => put_range(out, code::UNMAP, *page, *count),
            Self::Collapse { page, count } => put_range(out, code::COLLAPSE, *page, *count),
            Self::Insert { page, count } => put_range(out, code::INSERT, *page, *count),
            Self::Truncate { size } => {
                put_varint(out, *size);
                (code::TRUNCATE, 0)
            }
            Self::InlineData { offset, bytes } => {
                out.extend(offset.to_le_bytes());
                put_bytes(out, bytes);
                (code::INLINE_DATA, 0)
            }
            Self::InlineOff => (code::INLINE_OFF, 0),
            Self::XattrSet { index, name, value } => {
                out.push(*index);
                put_bytes(out, name);
                put_bytes(out, value);
                (code::XATTR_SET, 0)
            }
            Self::XattrDel { index, name } => {
                out.push(*index);
                put_bytes(out, name);
                (code::XATTR_DEL, 0)
            }
        }
    }
}

/// A mapping as records of bounded size; a run is cut where its checksums would not fit.
fn pieces(mapping: &Mapping) -> impl Iterator<Item = Mapping> + '_ {
    let most = if mapping.crcs.is_empty() { u32::MAX } else { MAX_CRCS as u32 };
    let mut crcs = mapping.crcs.iter().copied();
    let mut runs = mapping.runs.iter().flat_map(move |r| cut_run(*r, most)).peekable();
    std::iter::from_fn(move || {
        let mut piece = Mapping { runs: Vec::new(), crcs: Vec::new(), moved: mapping.moved };
        let mut pages = 0;
        while let Some(run) = runs.next_if(|r| {
            piece.runs.len() < MAX_RUNS
                && (mapping.crcs.is_empty() || pages + u64::from(r.count) <= MAX_CRCS as u64)
        }) {
            pages += u64::from(run.count);
            if !mapping.crcs.is_empty() {
                piece.crcs.extend(crcs.by_ref().take(run.count as usize));
            }
            piece.runs.push(run);
        }
        (!piece.runs.is_empty()).then_some(piece)
    })
}

fn cut_run(run: Run, most: u32) -> impl Iterator<Item = Run> {
    (0..run.count).step_by(most as usize).map(move |done| Run {
        page: run.page + u64::from(done),
        addr: run.addr.offset(done),
        count: most.min(run.count - done),
    })
}

/// Runs as differences to the end of the run before.
fn mapping_body(out: &mut Vec<u8>, mapping: &Mapping) -> u8 {
    put_varint(out, mapping.runs.len() as u64);
    let (mut page, mut addr) = (0u64, 0u32);
    for run in &mapping.runs {
        put_varint(out, run.page.wrapping_sub(page));
        put_varint(out, zigzag(i64::from(run.addr.0) - i64::from(addr)));
        put_varint(out, run.count.into());
        page = run.page.wrapping_add(run.count.into());
        addr = run.addr.0.wrapping_add(run.count);
    }
    for crc in &mapping.crcs {
        out.extend(crc.to_le_bytes());
    }
    (if mapping.crcs.is_empty() { 0 } else { flag::CRCS }) | (if mapping.moved { flag::MOVED } else { 0 })
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
    let u16 = |v: Option<u16>| (v.map(u128::from), 2);
    let u32 = |v: Option<u32>| (v.map(u128::from), 4);
    let u8 = |v: Option<u8>| (v.map(u128::from), 1);
    let time =
        |t: Option<Time>| (t.map(|t| u128::from(t.secs.cast_unsigned()) | u128::from(t.nsec) << 64), 12);
    // Value and bytes of each field, in the order of the bits of the mask.
    let fields = [
        u16(a.mode),
        u32(a.uid),
        u32(a.gid),
        u32(a.projid),
        u32(a.flags),
        u32(a.pino.map(|p| p.0)),
        (a.size.map(u128::from), 8),
        time(a.atime),
        time(a.mtime),
        time(a.ctime),
        u8(a.advise),
        u8(a.inline),
        u16(a.gc_failures),
    ];
    let set = (0..).zip(&fields).filter(|(_, (value, _))| value.is_some());
    let mask = set.fold(0, |mask: u16, (bit, _)| mask | 1 << bit);
    out.extend(mask.to_le_bytes());
    for (value, bytes) in fields {
        out.extend(value.into_iter().flat_map(|v| v.to_le_bytes().into_iter().take(bytes)));
    }
}

fn dentry(out: &mut Vec<u8>, hash: Option<u32>, primary: bool, name: &[u8]) -> u8 {
    if let Some(hash) = hash {
        out.extend(hash.to_le_bytes());
    }
    put_bytes(out, name);
    (if hash.is_some() { flag::HASH } else { 0 }) | (if primary { flag::PRIMARY } else { 0 })
}

/// The body of a record that has only a range.
fn put_range(out: &mut Vec<u8>, code: u8, page: u64, count: u64) -> (u8, u8) {
    put_varint(out, page);
    put_varint(out, count);
    (code, 0)
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
