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
    let mut decoder = Decoder { input, pos: 0, out, filled: 0 };
    let zero_runs = decoder.read_version()?;
    let mut before = decoder.first_literals()?;
    loop {
        before = match decoder.instruction(before, zero_runs)? {
            Instruction::Literals(len) => {
                decoder.copy_literals(len)?;
                LiteralsBefore::Many
            }
            Instruction::Match { distance, len, literals } => {
                decoder.copy_match(distance, len)?;
                decoder.copy_literals(literals)?;
                LiteralsBefore::of(literals)
            }
            Instruction::Zeros { len, literals } => {
                decoder.append_zeros(len)?;
                decoder.copy_literals(literals)?;
                LiteralsBefore::of(literals)
            }
            Instruction::End => break,
        };
    }
    if decoder.pos != input.len() {
        return Err(decoder.malformed("data follows the end marker"));
    }
    Ok(decoder.filled)
}

enum Instruction {
    Literals(usize),
    Match { distance: usize, len: usize, literals: usize },
    Zeros { len: usize, literals: usize },
    End,
}

/// How many literals the instruction before copied last; decides what `0000xxxx` means.
#[derive(Clone, Copy)]
enum LiteralsBefore {
    None,
    Few,
    Many,
}

impl LiteralsBefore {
    fn of(literals: usize) -> Self {
        match literals {
            0 => Self::None,
            1..=3 => Self::Few,
            _ => Self::Many,
        }
    }
}

struct Decoder<'a> {
    input: &'a [u8],
    pos: usize,
    out: &'a mut [u8],
    filled: usize,
}

impl Decoder<'_> {
    /// Skips a version marker and says whether the stream may contain runs of zeros.
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

    fn first_literals(&mut self) -> Result<LiteralsBefore, CodecError> {
        match self.input.get(self.pos) {
            Some(&first) if first > FIRST_BYTE_BASE => {
                self.pos += 1;
                let len = usize::from(first - FIRST_BYTE_BASE);
                self.copy_literals(len)?;
                Ok(LiteralsBefore::of(len))
            }
            _ => Ok(LiteralsBefore::None),
        }
    }

    fn instruction(&mut self, before: LiteralsBefore, zero_runs: bool) -> Result<Instruction, CodecError> {
        let op = usize::from(self.byte()?);
        match op {
            0..=15 => self.short_form(op, before),
            16..=31 => self.far_match(op, zero_runs),
            32..=63 => {
                let len = self.length(op & MID_FIELD_MAX, MID_FIELD_MAX)?;
                let operand = self.le16()?;
                Ok(Instruction::Match {
                    distance: (operand >> 2) + 1,
                    len: len.saturating_add(MATCH_LEN_BASE),
                    literals: operand & 3,
                })
            }
            _ => {
                let high = usize::from(self.byte()?);
                Ok(Instruction::Match {
                    distance: (high << 3) + ((op >> 2) & 7) + 1,
                    // Both forms at once: lengths 3 and 4 begin at 64, lengths 5 to 8 at 128.
                    len: (op >> 5) + 1,
                    literals: op & 3,
                })
            }
        }
    }

    fn short_form(&mut self, op: usize, before: LiteralsBefore) -> Result<Instruction, CodecError> {
        let (distance_base, len) = match before {
            LiteralsBefore::None => {
                let len = self.length(op, LITERAL_FIELD_MAX)?;
                return Ok(Instruction::Literals(len.saturating_add(LITERAL_LEN_BASE)));
            }
            LiteralsBefore::Few => (1, 2),
            LiteralsBefore::Many => (2049, 3),
        };
        let high = usize::from(self.byte()?);
        Ok(Instruction::Match { distance: (high << 2) + (op >> 2) + distance_base, len, literals: op & 3 })
    }

    fn far_match(&mut self, op: usize, zero_runs: bool) -> Result<Instruction, CodecError> {
        if zero_runs && op & ZERO_RUN_H != 0 && self.peek_le16()? & ZERO_RUN_D == ZERO_RUN_D {
            let literals = self.le16()? & 3;
            let high = usize::from(self.byte()?);
            return Ok(Instruction::Zeros { len: (high << 3) + (op & 7) + ZERO_RUN_LEN_BASE, literals });
        }
        let len = self.length(op & FAR_FIELD_MAX, FAR_FIELD_MAX)?.saturating_add(MATCH_LEN_BASE);
        let operand = self.le16()?;
        let distance = FAR_DISTANCE_BASE + ((op & ZERO_RUN_H) << 11) + (operand >> 2);
        if distance != FAR_DISTANCE_BASE {
            return Ok(Instruction::Match { distance, len, literals: operand & 3 });
        }
        if len != END_MARKER_LEN {
            return Err(self.malformed("end marker with a wrong length"));
        }
        Ok(Instruction::End)
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

    fn copy_literals(&mut self, len: usize) -> Result<(), CodecError> {
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
        Ok(())
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
