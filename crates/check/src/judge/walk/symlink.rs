//! Symbolic links: the target must fit into a block and have no NUL. Without a block it may be empty, because
//! a checkpoint can fall between the creation of a link and the writing of its target.
use super::Walk;
use super::file::File;
use crate::CheckError;
use crate::report::Kind;
use segno_format::inode::{Advise, Inline, RawInode};
use segno_format::{BLOCK_SIZE, Block, Corrupt, Structure};

/// Longest target of a symbolic link.
const TARGET_MAX: u64 = BLOCK_SIZE as u64 - 1;

impl Walk<'_, '_> {
    pub(super) fn symlink(&mut self, file: &File, block: &Block) -> Result<(), CheckError> {
        let inline = block.view::<RawInode>().inline().contains(Inline::DATA);
        let stored = match file.first {
            Some(addr) if !inline => Some(self.volume.reader.block(addr)?),
            _ => None,
        };
        if stored.is_some() && block.view::<RawInode>().i_size.get() == 0 {
            let e = Corrupt::nid(Structure::Symlink, file.ino, "length of a target that is stored", 0, 1);
            self.report(file.ino, Kind::Symlink, e);
        }
        let outside = stored.as_ref().map(|b| b.0.as_slice());
        if let Some(e) = problem(file, block.view(), outside.or_else(|| inline_target(file, block))) {
            self.report(file.ino, Kind::Symlink, e);
        }
        Ok(())
    }
}

/// The error in the target of an inline symlink; `None` for other files.
pub(super) fn inline_problem(file: &File, block: &Block) -> Option<Corrupt> {
    let raw: &RawInode = block.view();
    if raw.is_symlink() { problem(file, raw, inline_target(file, block)) } else { None }
}

fn inline_target<'b>(file: &File, block: &'b Block) -> Option<&'b [u8]> {
    let inline = block.view::<RawInode>().inline().contains(Inline::DATA);
    block.0.get(file.layout.inline_range()).filter(|_| inline)
}

fn problem(file: &File, raw: &RawInode, bytes: Option<&[u8]>) -> Option<Corrupt> {
    let size = raw.i_size.get();
    let bad =
        |why, found: u64, expected: u64| Corrupt::nid(Structure::Symlink, file.ino, why, found, expected);
    if size > TARGET_MAX {
        return Some(bad("length of the target", size, TARGET_MAX));
    }
    if raw.advise().contains(Advise::ENCRYPT) {
        return None;
    }
    let target = bytes.and_then(|b| b.get(..size as usize)).unwrap_or_default();
    let at = target.iter().position(|&b| b == 0)?;
    Some(bad("NUL byte inside the target", at as u64, size))
}
