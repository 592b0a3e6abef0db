//! Device files, pipes and sockets: files without contents.
use super::file::File;
use crate::report::Kind;
use segno_format::dentry::FileType;
use segno_format::inode::RawInode;
use segno_format::{BlockAddr, Corrupt, Structure};

/// What is wrong with one. The first slots hold a device number instead of addresses.
pub(super) fn problems(file: &File, raw: &RawInode, kind: FileType) -> Vec<(Kind, Corrupt)> {
    let word = |i| raw.slot(&file.layout, i);
    let mut found = Vec::new();
    let mut require = |ok: bool, why, stored: u64, expected: u64| {
        if !ok {
            let e = Corrupt::nid(Structure::Inode, file.ino, why, stored, expected);
            found.push((Kind::DeviceNumber, e));
        }
    };
    require(raw.i_size.get() == 0, "i_size of a special file", raw.i_size.get(), 0);
    let (old, new) = (word(0), word(1));
    let numbered = matches!(kind, FileType::CharDevice | FileType::BlockDevice);
    let limit = if numbered { u32::from(u16::MAX) } else { 0 };
    require(old.0 <= limit, "short device number", old.0.into(), limit.into());
    let alone = numbered && old == BlockAddr::NULL || new == BlockAddr::NULL;
    require(alone, "long device number", new.0.into(), 0);
    let rest = (2..file.layout.slots).filter(|&i| word(i) != BlockAddr::NULL).count();
    require(rest == 0, "slots in use in a special file", rest as u64, 0);
    let nids = raw.i_nid.iter().filter(|n| n.get() != 0).count();
    require(nids == 0, "index nodes of a special file", nids as u64, 0);
    found
}
