//! The decoder.

use super::{
    FAR_DISTANCE_BASE, FAR_FIELD_MAX, FIRST_BYTE_BASE, LITERAL_FIELD_MAX, LITERAL_LEN_BASE, MATCH_LEN_BASE,
    MID_FIELD_MAX,
};
use crate::CodecError;

/// Shortest stream that can carry a version.
const VERSIONED_LEN_MIN: usize = 5;
const VERSION_MARKER: u8 = 17;
const END_MARKER_LEN: usize = 3;

/// `H` and all of `D` set in a far match: in LZO-RLE a run of zeros.
const ZERO_RUN_H: usize = 0b1000;
const ZERO_RUN_D: usize = 0xFFFC;
const ZERO_RUN_LEN_BASE: usize = 4;

/// Decodes a whole stream into the front of `out` and returns how many bytes it filled.
pub(crate) fn decompress(input: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
    let mut decoder = Decoder { input, pos: 0, out, filled: 0, zero_runs: false };
    decoder.zero_runs = decoder.read_version()?;
    let mut before = Some(decoder.first_literals()?);
    while let Some(literals) = before {
        before = decoder.instruction(literals)?;
    }
    if decoder.pos != input.len() {
        return Err(decoder.malformed("data follows the end marker"));
    }
    Ok(decoder.filled)
}

struct Decoder<'a> {
    input: &'a [u8],
    pos: usize,
    out: &'a mut [u8],
    filled: usize,
    /// Whether the stream may contain runs of zeros.
    zero_runs: bool,
}

impl Decoder<'_> {
    /// Skips a version marker. Returns whether the stream may contain runs of zeros.
    fn read_version(&mut self) -> Result<bool, CodecError> {
        if self.input.len() < VERSIONED_LEN_MIN || self.input.first() != Some(&VERSION_MARKER) {
            return Ok(false);
        }
        self.pos += 1;
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.malformed("unknown bitstream version")),
        }
    }

    /// Copies the literals before the first instruction and returns their number.
    fn first_literals(&mut self) -> Result<usize, CodecError> {
        match self.input.get(self.pos) {
            Some(&first) if first > FIRST_BYTE_BASE => {
                self.pos += 1;
                self.copy_literals(usize::from(first - FIRST_BYTE_BASE))
            }
            _ => Ok(0),
        }
    }

    /// Executes an instruction and returns the number of literals that it copied last; `None` at the end.
    /// `before`, the number of literals copied before the instruction, decides the meaning of `0000xxxx`.
    fn instruction(&mut self, before: usize) -> Result<Option<usize>, CodecError> {
        let op = usize::from(self.byte()?);
        match op {
            0..=15 => self.short_form(op, before).map(Some),
            16..=31 => self.far_match(op),
            32..=63 => {
                let len = self.length(op & MID_FIELD_MAX, MID_FIELD_MAX)?;
                let operand = self.le16()?;
                self.copy_match((operand >> 2) + 1, len.saturating_add(MATCH_LEN_BASE))?;
                self.copy_literals(operand & 3).map(Some)
            }
            _ => {
                let high = usize::from(self.byte()?);
                // Both forms at once: lengths 3 and 4 begin at 64, lengths 5 to 8 at 128.
                self.copy_match((high << 3) + ((op >> 2) & 7) + 1, (op >> 5) + 1)?;
                self.copy_literals(op & 3).map(Some)
            }
        }
    }

    fn short_form(&mut self, op: usize, before: usize) -> Result<usize, CodecError> {
        let (distance_base, len) = match before {
            0 => {
                let len = self.length(op, LITERAL_FIELD_MAX)?;
                return self.copy_literals(len.saturating_add(LITERAL_LEN_BASE));
            }
            1..=3 => (1, 2),
            _ => (2049, 3),
        };
        let high = usize::from(self.byte()?);
        self.copy_match((high << 2) + (op >> 2) + distance_base, len)?;
        self.copy_literals(op & 3)
    }

    fn far_match(&mut self, op: usize) -> Result<Option<usize>, CodecError> {
        if self.zero_runs && op & ZERO_RUN_H != 0 && self.peek_le16()? & ZERO_RUN_D == ZERO_RUN_D {
            let literals = self.le16()? & 3;
            let high = usize::from(self.byte()?);
            self.append_zeros((high << 3) + (op & 7) + ZERO_RUN_LEN_BASE)?;
            return self.copy_literals(literals).map(Some);
        }
        let len = self.length(op & FAR_FIELD_MAX, FAR_FIELD_MAX)?.saturating_add(MATCH_LEN_BASE);
        let operand = self.le16()?;
        let distance = FAR_DISTANCE_BASE + ((op & ZERO_RUN_H) << 11) + (operand >> 2);
        if distance != FAR_DISTANCE_BASE {
            self.copy_match(distance, len)?;
            return self.copy_literals(operand & 3).map(Some);
        }
        if len != END_MARKER_LEN {
            return Err(self.malformed("end marker with a wrong length"));
        }
        Ok(None)
    }

    /// Value of a length field whose largest value is `field_max`, continued in length bytes if it is zero.
    fn length(&mut self, field: usize, field_max: usize) -> Result<usize, CodecError> {
        if field != 0 {
            return Ok(field);
        }
        let mut len = field_max;
        loop {
            match self.byte()? {
                0 => len = len.saturating_add(255),
                last => return Ok(len.saturating_add(usize::from(last))),
            }
        }
    }

    fn byte(&mut self) -> Result<u8, CodecError> {
        let byte = *self.input.get(self.pos).ok_or(CodecError::Truncated)?;
        self.pos += 1;
        Ok(byte)
    }

    fn le16(&mut self) -> Result<usize, CodecError> {
        let value = self.peek_le16()?;
        self.pos += 2;
        Ok(value)
    }

    fn peek_le16(&self) -> Result<usize, CodecError> {
        let bytes = self.input.get(self.pos..).and_then(<[u8]>::first_chunk).ok_or(CodecError::Truncated)?;
        Ok(usize::from(u16::from_le_bytes(*bytes)))
    }

    fn copy_literals(&mut self, len: usize) -> Result<usize, CodecError> {
        let from =
            self.input.get(self.pos..).and_then(|rest| rest.get(..len)).ok_or(CodecError::Truncated)?;
        let to = self
            .out
            .get_mut(self.filled..)
            .and_then(|rest| rest.get_mut(..len))
            .ok_or(CodecError::TooLong)?;
        to.copy_from_slice(from);
        self.pos += len;
        self.filled += len;
        Ok(len)
    }

    fn copy_match(&mut self, distance: usize, len: usize) -> Result<(), CodecError> {
        let Some(start) = self.filled.checked_sub(distance) else {
            return Err(self.malformed("match begins before the output"));
        };
        let end = self.end_after(len)?;
        // A match longer than its distance repeats what it has itself just written, so the bytes from `start` on
        // can be copied in pieces that double.
        while self.filled < end {
            let piece = (self.filled - start).min(end - self.filled);
            self.out.copy_within(start..start + piece, self.filled);
            self.filled += piece;
        }
        Ok(())
    }

    fn append_zeros(&mut self, len: usize) -> Result<(), CodecError> {
        let end = self.end_after(len)?;
        self.out.get_mut(self.filled..end).ok_or(CodecError::TooLong)?.fill(0);
        self.filled = end;
        Ok(())
    }

    /// Where the output ends after `len` more bytes, if they fit.
    fn end_after(&self, len: usize) -> Result<usize, CodecError> {
        self.filled.checked_add(len).filter(|&end| end <= self.out.len()).ok_or(CodecError::TooLong)
    }

    fn malformed(&self, why: &'static str) -> CodecError {
        CodecError::Malformed { at: Some(self.pos), why }
    }
}
