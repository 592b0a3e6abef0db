//! Folded names: the form in which names of a casefolded directory are hashed and compared.
//!
//! Each character is replaced by its canonical decomposition with full case folding applied (Unicode 12.1, "NFDICF"
//! in the kernel), default-ignorable characters are dropped, and runs of combining marks are put in canonical order.
//!
//! The kernel finds a name by the hash of this form, so every byte has to be the kernel's, also where that differs
//! from the textbook:
//!
//! * Folding comes before ordering. U+0345 becomes the letter iota, which is no mark, and marks after it stay there.
//! * A dropped character still separates the marks on its two sides.
//! * Unassigned characters and noncharacters stay as they are.
//! * The bytes 80 to BF count as part of the character before them, whether that is complete or not, so `N\xB05`
//!   folds to `n\xB05`. In a run of marks they come out once up front, and again with each combining class.
//!   Any other error in the encoding makes the name unfoldable.

mod tables;
#[cfg(test)]
mod tests;

use segno_format::{folded_name_hash, name_hash};
use tables::{COMBINING_CLASSES, IGNORABLE, MAPPINGS};

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
            return self.folded(c.to_ascii_lowercase());
        }
        if let Some(jamo) = hangul_jamo(c) {
            return jamo.into_iter().flatten().try_for_each(|c| self.folded(c));
        }
        if in_ranges(IGNORABLE, c, |&(first, last)| (first, last)).is_some() {
            return self.end_marks();
        }
        match MAPPINGS.binary_search_by_key(&c, |&(from, _)| from).ok().and_then(|at| MAPPINGS.get(at)) {
            Some((_, to)) => to.chars().try_for_each(|c| self.folded(c)),
            None => self.folded(c),
        }
    }

    fn folded(&mut self, c: char) -> Result<(), CasefoldError> {
        match combining_class(c) {
            0 => {
                self.end_marks()?;
                self.emit_char(c)
            }
            class => {
                self.marks.push(Mark::Character(c, class));
                Ok(())
            }
        }
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
                    // Every pass of the kernel's sort outputs these, the one that only looks for a class too.
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

/// Decomposes a Hangul syllable; the third letter is optional.
fn hangul_jamo(c: char) -> Option<[Option<char>; 3]> {
    const SYLLABLES: u32 = 0xAC00;
    const LEADING: u32 = 0x1100;
    const VOWELS: u32 = 0x1161;
    /// One before the first, because index 0 means none.
    const TRAILING: u32 = 0x11A7;
    const VOWEL_COUNT: u32 = 21;
    const TRAILING_COUNT: u32 = 28;
    if !('\u{ac00}'..='\u{d7a3}').contains(&c) {
        return None;
    }
    let index = u32::from(c) - SYLLABLES;
    let trailing = index % TRAILING_COUNT;
    Some([
        char::from_u32(LEADING + index / (VOWEL_COUNT * TRAILING_COUNT)),
        char::from_u32(VOWELS + index / TRAILING_COUNT % VOWEL_COUNT),
        if trailing == 0 { None } else { char::from_u32(TRAILING + trailing) },
    ])
}

fn combining_class(c: char) -> u8 {
    in_ranges(COMBINING_CLASSES, c, |&(first, last, _)| (first, last)).map_or(0, |&(_, _, class)| class)
}

/// The entry of a sorted table whose range contains `c`.
fn in_ranges<T>(table: &[T], c: char, range: impl Fn(&T) -> (char, char)) -> Option<&T> {
    let at = table.partition_point(|entry| range(entry).1 < c);
    table.get(at).filter(|entry| range(entry).0 <= c)
}
