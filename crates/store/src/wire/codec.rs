//! Little-endian records between a magic number and a CRC-32C.
use crate::error::StoreError;
use crate::ids::{Epoch, LogPlace, Seq};
use crate::wire::names::{Name, ObjectId};
use bytes::Bytes;

const CRC_BYTES: usize = 4;

/// Builds a record.
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub(crate) fn new(magic: &[u8; 8]) -> Self {
        Self(magic.to_vec())
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn object(&mut self, id: ObjectId) {
        let (kind, place) = id.numbers();
        self.u8(kind);
        self.place(place);
    }

    pub(crate) fn epoch(&mut self, epoch: Epoch) {
        self.u32(epoch.get());
    }

    pub(crate) fn seq(&mut self, seq: Seq) {
        self.u64(seq.get());
    }

    pub(crate) fn place(&mut self, place: LogPlace) {
        self.epoch(place.epoch);
        self.seq(place.seq);
    }

    pub(crate) fn text(&mut self, text: &str) {
        let kept = text.get(..text.len().min(u16::MAX.into())).unwrap_or_default();
        self.u16(kept.len() as u16);
        self.raw(kept.as_bytes());
    }

    /// Appends the checksum.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let crc = crc32c::crc32c(&self.0);
        self.u32(crc);
        self.0
    }
}

/// Reads a record after checking its checksum.
pub(crate) struct Decoder<'a> {
    name: Name,
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(name: Name, magic: &[u8; 8], bytes: &'a [u8]) -> Result<Self, StoreError> {
        let (body, crc) =
            bytes.split_last_chunk::<CRC_BYTES>().ok_or(StoreError::corrupt(name, "it is too short"))?;
        let rest = body.strip_prefix(magic).ok_or(StoreError::corrupt(name, "magic number"))?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
            return Err(StoreError::corrupt(name, "checksum"));
        }
        Ok(Self { name, rest })
    }

    pub(crate) fn bad(&self, why: &'static str) -> StoreError {
        StoreError::corrupt(self.name, why)
    }

    pub(crate) fn raw(&mut self, len: usize) -> Result<&'a [u8], StoreError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| self.bad("a field is cut off"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], StoreError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| self.bad("a field is cut off"))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, StoreError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, StoreError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, StoreError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, StoreError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn object(&mut self) -> Result<ObjectId, StoreError> {
        let (kind, place) = (self.u8()?, self.place()?);
        ObjectId::of_numbers(kind, place).ok_or_else(|| self.bad("unknown kind of object"))
    }

    pub(crate) fn epoch(&mut self) -> Result<Epoch, StoreError> {
        self.u32().map(Epoch::new)
    }

    pub(crate) fn seq(&mut self) -> Result<Seq, StoreError> {
        self.u64().map(Seq::new)
    }

    pub(crate) fn place(&mut self) -> Result<LogPlace, StoreError> {
        Ok(LogPlace::new(self.epoch()?, self.seq()?))
    }

    /// A text that can be displayed: without control characters.
    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        let len = self.u16()?;
        let text = String::from_utf8_lossy(self.raw(len.into())?);
        Ok(text.replace(char::is_control, "\u{fffd}"))
    }

    /// Number of records of at least `size` bytes that follow; a number too large for the rest is damage.
    pub(crate) fn count(&mut self, size: u64) -> Result<usize, StoreError> {
        let count = self.u32()?;
        if u64::from(count).saturating_mul(size) > self.rest.len() as u64 {
            return Err(self.bad("a count is too large"));
        }
        Ok(count as usize)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Checks that nothing follows.
    pub(crate) fn end(self) -> Result<(), StoreError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.bad("bytes behind its end")) }
    }
}

/// The bytes of a record.
pub(crate) fn bytes_of(encoder: Encoder) -> Bytes {
    encoder.finish().into()
}
