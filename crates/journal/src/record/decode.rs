//! Bytes to records. Total: any bytes give records or an error, and take no more memory than a few times
//! their length.
use super::encode::{MAX_CRCS, MAX_RUNS, code, flag};
use super::{Attr, Compression, InodeNew, Mapping, Record, Run, Time};
use crate::bytes::Bytes;
use segno_format::xattr::index;
use segno_format::{BlockAddr, Ino, NAME_MAX};

/// Reason why bytes are not a record.
pub(super) type Bad = &'static str;

impl<'a, B: From<&'a [u8]>> Record<B> {
    /// Takes one record off the front of `bytes`.
    pub fn decode(bytes: &mut &'a [u8]) -> Result<Self, Bad> {
        let header = bytes.first_chunk::<4>().ok_or("record header is cut off")?;
        let [code, flags, low, high] = *header;
        let len = usize::from(u16::from_le_bytes([low, high])) * 4;
        let record =
            bytes.get(4..len).ok_or("record is longer than its section, or shorter than its header")?;
        *bytes = bytes.get(len..).unwrap_or_default();
        let mut body = Bytes(record);
        let decoded = parse(code, flags, &mut body)?;
        let rest = body.0;
        if rest.len() >= 4 || rest.iter().any(|&b| b != 0) {
            Err("bytes behind a record's body")
        } else {
            Ok(decoded)
        }
    }
}

fn parse<'a, B: From<&'a [u8]>>(kind: u8, flags: u8, b: &mut Bytes<'a>) -> Result<Record<B>, Bad> {
    let known = match kind {
        code::INODE_NEW => flag::TMPFILE | flag::PROJID | flag::RDEV,
        code::DENTRY_ADD | code::DENTRY_SET => flag::HASH | flag::PRIMARY,
        code::DENTRY_DEL => flag::HASH,
        code::MAP => flag::CRCS | flag::MOVED,
        code::PACKED => flag::CRCS,
        code::COMPRESSION | code::RELEASED => flag::ON,
        _ => 0,
    };
    if flags & !known != 0 {
        return Err("unknown flag of a record");
    }
    Ok(match kind {
        code::INODE_NEW => Record::InodeNew(inode_new(flags, b)?),
        code::ATTR => Record::Attr(attr(b)?),
        code::NLINK => Record::Nlink(b.u32()? as i32),
        code::INODE_FREE => Record::InodeFree,
        code::DENTRY_ADD => {
            let (ino, file_type) = (b.ino()?, b.u8()?);
            let (hash, name) = dentry(flags, b)?;
            Record::DentryAdd { ino, file_type, hash, primary: flags & flag::PRIMARY != 0, name }
        }
        code::DENTRY_DEL => {
            let ino = b.ino()?;
            let (hash, name) = dentry(flags, b)?;
            Record::DentryDel { ino, hash, name }
        }
        code::DENTRY_SET => {
            let (old, new, file_type) = (b.ino()?, b.ino()?, b.u8()?);
            let (hash, name) = dentry(flags, b)?;
            Record::DentrySet { old, new, file_type, hash, primary: flags & flag::PRIMARY != 0, name }
        }
        code::DOTDOT => Record::DotDot { parent: b.ino()? },
        code::DIR_TOUCH => Record::DirTouch(time(b)?),
        code::MAP => Record::Map(mapping(flags, b)?),
        code::PACKED => Record::Packed(mapping(flags, b)?),
        code::RELEASED => Record::Released(flags & flag::ON != 0),
        code::COMPRESSION if flags & flag::ON == 0 => Record::Compression(None),
        code::COMPRESSION => {
            let how = Compression { algorithm: b.u8()?, log_cluster: b.u8()?, flag: b.u16()? };
            Record::Compression(Some(how))
        }
        code::RESERVE | code::UNMAP | code::COLLAPSE | code::INSERT => range(kind, b)?,
        code::TRUNCATE => Record::Truncate { size: b.varint()? },
        code::INLINE_DATA => Record::InlineData { offset: b.u16()?, bytes: counted(b)?.into() },
        code::INLINE_OFF => Record::InlineOff,
        code::XATTR_SET => {
            let (index, name) = attribute(b)?;
            Record::XattrSet { index, name, value: counted(b)?.into() }
        }
        code::XATTR_DEL => {
            let (index, name) = attribute(b)?;
            Record::XattrDel { index, name }
        }
        _ => return Err("unknown type of a record"),
    })
}

fn range<B>(kind: u8, b: &mut Bytes<'_>) -> Result<Record<B>, Bad> {
    let (page, count) = (b.varint()?, b.varint()?);
    page.checked_add(count).ok_or("range of pages does not end")?;
    Ok(match kind {
        code::RESERVE => Record::Reserve { page, count },
        code::UNMAP => Record::Unmap { page, count },
        code::COLLAPSE => Record::Collapse { page, count },
        _ => Record::Insert { page, count },
    })
}

fn inode_new(flags: u8, b: &mut Bytes<'_>) -> Result<InodeNew, Bad> {
    // In the order of the bytes.
    Ok(InodeNew {
        mode: b.u16()?,
        inline: b.u8()?,
        advise: b.u8()?,
        uid: b.varint_u32()?,
        gid: b.varint_u32()?,
        flags: b.u32()?,
        generation: b.u32()?,
        pino: b.ino()?,
        inline_xattr_size: b.u16()?,
        time: time(b)?,
        projid: if flags & flag::PROJID != 0 { b.u32()? } else { 0 },
        rdev: if flags & flag::RDEV != 0 { b.u32()? } else { 0 },
        tmpfile: flags & flag::TMPFILE != 0,
    })
}

fn attr(b: &mut Bytes<'_>) -> Result<Attr, Bad> {
    let mask = b.u16()?;
    if mask >> 13 != 0 {
        return Err("unknown field of an inode");
    }
    let has = |bit: u32| mask >> bit & 1 == 1;
    Ok(Attr {
        mode: has(0).then(|| b.u16()).transpose()?,
        uid: has(1).then(|| b.u32()).transpose()?,
        gid: has(2).then(|| b.u32()).transpose()?,
        projid: has(3).then(|| b.u32()).transpose()?,
        flags: has(4).then(|| b.u32()).transpose()?,
        pino: has(5).then(|| b.ino()).transpose()?,
        size: has(6).then(|| b.u64()).transpose()?,
        atime: has(7).then(|| time(b)).transpose()?,
        mtime: has(8).then(|| time(b)).transpose()?,
        ctime: has(9).then(|| time(b)).transpose()?,
        advise: has(10).then(|| b.u8()).transpose()?,
        inline: has(11).then(|| b.u8()).transpose()?,
        gc_failures: has(12).then(|| b.u16()).transpose()?,
    })
}

fn mapping(flags: u8, b: &mut Bytes<'_>) -> Result<Mapping, Bad> {
    let count = usize::try_from(b.varint()?).ok().filter(|n| (1..=MAX_RUNS).contains(n));
    let count = count.ok_or("number of runs")?;
    let (mut page, mut addr) = (0u64, 0u32);
    let mut runs = Vec::with_capacity(count);
    for _ in 0..count {
        let start = page.checked_add(b.varint()?).ok_or("runs are not in ascending order")?;
        let first = i64::from(addr).checked_add(unzigzag(b.varint()?)).and_then(|a| u32::try_from(a).ok());
        let first = BlockAddr(first.ok_or("address of a run")?);
        let n = b.varint_u32()?;
        page = start.checked_add(n.into()).ok_or("run does not end")?;
        addr = first.0.checked_add(n).ok_or("run does not end")?;
        if n == 0 {
            return Err("empty run");
        }
        runs.push(Run { page: start, addr: first, count: n });
    }
    let mut out = Mapping { runs, crcs: Vec::new(), moved: flags & flag::MOVED != 0 };
    if flags & flag::CRCS != 0 {
        let pages =
            usize::try_from(out.pages()).ok().filter(|&n| n <= MAX_CRCS).ok_or("number of checksums")?;
        out.crcs = (0..pages).map(|_| b.u32()).collect::<Result<_, Bad>>()?;
    }
    Ok(out)
}

fn dentry<'a, B: From<&'a [u8]>>(flags: u8, b: &mut Bytes<'a>) -> Result<(Option<u32>, B), Bad> {
    let hash = (flags & flag::HASH != 0).then(|| b.u32()).transpose()?;
    Ok((hash, name(b)?))
}

fn name<'a, B: From<&'a [u8]>>(b: &mut Bytes<'a>) -> Result<B, Bad> {
    let bytes = counted(b)?;
    if bytes.is_empty() || bytes.len() > NAME_MAX { Err("length of a name") } else { Ok(bytes.into()) }
}

/// Name index and name of an extended attribute. An ACL is named by its index alone.
fn attribute<'a, B: From<&'a [u8]>>(b: &mut Bytes<'a>) -> Result<(u8, B), Bad> {
    let index = b.u8()?;
    if !matches!(index, index::ACL_ACCESS | index::ACL_DEFAULT) {
        return Ok((index, name(b)?));
    }
    let name = counted(b)?;
    if name.is_empty() { Ok((index, name.into())) } else { Err("an ACL with a name") }
}

fn counted<'a>(b: &mut Bytes<'a>) -> Result<&'a [u8], Bad> {
    let len = usize::try_from(b.varint()?).map_err(|_| "length of bytes")?;
    b.take(len)
}

fn time(b: &mut Bytes<'_>) -> Result<Time, Bad> {
    Ok(Time { secs: b.u64()? as i64, nsec: b.u32()? })
}

fn unzigzag(v: u64) -> i64 {
    (v >> 1) as i64 ^ -((v & 1) as i64)
}

impl Bytes<'_> {
    fn ino(&mut self) -> Result<Ino, Bad> {
        self.u32().map(Ino)
    }
    fn varint_u32(&mut self) -> Result<u32, Bad> {
        u32::try_from(self.varint()?).map_err(|_| "number is too large")
    }
}
