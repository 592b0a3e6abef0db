//! The memory of a process that mostly waits.
use crate::heap;
use rustix::mm::{Advice, madvise};
use std::fs;
use std::io;

/// A mapping of `/proc/self/smaps`.
#[derive(Default)]
struct Mapping {
    begin: usize,
    end: usize,
    /// Read-only and private, and of a file.
    is_of_file: bool,
}

/// Releases free memory of the heap, and unchanged pages of this program and its libraries, which are read
/// again from the page cache when needed. A process that waits for long then keeps resident only the pages
/// that it needs for waiting.
pub fn release_memory() -> io::Result<()> {
    let smaps = fs::read_to_string("/proc/self/smaps")?;
    let mut current = Mapping::default();
    for line in smaps.lines() {
        if let Some(mapping) = Mapping::parse(line) {
            current = mapping;
        } else if current.is_of_file && line.split_whitespace().eq(["Anonymous:", "0", "kB"]) {
            current.release()?;
        }
    }
    drop(smaps);
    heap::trim();
    Ok(())
}

impl Mapping {
    /// Parses the first line of a mapping: `begin-end rwxp offset device inode path`.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let (begin, end) = fields.next()?.split_once('-')?;
        let (mode, inode) = (fields.next()?, fields.nth(2)?);
        let address = |text| usize::from_str_radix(text, 16).ok();
        let is_of_file = mode.starts_with("r-") && mode.ends_with('p') && inode != "0";
        Some(Self { begin: address(begin)?, end: address(end)?, is_of_file })
    }

    fn release(&self) -> io::Result<()> {
        let pages = std::ptr::without_provenance_mut(self.begin);
        // SAFETY: no page of the mapping differs from its file, as none is anonymous, and none will, as it is not writable: each is
        // read again with the same content.
        unsafe { madvise(pages, self.end - self.begin, Advice::LinuxDontNeed) }?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_mappings_of_files_that_cannot_be_written_are_released() {
        let of = |mode, inode| {
            let line = format!("1000-3000 {mode} 00002000 fe:00 {inode}   /usr/bin/segno");
            Mapping::parse(&line).map(|m| (m.begin, m.end, m.is_of_file))
        };
        assert_eq!(of("r-xp", "42"), Some((0x1000, 0x3000, true)));
        for (mode, inode) in [("rw-p", "42"), ("r--s", "42"), ("r--p", "0")] {
            assert_eq!(of(mode, inode), Some((0x1000, 0x3000, false)), "{mode} {inode}");
        }
        assert!(Mapping::parse("Anonymous:             0 kB").is_none());
    }

    #[test]
    fn a_process_works_after_it_released_its_memory() -> io::Result<()> {
        release_memory()?;
        release_memory()
    }
}
