//! LZO1X, and the kernel's LZO-RLE variant of it.
//!
//! # The stream
//!
//! A stream is a sequence of instructions, each followed by its operand bytes. An instruction appends bytes to the
//! output: literals taken from the stream, or a *match*, a repetition of bytes that were output `distance` bytes
//! ago (the two may overlap). Every match carries a two-bit count of 0 to 3 literals to copy right after it.
//!
//! | first byte | operands | what it does |
//! |---|---|---|
//! | `0000LLLL` | length bytes | 3 + L literals; after a match without literals and at the start |
//! | `0000DDSS` | `H` | match of 2 at `4H + D + 1`; when 1 to 3 literals came before |
//! | `0000DDSS` | `H` | match of 3 at `4H + D + 2049`; when 4 or more literals came before |
//! | `0001HLLL` | length bytes, LE16 | match of 2 + L at `16384 + 16384·H + D` |
//! | `001LLLLL` | length bytes, LE16 | match of 2 + L at `D + 1` |
//! | `01LDDDSS` | `H` | match of 3 + L at `8H + D + 1` |
//! | `1LLDDDSS` | `H` | match of 5 + L at `8H + D + 1` |
//!
//! `S` counts the literals that follow. An LE16 operand holds `D` in its upper 14 bits and `S` in the lower two.
//!
//! A length field `L` of zero continues in length bytes: each zero byte adds 255, the first other byte adds itself
//! and ends the length, and the field's largest value is added on top.
//!
//! The very first byte is special: from 18 on it means `byte - 17` literals. The stream ends with a match of length
//! 3 at distance 16384 exactly (`11 00 00`), a distance no other instruction needs to express.
//!
//! # LZO-RLE
//!
//! A stream of at least five bytes that starts with `11` has its version in the second byte; the instructions
//! follow.
//! Version 1 reads one form of `0001HLLL` differently: with `H` and all 14 bits of `D` set, a fourth byte `X`
//! follows, and the instruction appends `4 + 8X + L` zero bytes. There are no length bytes in this form, even if `L`
//! is zero. No plain stream can begin with `11` and be that long, because there is nothing a match could refer to
//! yet; so one decoder reads both.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub(crate) use decode::decompress;
pub use encode::compress;

/// First bytes of the instructions that carry a 16-bit operand, with their fields empty.
const FAR_MATCH: u8 = 0b0001_0000;
const MID_MATCH: u8 = 0b0010_0000;

/// Largest values of the length fields; longer lengths continue in length bytes.
const LITERAL_FIELD_MAX: usize = 15;
const FAR_FIELD_MAX: usize = 7;
const MID_FIELD_MAX: usize = 31;

/// Base length if the stored length is zero.
const LITERAL_LEN_BASE: usize = 3;
const MATCH_LEN_BASE: usize = 2;

/// Distance of a far match with empty fields; only the end marker has it.
const FAR_DISTANCE_BASE: usize = 0x4000;

/// Difference between the first byte and the literals it stands for.
const FIRST_BYTE_BASE: u8 = 17;
