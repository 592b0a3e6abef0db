//! Reading numbers off the front of bytes.

/// Bytes not yet read.
pub(crate) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], &'static str> {
        let (head, tail) = self.0.split_at_checked(n).ok_or("bytes are cut off")?;
        self.0 = tail;
        Ok(head)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (head, tail) = self.0.split_first_chunk::<N>().ok_or("bytes are cut off")?;
        self.0 = tail;
        Ok(*head)
    }
    pub(crate) fn u8(&mut self) -> Result<u8, &'static str> {
        self.array::<1>().map(u8::from_le_bytes)
    }
    pub(crate) fn u16(&mut self) -> Result<u16, &'static str> {
        self.array().map(u16::from_le_bytes)
    }
    pub(crate) fn u32(&mut self) -> Result<u32, &'static str> {
        self.array().map(u32::from_le_bytes)
    }
    pub(crate) fn u64(&mut self) -> Result<u64, &'static str> {
        self.array().map(u64::from_le_bytes)
    }
    /// A number that starts at 0 and is incremented by one. Values above half of the range are refused, so
    /// that an increment cannot overflow.
    pub(crate) fn counter(&mut self) -> Result<u64, &'static str> {
        self.u64().and_then(|n| if n > u64::MAX / 2 { Err("number that is too large") } else { Ok(n) })
    }
    /// Unsigned LEB128; only the shortest form, so that a value has one encoding.
    pub(crate) fn varint(&mut self) -> Result<u64, &'static str> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part || (byte == 0 && shift > 0) {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("number is malformed")
    }
}
