//! Groups of records, which are appended at once and accepted as a whole.
use crate::error::{Error, Result};
use crate::record::Record;
use segno_format::Ino;

/// Bytes of a section's header: ino, length of the records, epoch counted from the group's.
const SECTION_HEADER: usize = 12;

/// Kind of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All records of an epoch that are not in the log yet.
    Epoch,
    /// Complete operations of epochs whose group follows later, with all operations that they depend on.
    Fsync,
}

/// The records of one inode and epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The inode that the records change.
    pub ino: Ino,
    /// Epoch of the records, at least that of the group.
    pub epoch: u64,
    /// In the order in which they were made.
    pub records: Vec<Record>,
}

/// Records that are appended at once and accepted as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Whether the group closes epochs.
    pub kind: Kind,
    /// The lowest epoch of the sections.
    pub epoch: u64,
    /// In replay order.
    pub sections: Vec<Section>,
}

/// A group that is accepted for replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Sequence number.
    pub seq: u64,
    /// Whether it closes epochs.
    pub kind: Kind,
    /// Lowest epoch of a section.
    pub epoch: u64,
    /// Highest epoch of a section.
    pub last_epoch: u64,
    /// Bytes in the log.
    pub bytes: u64,
    pub(crate) index: u64,
}

impl Accepted {
    /// The error for invalid content under correct checksums.
    pub(crate) fn corrupt(&self, why: &'static str) -> Error {
        Error::Corrupt { seq: self.seq, at: self.index, why }
    }
}

impl Group {
    /// The highest epoch of a section.
    pub(crate) fn last_epoch(&self) -> u64 {
        self.sections.iter().map(|s| s.epoch).fold(self.epoch, u64::max)
    }

    /// The sections as bytes, cut into payloads of up to `most` bytes. A payload is larger only if a single
    /// record is.
    pub(crate) fn payloads(&self, most: usize) -> Result<Vec<Vec<u8>>> {
        let mut out = vec![Vec::new()];
        let mut record_bytes = Vec::new();
        for section in &self.sections {
            let erel = section.epoch.checked_sub(self.epoch).and_then(|e| u32::try_from(e).ok());
            let erel = erel.ok_or(Error::Epoch { section: section.epoch, group: self.epoch })?;
            let mut open: Option<usize> = None;
            for record in &section.records {
                record_bytes.clear();
                record.encode(&mut record_bytes);
                let mut rest = record_bytes.as_slice();
                // A mapping of many runs is several records; each is an atom.
                while let Some(one) = split_record(&mut rest) {
                    let need = one.len() + if open.is_none() { SECTION_HEADER } else { 0 };
                    if out.last().is_some_and(|p| !p.is_empty() && p.len() + need > most) {
                        out.push(Vec::new());
                        open = None;
                    }
                    let Some(payload) = out.last_mut() else { continue };
                    let at = *open.get_or_insert_with(|| begin_section(payload, section.ino, erel));
                    payload.extend(one);
                    end_section(payload, at);
                }
            }
        }
        Ok(out)
    }
}

/// Takes the bytes of one encoded record off the front.
fn split_record<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let [_, _, low, high] = *bytes.first_chunk::<4>()?;
    let (one, rest) = bytes.split_at_checked(usize::from(u16::from_le_bytes([low, high])) * 4)?;
    *bytes = rest;
    Some(one)
}

fn begin_section(payload: &mut Vec<u8>, ino: Ino, erel: u32) -> usize {
    let at = payload.len();
    payload.extend(ino.0.to_le_bytes());
    payload.extend(0u32.to_le_bytes());
    payload.extend(erel.to_le_bytes());
    at
}

fn end_section(payload: &mut [u8], at: usize) {
    let len = (payload.len() - at - SECTION_HEADER) as u32;
    if let Some(place) = payload.get_mut(at + 4..at + 8) {
        place.copy_from_slice(&len.to_le_bytes());
    }
}
