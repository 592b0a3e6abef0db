//! Inline data and inline directories: the reserved word before them and the index must be empty.
use super::file::File;
use crate::evidence::reader::{is_zero, nonzero};
use crate::report::{Kind, Rules};
use segno_format::Block;
use segno_format::inode::{Inline, RawInode};

/// Rules for them, and for the fields that describe them.
pub(super) fn check(file: &File, block: &Block) -> Rules {
    let raw: &RawInode = block.view();
    let mut rules = file.rules(Kind::InlineData);
    rules.equal("first slot of an inline file", block.u32_at(file.layout.base()), 0u64);
    let nid = raw.i_nid.iter().find(|n| n.get() != 0).map_or(0, |n| n.get());
    rules.equal("index node of an inline file", nid, 0u64);
    let (size, capacity) = (raw.i_size.get(), file.layout.inline_capacity() as u64);
    let fits = rules.require(size <= capacity, "i_size of an inline file", size, capacity);
    if !fits || raw.inline().contains(Inline::DENTRY) {
        return rules;
    }
    let area = block.0.get(file.layout.inline_range()).unwrap_or_default();
    let (data, rest) = area.split_at_checked(size as usize).unwrap_or_default();
    if !raw.inline().contains(Inline::DATA_EXIST) && !is_zero(data) {
        rules.equal("data without the DATA_EXIST flag", nonzero(data), 0u64);
    }
    if !is_zero(rest) {
        rules.of(Kind::Padding).equal("bytes in use past the end of inline data", nonzero(rest), 0u64);
    }
    rules
}
