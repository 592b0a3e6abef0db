//! Symbolic links, device files, pipes and sockets.
use super::Walk;
use super::file::File;
use crate::CheckError;
use crate::report::Kind;
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, Inline, RawInode};
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Corrupt, Structure};

/// Longest target of a symbolic link.
const TARGET_MAX: u64 = BLOCK_SIZE as u64 - 1;

impl Walk<'_, '_> {
    /// The target: short enough for a block, and without a NUL. It may be empty: a checkpoint can fall between the
    /// creation of a link and the writing of its target.
    pub(super) fn symlink(&mut self, file: &File, block: &Block) -> Result<(), CheckError> {
        let raw: &RawInode = block.view();
        let size = raw.i_size.get();
        let bad =
            |why, found: u64, expected: u64| Corrupt::nid(Structure::Symlink, file.ino, why, found, expected);
        if size > TARGET_MAX {
            self.report(file.ino, Kind::Symlink, bad("length of the target", size, TARGET_MAX));
            return Ok(());
        }
        if raw.advise().contains(Advise::ENCRYPT) {
            return Ok(());
        }
        let stored;
        let bytes = if raw.inline().contains(Inline::DATA) {
            block.0.get(file.layout.inline_range())
        } else if let Some(addr) = file.first {
            stored = self.volume.reader.block(addr)?;
            Some(stored.0.as_slice())
        } else {
            return Ok(());
        };
        let target = bytes.and_then(|b| b.get(..size as usize)).unwrap_or_default();
        if let Some(at) = target.iter().position(|&b| b == 0) {
            self.report(file.ino, Kind::Symlink, bad("NUL byte inside the target", at as u64, size));
        }
        Ok(())
    }

    /// Files without contents. The first slots hold a device number instead of addresses.
    pub(super) fn special(&mut self, file: &File, raw: &RawInode, kind: FileType) {
        let word = |i| raw.slot(&file.layout, i);
        let mut require = |ok: bool, why, found: u64, expected: u64| {
            if !ok {
                let e = Corrupt::nid(Structure::Inode, file.ino, why, found, expected);
                self.sink.add_for(file.ino, Kind::DeviceNumber, e);
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
    }
}
