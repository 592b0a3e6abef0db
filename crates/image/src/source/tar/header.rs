//! A header block of a tar archive: ustar, GNU and the old form.

/// Bytes of a header, and the unit of an archive.
pub(crate) const BLOCK: usize = 512;

/// Offsets and lengths of extents, whether more follow, and the size of the file.
pub(crate) type GnuSparse = (Vec<(u64, u64)>, bool, u64);

/// The fields of a header, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) path: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) size: u64,
    pub(crate) mtime: i64,
    pub(crate) kind: u8,
    pub(crate) device: (u32, u32),
    /// Of a GNU sparse file: extents in this header, whether a block of more follows, and its real size.
    pub(crate) sparse: Option<GnuSparse>,
}

/// A field of a block.
fn field(block: &[u8; BLOCK], at: usize, len: usize) -> &[u8] {
    block.get(at..at + len).unwrap_or_default()
}

/// Bytes up to the first NUL.
fn text(bytes: &[u8]) -> &[u8] {
    bytes.split(|&b| b == 0).next().unwrap_or_default()
}

/// An octal number, or one in base 256; negative ones are possible in the latter.
fn number(bytes: &[u8]) -> Result<i64, String> {
    if let Some((&first, rest)) = bytes.split_first()
        && first & 0x80 != 0
    {
        // Two's complement without the marker bit.
        let start = if first == 0xFF { -1 } else { i64::from(first & 0x7F) };
        return rest.iter().try_fold(start, |n, &b| {
            let shifted = n.checked_mul(256).ok_or("a number is too large")?;
            Ok(shifted | i64::from(b))
        });
    }
    let mut digits = bytes.iter().copied().skip_while(|&b| b == b' ').take_while(|b| !matches!(b, 0 | b' '));
    digits.try_fold(0i64, |n, digit| match digit {
        b'0'..=b'7' => {
            let next = n.checked_mul(8).map(|n| n + i64::from(digit - b'0'));
            next.ok_or_else(|| "a number is too large".to_owned())
        }
        _ => Err(format!("{:?} is no octal number", String::from_utf8_lossy(bytes))),
    })
}

fn unsigned(bytes: &[u8]) -> Result<u64, String> {
    u64::try_from(number(bytes)?).map_err(|_| "a number is negative".into())
}

fn small(bytes: &[u8]) -> Result<u32, String> {
    u32::try_from(number(bytes)?).map_err(|_| "a number is out of range".into())
}

/// Whether a block ends an archive.
pub(crate) fn is_end(block: &[u8; BLOCK]) -> bool {
    block.iter().all(|&b| b == 0)
}

impl Header {
    pub(crate) fn parse(block: &[u8; BLOCK]) -> Result<Self, String> {
        verify(block)?;
        let magic = field(block, 257, 8);
        let (ustar, gnu) = (magic == b"ustar\x0000", magic == b"ustar  \0");
        let kind = match block.get(156) {
            Some(0) | None => b'0',
            Some(&kind) => kind,
        };
        let name = text(field(block, 0, 100));
        let prefix = if ustar { text(field(block, 345, 155)) } else { &[] };
        let path = if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() };
        let is_device = matches!(kind, b'3' | b'4');
        let device =
            if is_device { (small(field(block, 329, 8))?, small(field(block, 337, 8))?) } else { (0, 0) };
        let sparse = if gnu && kind == b'S' { Some(sparse_extents(block)?) } else { None };
        Ok(Self {
            path,
            link: text(field(block, 157, 100)).to_vec(),
            mode: small(field(block, 100, 8))? & 0o7777,
            uid: unsigned(field(block, 108, 8))?,
            gid: unsigned(field(block, 116, 8))?,
            size: unsigned(field(block, 124, 12))?,
            mtime: number(field(block, 136, 12))?,
            kind,
            device,
            sparse,
        })
    }
}

/// The checksum is over the header with blanks in its own place. Some archives have it over signed bytes.
fn verify(block: &[u8; BLOCK]) -> Result<(), String> {
    let stored = number(field(block, 148, 8))?;
    let bytes = || (0..).zip(block).map(|(i, &b)| if (148..156).contains(&i) { b' ' } else { b });
    let plain: i64 = bytes().map(i64::from).sum();
    let signed: i64 = bytes().map(|b| i64::from(b.cast_signed())).sum();
    if stored == plain || stored == signed {
        return Ok(());
    }
    Err(format!(
        "the checksum of the header is {stored}, not {plain}: this is no tar archive, or it is damaged"
    ))
}

/// Offset and length of one extent.
fn extent(bytes: &[u8]) -> Result<Option<(u64, u64)>, String> {
    let (offset, len) = bytes.split_at(12.min(bytes.len()));
    if len.first().is_none_or(|&b| b == 0) { Ok(None) } else { Ok(Some((unsigned(offset)?, unsigned(len)?))) }
}

fn extents(bytes: &[u8]) -> Result<Vec<(u64, u64)>, String> {
    bytes.chunks_exact(24).map_while(|b| extent(b).transpose()).collect()
}

fn sparse_extents(block: &[u8; BLOCK]) -> Result<GnuSparse, String> {
    let more = block.get(482).is_some_and(|&b| b != 0);
    Ok((extents(field(block, 386, 96))?, more, unsigned(field(block, 483, 12))?))
}

/// The extents in a block that continues the list, and whether another one follows.
pub(crate) fn more_extents(block: &[u8; BLOCK]) -> Result<(Vec<(u64, u64)>, bool), String> {
    Ok((extents(field(block, 0, 504))?, block.get(504).is_some_and(|&b| b != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_both_forms() {
        assert_eq!(number(b"0000644\0"), Ok(0o644));
        assert_eq!(number(b"   17 \0 "), Ok(0o17));
        assert_eq!(number(b"\0\0\0\0"), Ok(0));
        assert_eq!(number(b"\x80\0\0\0\0\0\x01\0"), Ok(256));
        assert_eq!(number(b"\xff\xff\xff\xff\xff\xff\xff\xfe"), Ok(-2));
        assert!(number(b"12x").is_err() && unsigned(b"\xff\xff\xff\xff").is_err());
        assert!(number(b"\x80\x01\0\0\0\0\0\0\0\0\0\0").is_err());
    }
}
