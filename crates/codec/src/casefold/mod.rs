//! Folded names: the form in which names of a casefolded directory are hashed and compared.
//!
//! Each character is replaced by its canonical decomposition with full case folding applied (Unicode 12.1, "NFDICF"
//! in the kernel), default-ignorable characters are dropped, and runs of combining marks are put in canonical order.
//!
//! The kernel finds a name by the hash of this form, so every byte has to match the kernel's, even in these
//! deviations from the standard:
//!
//! * Folding precedes ordering. U+0345 becomes the letter iota, which is not a mark, and marks after it stay
//!   there.
//! * A dropped character still separates the marks on its two sides.
//! * Unassigned characters and noncharacters stay unchanged, even if a newer version of Unicode assigns them.
//! * The bytes 80 to BF count as part of the character before them, whether that is complete or not, so
//!   `N\xB05` folds to `n\xB05`. In a run of marks they are output once at the front, and again with each
//!   combining class. Any other error in the encoding makes the name unfoldable.

#[cfg(test)]
mod tests;

use caseless::Caseless;
use segno_format::{folded_name_hash, name_hash};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::canonical_combining_class;

/// Ranges (both ends included) of characters that fold to nothing; sorted.
const IGNORABLE: &[(char, char)] = &[
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180e}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{202a}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fff8}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Ranges of characters that in Unicode 12.1 stay unchanged and are not marks, but in part are assigned in
/// the version of the libraries; sorted.
const NEWER: &[(char, char)] = &[
    ('\u{5c8}', '\u{5c9}'),
    ('\u{897}', '\u{8d2}'),
    ('\u{c3c}', '\u{c3c}'),
    ('\u{1715}', '\u{1715}'),
    ('\u{1abf}', '\u{1af0}'),
    ('\u{1c89}', '\u{1c89}'),
    ('\u{1dfa}', '\u{1dfa}'),
    ('\u{2c2f}', '\u{2c2f}'),
    ('\u{a7c0}', '\u{a7c0}'),
    ('\u{a7c7}', '\u{a7f5}'),
    ('\u{a82c}', '\u{a82c}'),
    ('\u{10570}', '\u{105e4}'),
    ('\u{10d50}', '\u{10eff}'),
    ('\u{10f82}', '\u{10f85}'),
    ('\u{11070}', '\u{11070}'),
    ('\u{11383}', '\u{113d0}'),
    ('\u{11938}', '\u{11943}'),
    ('\u{11f41}', '\u{1612f}'),
    ('\u{16d68}', '\u{16d6a}'),
    ('\u{16ff0}', '\u{16ff1}'),
    ('\u{1d127}', '\u{1d128}'),
    ('\u{1d250}', '\u{1d281}'),
    ('\u{1e08f}', '\u{1e08f}'),
    ('\u{1e2ae}', '\u{1e2ae}'),
    ('\u{1e4ec}', '\u{1e6f5}'),
];

/// Longest folded name; the kernel folds into 255 bytes that include a terminating NUL.
const FOLDED_LEN_MAX: usize = 254;

/// Why a name has no folded form.
///
/// In strict mode such names are refused; otherwise they are hashed and compared as plain bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CasefoldError {
    /// The name is not UTF-8, or contains a NUL.
    #[error("the name is not valid UTF-8")]
    NotUtf8,
    /// The folded form is longer than 254 bytes.
    #[error("the name is longer than {FOLDED_LEN_MAX} bytes once case is ignored")]
    TooLong,
    /// Every character of the name is ignorable.
    #[error("nothing is left of the name once case and ignorable characters are ignored")]
    Empty,
}

/// Hash of a name in a casefolded directory: of its folded form or, if it has none, of its bytes.
///
/// In strict mode a name that [`casefold`] refuses has to be refused before it gets here.
#[must_use]
pub fn casefolded_name_hash(name: &[u8]) -> u32 {
    let mut folded = Vec::new();
    match casefold(name, &mut folded) {
        Ok(()) => folded_name_hash(name, &folded),
        Err(_) => name_hash(name),
    }
}

/// Folds `name` into `out`, replacing what is there.
///
/// After an error the contents of `out` are unspecified.
pub fn casefold(name: &[u8], out: &mut Vec<u8>) -> Result<(), CasefoldError> {
    out.clear();
    if name.first().is_some_and(|&byte| is_continuation(byte)) {
        return Err(CasefoldError::NotUtf8);
    }
    let mut folder = Folder { out, marks: Vec::new() };
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            folder.character(c)?;
        }
        match chunk.invalid() {
            [] => {}
            [byte] if is_continuation(*byte) => folder.stray(*byte)?,
            _ => return Err(CasefoldError::NotUtf8),
        }
    }
    folder.end_marks()?;
    if out.is_empty() { Err(CasefoldError::Empty) } else { Ok(()) }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

struct Folder<'a> {
    out: &'a mut Vec<u8>,
    /// Marks since the last character of class 0, waiting to be ordered.
    marks: Vec<Mark>,
}

enum Mark {
    Character(char, u8),
    Stray(u8),
}

impl Folder<'_> {
    fn character(&mut self, c: char) -> Result<(), CasefoldError> {
        if c == '\0' {
            return Err(CasefoldError::NotUtf8);
        }
        if c.is_ascii() {
            return self.no_mark(c.to_ascii_lowercase());
        }
        if is_in(IGNORABLE, c) {
            return self.end_marks();
        }
        if is_in(NEWER, c) {
            return self.no_mark(c);
        }
        [c].into_iter().default_case_fold().nfd().try_for_each(|c| match canonical_combining_class(c) {
            0 => self.no_mark(c),
            class => {
                self.marks.push(Mark::Character(c, class));
                Ok(())
            }
        })
    }

    fn no_mark(&mut self, c: char) -> Result<(), CasefoldError> {
        self.end_marks()?;
        self.emit_char(c)
    }

    fn stray(&mut self, byte: u8) -> Result<(), CasefoldError> {
        if self.marks.is_empty() {
            return self.emit(&[byte]);
        }
        self.marks.push(Mark::Stray(byte));
        Ok(())
    }

    /// Outputs the waiting marks, ordered by class; marks of one class keep their order.
    fn end_marks(&mut self) -> Result<(), CasefoldError> {
        let marks = core::mem::take(&mut self.marks);
        let mut pass = Some(0);
        while let Some(current) = pass {
            pass = None;
            for mark in &marks {
                match *mark {
                    // Every pass of the kernel's sort outputs these, even a pass that only searches for a
                    // class.
                    Mark::Stray(byte) => self.emit(&[byte])?,
                    Mark::Character(c, class) if class == current => self.emit_char(c)?,
                    Mark::Character(_, class) if class > current => {
                        pass = Some(pass.map_or(class, |next: u8| next.min(class)));
                    }
                    Mark::Character(..) => {}
                }
            }
        }
        Ok(())
    }

    fn emit_char(&mut self, c: char) -> Result<(), CasefoldError> {
        self.emit(c.encode_utf8(&mut [0; 4]).as_bytes())
    }

    fn emit(&mut self, bytes: &[u8]) -> Result<(), CasefoldError> {
        self.out.extend_from_slice(bytes);
        if self.out.len() <= FOLDED_LEN_MAX { Ok(()) } else { Err(CasefoldError::TooLong) }
    }
}

/// Whether one of the sorted ranges contains `c`.
fn is_in(ranges: &[(char, char)], c: char) -> bool {
    let at = ranges.partition_point(|&(_, last)| last < c);
    ranges.get(at).is_some_and(|&(first, _)| first <= c)
}
