//! A name to look up: its hash, and the stored names that it equals.
use super::Dirs;
use super::nokey;
use crate::error::{Error, Result};
use crate::files::Inode;
use segno_codec::{casefold, casefolded_name_hash};
use segno_format::dentry::Entry;
use segno_format::inode::{Advise, InodeFlags};
use segno_format::{Features, NAME_MAX, name_hash};

/// `s_encoding_flags`: refuse names that cannot be folded.
const ENCODING_STRICT: u16 = 1;
/// `s_encoding_flags`: every name is in its hash bucket, so no linear search is needed.
pub(super) const ENCODING_NO_LINEAR_LOOKUP: u16 = 2;

/// A name prepared for one directory.
#[derive(Debug)]
pub struct DirName<'a> {
    raw: &'a [u8],
    pub(super) hash: u32,
    equality: Equality,
}

#[derive(Debug)]
enum Equality {
    Bytes,
    /// Compared by folded form, which this holds.
    Folded(Vec<u8>),
    /// The name is the text form of a name that cannot be decrypted.
    NoKey,
}

/// Whether the name is `.` or `..`.
pub fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// The hash of a name, if in this directory it is not a function of the bytes alone.
pub(super) fn special_hash(dir: &Inode, hash: u32) -> Option<u32> {
    let special =
        dir.get(|i| i.flags().contains(InodeFlags::CASEFOLD) || i.advise().contains(Advise::ENCRYPT));
    special.then_some(hash)
}

/// Checks that the bytes can be a name in any directory.
pub fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() {
        return Err(Error::Invalid("the name is empty"));
    }
    if name.iter().any(|&b| b == b'/' || b == 0) {
        return Err(Error::Invalid("the name contains a slash or a NUL"));
    }
    Ok(())
}

impl<'a> DirName<'a> {
    /// A name in an encrypted directory as stored, with the hash of its text form.
    pub fn encrypted(raw: &'a [u8], hash: Option<u32>) -> Self {
        let plain = Self::plain(raw);
        Self { hash: hash.unwrap_or(plain.hash), ..plain }
    }

    /// A name compared byte by byte.
    pub(super) fn plain(raw: &'a [u8]) -> Self {
        Self { raw, hash: name_hash(raw), equality: Equality::Bytes }
    }

    /// A name with a given hash, compared byte by byte.
    pub fn exact(raw: &'a [u8], hash: u32) -> Self {
        Self { raw, hash, equality: Equality::Bytes }
    }

    /// The same name, compared byte by byte.
    pub fn by_bytes(&self) -> Self {
        Self::exact(self.raw, self.hash)
    }

    /// The bytes as given.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The hash that the directory finds the name by.
    pub fn hash(&self) -> u32 {
        self.hash
    }

    /// Whether equal names may differ in spelling.
    pub(super) fn is_folded(&self) -> bool {
        matches!(self.equality, Equality::Folded(_))
    }

    /// Whether a stored entry has this name.
    pub(super) fn is(&self, entry: &Entry<'_>) -> bool {
        match &self.equality {
            Equality::Bytes => entry.name == self.raw,
            Equality::Folded(folded) => entry.name == self.raw || fold(entry.name).as_ref() == Some(folded),
            Equality::NoKey => nokey::encode(entry.hash, entry.name) == self.raw,
        }
    }
}

/// The folded form, if the name has one.
fn fold(name: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    casefold(name, &mut out).ok().map(|()| out)
}

impl Dirs {
    /// Prepares a name for a directory.
    pub fn name<'a>(&self, dir: &Inode, raw: &'a [u8]) -> Result<DirName<'a>> {
        check_name(raw)?;
        let (flags, advise) = dir.get(|i| (i.flags(), i.advise()));
        if is_dots(raw) {
            return Ok(DirName::plain(raw));
        }
        if advise.contains(Advise::ENCRYPT) {
            let hash = nokey::hash_of(raw).ok_or(Error::NotFound)?;
            return Ok(DirName { raw, hash, equality: Equality::NoKey });
        }
        if !flags.contains(InodeFlags::CASEFOLD) || !self.base.features.contains(Features::CASEFOLD) {
            return Ok(DirName::plain(raw));
        }
        match fold(raw) {
            Some(folded) => {
                Ok(DirName { raw, hash: casefolded_name_hash(raw), equality: Equality::Folded(folded) })
            }
            None if self.base.sb.raw.s_encoding_flags.get() & ENCODING_STRICT != 0 => {
                Err(Error::Invalid("the name is not valid UTF-8, which this directory requires"))
            }
            None => Ok(DirName::plain(raw)),
        }
    }
}
