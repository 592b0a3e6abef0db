//! One inode: its fields, its index, its attributes, and the counts that must agree.
use super::file::File;
use super::named::Named;
use super::{Via, Walk, fields, inline, special, xattr};
use crate::CheckError;
use crate::judge::quota::Owners;
use crate::report::Kind;
use segno_format::dentry::FileType;
use segno_format::inode::{Inline, RawInode, verify_checksum};
use segno_format::node::XATTR_NODE_OFFSET;
use segno_format::{BLOCK_SIZE, Block, Corrupt, Nid, Structure};

impl Walk<'_, '_> {
    /// Checks an inode and everything that hangs from it but the entries of a directory.
    pub(super) fn inode(&mut self, ino: u32, block: &Block, via: Via) -> Result<Option<File>, CheckError> {
        let raw: &RawInode = block.view();
        let features = self.volume.sb.features;
        self.count(FileType::of_mode(raw.i_mode.get()));
        if let Err(e) = verify_checksum(block, features, self.volume.sb.inode_checksum_seed()) {
            self.report(ino, Kind::InodeChecksum, e);
        }
        if via != Via::Quota {
            // mkfs.f2fs writes quota files without the bit.
            self.check_cold_bit(Nid(ino), ino, block, raw.is_dir());
        }
        self.check_via(ino, raw, via);
        let layout = match raw.layout(features) {
            Ok(layout) => layout,
            Err(e) => {
                self.report(ino, Kind::Inode, e);
                return Ok(None);
            }
        };
        for e in fields::check(ino, raw, &layout, &self.volume.sb) {
            self.report(ino, Kind::Inode, e);
        }
        let mut file = File::new(ino, raw, layout, features);
        file.kept = (raw.is_dir() || via == Via::Quota).then(Vec::new);
        self.contents(&mut file, block, via)?;
        let node = self.xattr_node(&mut file, raw)?;
        self.report_all(ino, xattr::problems(&file, block, node.as_ref()));
        self.report_all(ino, file.count_problems(raw, features));
        if via != Via::Quota
            && let Some(owners) = Owners::of(raw, features)
        {
            self.found.usage.add(owners, file.blocks);
        }
        Ok(Some(file))
    }

    pub(super) fn count(&mut self, file_type: FileType) {
        let n = match file_type {
            FileType::Regular => &mut self.found.files,
            FileType::Directory => &mut self.found.dirs,
            FileType::Symlink => &mut self.found.symlinks,
            _ => &mut self.found.special_files,
        };
        *n = n.saturating_add(1);
        self.found.inodes = self.found.inodes.saturating_add(1);
        self.tell();
    }

    /// Checks what depends on how the inode was found: type, links, parent.
    fn check_via(&mut self, ino: u32, raw: &RawInode, via: Via) {
        let file_type = FileType::of_mode(raw.i_mode.get());
        let bad = |why, found: u32, expected: u32| {
            Corrupt::nid(Structure::Inode, ino, why, found.into(), expected.into())
        };
        let links = raw.i_links.get();
        match via {
            Via::Root => {
                if file_type != FileType::Directory {
                    self.report(ino, Kind::DentryType, bad("type of the root inode", file_type as u32, 2));
                }
            }
            Via::Name { parent, file_type: stored } => {
                let named = Named::of(raw);
                for (who, kind, e) in named.problems(ino, parent, stored) {
                    self.report(who, kind, e);
                }
                if !raw.is_dir() {
                    self.links.first(ino, links, file_type as u8);
                }
            }
            Via::Orphan => {
                if links != 0 {
                    self.report(ino, Kind::Orphan, bad("i_links of an orphan", links, 0));
                }
            }
            Via::Quota => {
                if file_type != FileType::Regular {
                    self.report(ino, Kind::Quota, bad("type of a quota file", file_type as u32, 1));
                }
                if links != 1 {
                    self.report(ino, Kind::InodeLinks, bad("i_links of a quota file", links, 1));
                }
            }
        }
    }

    fn contents(&mut self, file: &mut File, block: &Block, via: Via) -> Result<(), CheckError> {
        let raw: &RawInode = block.view();
        let inline = raw.inline();
        match FileType::of_mode(raw.i_mode.get()) {
            FileType::Regular | FileType::Directory | FileType::Symlink | FileType::Unknown => {}
            special => {
                self.report_all(file.ino, special::problems(file, raw, special));
                return Ok(());
            }
        }
        if inline.intersects(Inline::DATA | Inline::DENTRY) {
            self.report_all(file.ino, inline::problems(file, block));
        } else {
            self.index(file, raw)?;
            if file.is_dir && via != Via::Orphan {
                self.check_dir_size(file, raw);
            }
        }
        if raw.is_symlink() {
            self.symlink(file, block)?;
        }
        Ok(())
    }

    fn check_dir_size(&mut self, file: &File, raw: &RawInode) {
        let size = raw.i_size.get();
        let covered = size / BLOCK_SIZE as u64;
        let bad =
            |why, found: u64, expected: u64| Corrupt::nid(Structure::Inode, file.ino, why, found, expected);
        if !size.is_multiple_of(BLOCK_SIZE as u64) {
            self.report(
                file.ino,
                Kind::Inode,
                bad("i_size of a directory", size, covered * BLOCK_SIZE as u64),
            );
        }
        if file.end > covered {
            self.report(file.ino, Kind::Inode, bad("blocks of a directory past i_size", file.end, covered));
        }
    }

    fn xattr_node(&mut self, file: &mut File, raw: &RawInode) -> Result<Option<Block>, CheckError> {
        let nid = Nid(raw.i_xattr_nid.get());
        if nid == Nid::NONE {
            return Ok(None);
        }
        let node = self.node(nid, file.ino, XATTR_NODE_OFFSET)?;
        if let Some(block) = &node {
            file.blocks = file.blocks.saturating_add(1);
            self.check_cold_bit(nid, file.ino, block, file.is_dir);
        }
        Ok(node)
    }

    pub(super) fn report_all(&mut self, ino: u32, found: Vec<(Kind, Corrupt)>) {
        found.into_iter().for_each(|(kind, e)| self.report(ino, kind, e));
    }
}
