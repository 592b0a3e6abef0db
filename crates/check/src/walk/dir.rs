//! Directories: every block of entries, and what the entries say together.
use super::file::File;
use super::{PendingDir, Via, Walk};
use crate::CheckError;
use crate::report::Kind;
use segno_format::dentry::{DentryShape, FileType};
use segno_format::inode::{Advise, Inline, InodeFlags, RawInode};
use segno_format::{Block, BlockAddr, Corrupt, Ino, Nid, Structure};
use std::collections::HashSet;

/// A directory while its entries are read.
pub(super) struct Dir {
    pub ino: u32,
    /// The root is its own parent.
    pub parent: u32,
    pub dir_level: u8,
    pub depth: u32,
    pub inline: bool,
    pub casefold: bool,
    pub encrypted: bool,
    /// Hashes of the names seen.
    pub names: HashSet<u64>,
    /// Whether `.` and `..` were found in their slots.
    pub dots: [bool; 2],
    pub subdirs: u32,
}

/// Where a block of entries is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Address, for reports.
    pub addr: BlockAddr,
    /// Block of the directory.
    pub b: u64,
}

/// An entry to follow once its block is done.
pub(super) struct Child {
    pub ino: Ino,
    pub file_type: u8,
}

impl Walk<'_, '_> {
    /// Reads a claimed directory and follows its entries.
    pub(super) fn directory(&mut self, pending: &PendingDir) -> Result<(), CheckError> {
        let (ino, via) = (pending.ino, pending.via);
        let Some(block) = self.load(Nid(ino), ino, 0)? else { return Ok(()) };
        let Some(file) = self.inode(ino, &block, via)? else { return Ok(()) };
        let raw: &RawInode = block.view();
        if !raw.is_dir() {
            return Ok(());
        }
        let mut dir = Dir {
            ino,
            parent: if let Via::Name { parent, .. } = via { parent } else { ino },
            dir_level: raw.i_dir_level,
            depth: raw.i_current_depth.get(),
            inline: raw.inline().contains(Inline::DENTRY),
            casefold: raw.flags().contains(InodeFlags::CASEFOLD),
            encrypted: raw.advise().contains(Advise::ENCRYPT),
            names: HashSet::new(),
            dots: [false; 2],
            subdirs: 0,
        };
        if dir.inline {
            let area = block.0.get(file.layout.inline_range()).unwrap_or_default();
            let addr = self.volume.nat.get(Nid(ino)).map_or(BlockAddr::NULL, |e| e.addr());
            self.entries(&mut dir, &DentryShape::inline(&file.layout), area, Place { addr, b: 0 })?;
        } else {
            self.blocks(&mut dir, &file)?;
        }
        self.finish(&dir, raw);
        Ok(())
    }

    fn blocks(&mut self, dir: &mut Dir, file: &File) -> Result<(), CheckError> {
        for &(b, addr) in file.kept.iter().flatten() {
            let block: Block = self.volume.reader.block(addr)?;
            self.entries(dir, &DentryShape::BLOCK, &block.0, Place { addr, b })?;
        }
        Ok(())
    }

    fn entries(
        &mut self,
        dir: &mut Dir,
        shape: &DentryShape,
        area: &[u8],
        place: Place,
    ) -> Result<(), CheckError> {
        let children = self.judge_entries(dir, shape, area, place);
        for child in children {
            if child.file_type == FileType::Directory as u8 {
                dir.subdirs = dir.subdirs.saturating_add(1);
            }
            self.named(child.ino.0, dir.ino, child.file_type)?;
        }
        Ok(())
    }

    fn finish(&mut self, dir: &Dir, raw: &RawInode) {
        for (found, why) in dir.dots.into_iter().zip(["entry . is missing", "entry .. is missing"]) {
            // Old inodes may ask for both to be made up.
            if !found && !raw.inline().contains(Inline::DOTS) {
                self.report(
                    dir.ino,
                    Kind::DentryDots,
                    Corrupt::nid(Structure::DentryBlock, dir.ino, why, 0, 1),
                );
            }
        }
        let (links, expected) = (raw.i_links.get(), dir.subdirs.saturating_add(2));
        if links != expected {
            let why = "i_links of a directory";
            let e = Corrupt::nid(Structure::Inode, dir.ino, why, links.into(), expected.into());
            self.report(dir.ino, Kind::InodeLinks, e);
        }
    }
}
