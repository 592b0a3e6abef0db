//! Sparse files in an archive: which extents of the file the data holds.
use super::entry::{Entry, Sparse};
use super::header::{BLOCK, GnuSparse, more_extents};
use super::spool::Spool;
use crate::content::ArchiveExtent;

/// Extents that are accepted in one file.
const MOST_EXTENTS: usize = 1 << 20;
/// Bytes of a number in the list in front of the data.
const LONGEST_NUMBER: usize = 64;

/// Offset and length of each part of the file, in the order of the data, and the size of the file. If the
/// data starts with a list of the extents, the list is consumed.
pub(super) fn extents(spool: &mut Spool, entry: &Entry) -> Result<(Vec<(u64, u64)>, u64), String> {
    let header = &entry.header;
    let (extents, size) = match &entry.sparse {
        Some(Sparse::Gnu(sparse)) => gnu_extents(spool, sparse)?,
        None => (vec![(0, header.size)], header.size),
        Some(Sparse::Extents(extents, size)) => (extents.clone(), *size),
        Some(Sparse::InData(size)) => (list(spool, header.size)?, *size),
    };
    check(&extents, size)?;
    let stored: u64 = extents.iter().map(|(_, len)| len).sum();
    if stored > header.size {
        return Err(format!("its parts have {stored} bytes, and {} are stored", header.size));
    }
    Ok((extents, size))
}

/// Bytes of the entry's data that are left where the extents begin.
pub(super) fn stored_size(entry: &Entry, stored: u64) -> u64 {
    match entry.sparse {
        // The list was read with its padding; extents are all that is left.
        Some(Sparse::InData(_)) => stored,
        _ => entry.header.size,
    }
}

/// The extents as places in the archive.
pub(super) fn placed(extents: &[(u64, u64)], mut at: u64) -> Vec<ArchiveExtent> {
    let each = extents.iter().map(|&(start, len)| {
        let extent = ArchiveExtent { start, len, at };
        at += len;
        extent
    });
    each.filter(|p| p.len > 0).collect()
}

/// Extents must ascend and end within the file.
fn check(extents: &[(u64, u64)], size: u64) -> Result<(), String> {
    let mut end = 0u64;
    for &(offset, len) in extents {
        let behind = offset.checked_add(len).filter(|_| offset >= end);
        end = behind.filter(|&b| b <= size).ok_or("the parts of a sparse file overlap or leave it")?;
    }
    Ok(())
}

/// The old GNU form: in the header and in the blocks after it.
pub(super) fn gnu_extents(spool: &mut Spool, sparse: &GnuSparse) -> Result<(Vec<(u64, u64)>, u64), String> {
    let (mut extents, mut more, size) = sparse.clone();
    while more {
        let mut block = [0; BLOCK];
        if !spool.fill(&mut block)? {
            return Err("the archive ends in the parts of a sparse file".into());
        }
        let (next, again) = more_extents(&block)?;
        extents.extend(next);
        if extents.len() > MOST_EXTENTS {
            return Err(format!("a sparse file has more than {MOST_EXTENTS} parts"));
        }
        more = again;
    }
    Ok((extents, size))
}

/// The list in front of the data: decimal numbers, one a line, padded to whole blocks.
fn list(spool: &mut Spool, stored: u64) -> Result<Vec<(u64, u64)>, String> {
    let mut numbers = Numbers { spool, text: Vec::new(), at: 0, left: stored };
    let count = numbers.next()?;
    if count > MOST_EXTENTS as u64 {
        return Err(format!("a sparse file has {count} parts"));
    }
    (0..count).map(|_| Ok((numbers.next()?, numbers.next()?))).collect()
}

struct Numbers<'a> {
    spool: &'a mut Spool,
    text: Vec<u8>,
    at: usize,
    left: u64,
}

impl Numbers<'_> {
    fn next(&mut self) -> Result<u64, String> {
        let broken = || "the list of parts of a sparse file is no list of numbers".to_owned();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|&b| b == b'\n') {
                let number = super::pax::decimal(rest.get(..end).unwrap_or_default());
                self.at += end + 1;
                return number.ok_or_else(broken);
            }
            let mut block = [0; BLOCK];
            if rest.len() > LONGEST_NUMBER || self.left < BLOCK as u64 || !self.spool.fill(&mut block)? {
                return Err(broken());
            }
            self.left -= BLOCK as u64;
            self.text.drain(..self.at);
            self.at = 0;
            self.text.extend_from_slice(&block);
        }
    }
}
