//! The stored form of a compressed cluster.
use crate::{Corrupt, F2FS_MAGIC, Structure, crc};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `i_compress_flag`: clusters carry a checksum.
pub const CHECKSUM: u16 = 1;

/// `struct compress_data` up to the compressed bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawClusterHeader {
    /// Bytes of compressed data after the header.
    pub clen: U32,
    /// Checksum of those bytes, with [`CHECKSUM`].
    pub chksum: U32,
    /// Unused.
    pub reserved: [U32; 4],
}
const _: () = assert!(size_of::<RawClusterHeader>() == 24);

/// The compressed data in the stored blocks of a file's cluster; the length is verified, and the checksum if
/// there is one.
pub fn compressed_data(ino: u32, stored: &[u8], checksum: bool) -> Result<&[u8], Corrupt> {
    let bad = |why, found: usize, expected: usize| {
        Err(Corrupt::nid(Structure::Cluster, ino, why, found as u64, expected as u64))
    };
    let Ok((header, rest)) = RawClusterHeader::ref_from_prefix(stored) else {
        return bad("stored bytes", stored.len(), size_of::<RawClusterHeader>());
    };
    let len = header.clen.get() as usize;
    let Some(data) = rest.get(..len).filter(|d| !d.is_empty()) else {
        return bad("length of the compressed data", len, rest.len());
    };
    let computed = crc(F2FS_MAGIC, data);
    if checksum && computed != header.chksum.get() {
        return bad("checksum", header.chksum.get() as usize, computed as usize);
    }
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(len: u32, data: &[u8]) -> Vec<u8> {
        let header = RawClusterHeader {
            clen: U32::new(len),
            chksum: U32::new(crc(F2FS_MAGIC, data)),
            reserved: [U32::new(0); 4],
        };
        [header.as_bytes(), data].concat()
    }

    #[test]
    fn lengths_and_checksums_are_verified() {
        assert_eq!(compressed_data(7, &stored(4, b"data"), true), Ok(&b"data"[..]));
        let why = |bytes: &[u8], checksum| compressed_data(7, bytes, checksum).unwrap_err().why;
        assert_eq!(why(&stored(5, b"data"), true), "length of the compressed data");
        assert_eq!(why(&stored(0, b""), true), "length of the compressed data");
        assert_eq!(why(&[0; 23], true), "stored bytes");
        let mut wrong = stored(4, b"data");
        wrong[24] ^= 1;
        assert_eq!(why(&wrong, true), "checksum");
        assert!(compressed_data(7, &wrong, false).is_ok());
    }
}
