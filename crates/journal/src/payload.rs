//! The bytes of a group that counts, read where they are.
use crate::bytes::Bytes;
use crate::error::Result;
use crate::group::{Accepted, Group, Section};
use crate::record::Record;
use crate::ring::Loaded;
use segno_format::Ino;

/// A group whose checksums are right.
#[derive(Debug)]
pub struct Payload {
    which: Accepted,
    /// Sections of epochs up to this one are in the checkpoint.
    boundary: u64,
    loaded: Loaded,
}

/// A section of it.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The inode that the records change.
    pub ino: Ino,
    /// Epoch of the records.
    pub epoch: u64,
    which: &'a Accepted,
    body: &'a [u8],
}

impl Payload {
    pub(crate) fn new(which: &Accepted, boundary: u64, loaded: Loaded) -> Result<Self> {
        if loaded.header.seq != which.seq {
            return Err(which.corrupt("it changed while it was read"));
        }
        Ok(Self { which: *which, boundary, loaded })
    }

    /// Bytes in the log.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.which.bytes
    }

    /// What the checkpoint does not have, in replay order. Nothing follows an error.
    pub fn sections(&self) -> impl Iterator<Item = Result<Part<'_>>> {
        let mut bytes = Bytes(self.loaded.payload());
        let one = move || {
            if bytes.0.is_empty() {
                return None;
            }
            let part = self.take(&mut bytes);
            if part.is_err() {
                bytes = Bytes(&[]);
            }
            Some(part.map_err(|why| self.which.corrupt(why)))
        };
        std::iter::from_fn(one).filter(|part| part.as_ref().map_or(true, |p| p.epoch > self.boundary))
    }

    fn take<'a>(&'a self, bytes: &mut Bytes<'a>) -> std::result::Result<Part<'a>, &'static str> {
        let (ino, len, erel) = (Ino(bytes.u32()?), bytes.u32()?, bytes.u32()?);
        let body = bytes.take(len as usize)?;
        let epoch = self.which.epoch.checked_add(erel.into()).ok_or("epoch of a section")?;
        Ok(Part { ino, epoch, which: &self.which, body })
    }

    /// All of it, copied.
    pub fn group(&self) -> Result<Group> {
        let section = |part: Part<'_>| {
            let records = part.records().collect::<Result<_>>()?;
            Ok(Section { ino: part.ino, epoch: part.epoch, records })
        };
        let sections = self.sections().map(|part| section(part?)).collect::<Result<_>>()?;
        Ok(Group { kind: self.which.kind, epoch: self.which.epoch, sections })
    }
}

impl<'a> Part<'a> {
    /// Nothing follows an error.
    pub fn records<B: From<&'a [u8]>>(&self) -> impl Iterator<Item = Result<Record<B>>> + use<'a, B> {
        let Self { which, mut body, .. } = *self;
        std::iter::from_fn(move || {
            if body.is_empty() {
                return None;
            }
            let record = Record::decode(&mut body);
            if record.is_err() {
                body = &[];
            }
            Some(record.map_err(|why| which.corrupt(why)))
        })
    }
}
