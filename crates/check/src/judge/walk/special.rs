//! Device files, pipes and sockets: files without contents.
use super::file::File;
use crate::report::{Kind, Rules};
use segno_format::BlockAddr;
use segno_format::dentry::FileType;
use segno_format::inode::RawInode;

/// Rules for one. The first slots hold a device number instead of addresses.
pub(super) fn check(file: &File, raw: &RawInode, kind: FileType) -> Rules {
    let word = |i| raw.slot(&file.layout, i);
    let mut rules = file.rules(Kind::DeviceNumber);
    rules.equal("i_size of a special file", raw.i_size.get(), 0u64);
    let (old, new) = (word(0), word(1));
    let numbered = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
    let limit = if numbered { u32::from(u16::MAX) } else { 0 };
    rules.require(old.0 <= limit, "short device number", old.0, limit);
    let alone = numbered && old == BlockAddr::NULL || new == BlockAddr::NULL;
    rules.require(alone, "long device number", new.0, 0u64);
    let rest = (2..file.layout.slots).filter(|&i| word(i) != BlockAddr::NULL).count();
    rules.equal("slots in use in a special file", rest as u64, 0u64);
    let nids = raw.i_nid.iter().filter(|n| n.get() != 0).count();
    rules.equal("index nodes of a special file", nids as u64, 0u64);
    rules
}
