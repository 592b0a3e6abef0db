//! Inline data and inline directories: the word before them and the index stay empty.
use super::file::File;
use crate::evidence::reader::{is_zero, nonzero};
use crate::report::Kind;
use segno_format::inode::{Inline, RawInode};
use segno_format::{Block, Corrupt, Structure};

/// What is wrong with them, and with the fields that describe them.
pub(super) fn problems(file: &File, block: &Block) -> Vec<(Kind, Corrupt)> {
    let raw: &RawInode = block.view();
    let mut found = Vec::new();
    let mut add = |kind, why, stored: u64, expected: u64| {
        found.push((kind, Corrupt::nid(Structure::Inode, file.ino, why, stored, expected)));
    };
    let word = block.u32_at(file.layout.base());
    if word != 0 {
        add(Kind::InlineData, "first slot of an inline file", word.into(), 0);
    }
    if let Some(nid) = raw.i_nid.iter().find(|n| n.get() != 0) {
        add(Kind::InlineData, "index node of an inline file", nid.get().into(), 0);
    }
    let (size, capacity) = (raw.i_size.get(), file.layout.inline_capacity() as u64);
    if size > capacity {
        add(Kind::InlineData, "i_size of an inline file", size, capacity);
        return found;
    }
    if raw.inline().contains(Inline::DENTRY) {
        return found;
    }
    let area = block.0.get(file.layout.inline_range()).unwrap_or_default();
    let (data, rest) = area.split_at_checked(size as usize).unwrap_or_default();
    if !raw.inline().contains(Inline::DATA_EXIST) && !is_zero(data) {
        add(Kind::InlineData, "data without the DATA_EXIST flag", nonzero(data), 0);
    }
    if !is_zero(rest) {
        add(Kind::Padding, "bytes in use past the end of inline data", nonzero(rest), 0);
    }
    found
}
