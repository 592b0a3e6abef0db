//! The bytes of an accepted group, read in place.
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

/// A section of a payload, not decoded yet.
#[derive(Clone, Copy, Debug)]
pub struct PayloadSection<'a> {
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

    /// The sections that the checkpoint does not have, in replay order. An error is the last item.
    pub fn sections(&self) -> impl Iterator<Item = Result<PayloadSection<'_>>> {
        let mut bytes = Bytes(self.loaded.payload());
        let one = move || {
            if bytes.0.is_empty() {
                return None;
            }
            let section = self.take(&mut bytes);
            if section.is_err() {
                bytes = Bytes(&[]);
            }
            Some(section.map_err(|why| self.which.corrupt(why)))
        };
        std::iter::from_fn(one).filter(|section| section.as_ref().map_or(true, |p| p.epoch > self.boundary))
    }

    fn take<'a>(&'a self, bytes: &mut Bytes<'a>) -> std::result::Result<PayloadSection<'a>, &'static str> {
        let (ino, len, erel) = (Ino(bytes.u32()?), bytes.u32()?, bytes.u32()?);
        let body = bytes.take(len as usize)?;
        let epoch = self.which.epoch.checked_add(erel.into()).ok_or("epoch of a section")?;
        Ok(PayloadSection { ino, epoch, which: &self.which, body })
    }

    /// Decodes the group into owned records.
    pub fn group(&self) -> Result<Group> {
        let decode = |section: PayloadSection<'_>| {
            let records = section.records().collect::<Result<_>>()?;
            Ok(Section { ino: section.ino, epoch: section.epoch, records })
        };
        let sections = self.sections().map(|section| decode(section?)).collect::<Result<_>>()?;
        Ok(Group { kind: self.which.kind, epoch: self.which.epoch, sections })
    }
}

impl<'a> PayloadSection<'a> {
    /// The records of the section in order. An error is the last item.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::area::Area;
    use crate::group::Kind;
    use crate::header::Header;
    use crate::ring::{Ring, Window};
    use segno_device::MemDevice;
    use std::sync::Arc;

    /// Reads back sections with epochs `counted` relative to that of the group.
    fn epochs(epoch: u64, counted: &[u32]) -> Vec<std::result::Result<u64, String>> {
        let ring = Ring { area: Area::whole(Arc::new(MemDevice::new(2 + 16))), blocks: 16, seed: 7 };
        let mut header = Header::sound();
        let section = |erel: &u32| [4, 0, *erel].map(u32::to_le_bytes).concat();
        let bytes: Vec<u8> = counted.iter().flat_map(section).collect();
        let (blocks, _) = ring.compose(&mut header, &bytes);
        ring.write(0, &blocks).unwrap();
        let loaded = ring.load(&mut Window::default(), 0).unwrap().unwrap();
        let which = Accepted { seq: 1, kind: Kind::Epoch, epoch, last_epoch: epoch, bytes: 4096, index: 0 };
        let payload = Payload::new(&which, 0, loaded).unwrap();
        payload.sections().map(|section| section.map(|p| p.epoch).map_err(|e| e.to_string())).collect()
    }

    #[test]
    fn a_section_of_an_epoch_that_there_is_not_ends_the_group() {
        assert_eq!(epochs(7, &[0, u32::MAX]), [Ok(7), Ok(7 + u64::from(u32::MAX))]);
        let found = epochs(u64::MAX - 1, &[1, 2, 0]);
        assert!(
            matches!(&found[..], [Ok(u64::MAX), Err(why)] if why.contains("epoch of a section")),
            "{found:?}"
        );
    }
}
