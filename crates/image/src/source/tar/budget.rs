//! Memory that the tree of an archive may take, and time for its paths.
use crate::content::ArchiveExtent;
use crate::tree::Inode;

/// Bytes that any archive may take.
const FREE: u64 = 32 << 20;
/// Bytes more for each byte of the archive as it is stored, compressed or not. 300,000 empty files with ascending names, compressed
/// by gzip -9 to 6 bytes each, take about 50.
const FOR_EACH: u64 = 128;
/// Bytes of paths compared with those to leave out, in any archive, and for each byte of it as it is stored. A path is compared once
/// for each directory on its way.
const FREE_COMPARED: u64 = 1 << 32;
const COMPARED_FOR_EACH: u64 = 1 << 12;
/// Bytes of a name and a record, without their text: nodes of maps, and the overhead of allocations.
const ENTRY: usize = 64;

/// Counts what is kept. So the memory for an archive follows from the bytes of it that somebody had to send, not from
/// the headers that they unpack to.
#[derive(Debug, Default)]
pub(super) struct Budget {
    used: u64,
    compared: u64,
}

impl Budget {
    /// Takes bytes while `stored` bytes of the archive were read.
    fn take(&mut self, bytes: usize, stored: u64) -> Result<(), String> {
        self.used = self.used.saturating_add(bytes as u64);
        let most = FREE.saturating_add(stored.saturating_mul(FOR_EACH));
        if self.used <= most {
            return Ok(());
        }
        Err(format!(
            "the names and attributes so far take more than {most} bytes, and {stored} bytes of the archive were read: it may be made \
             to exhaust the memory; if it can be trusted, unpack it and build the directory"
        ))
    }

    /// A path of directories that is compared with those to leave out.
    pub(super) fn compare(&mut self, directories: usize, bytes: usize, stored: u64) -> Result<(), String> {
        self.compared = self.compared.saturating_add((directories as u64).saturating_mul(bytes as u64));
        if self.compared <= FREE_COMPARED.saturating_add(stored.saturating_mul(COMPARED_FOR_EACH)) {
            return Ok(());
        }
        Err("its paths are too deep to be compared with those to leave out: unpack it and build the directory".into())
    }

    /// An inode and its name, with the text of both.
    pub(super) fn inode(&mut self, text: usize, stored: u64) -> Result<(), String> {
        self.take(size_of::<Inode>() + ENTRY + text, stored)
    }

    /// Records or attributes with the text of all of them.
    pub(super) fn records(&mut self, count: usize, text: usize, stored: u64) -> Result<(), String> {
        self.take(count.saturating_mul(ENTRY).saturating_add(text), stored)
    }

    /// Extents of a sparse file.
    pub(super) fn extents(&mut self, count: usize, stored: u64) -> Result<(), String> {
        self.take(count.saturating_mul(size_of::<ArchiveExtent>()), stored)
    }
}
