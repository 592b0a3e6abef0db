//! One inode: its fields, its index, its attributes, and the counts that must agree.
use super::file::File;
use super::named::Named;
use super::{Via, Walk, fields, inline, special, xattr};
use crate::CheckError;
use crate::judge::quota::payers;
use crate::report::{Kind, Rules};
use segno_format::dentry::FileType;
use segno_format::inode::{Inline, RawInode, verify_checksum};
use segno_format::node::XATTR_NODE_OFFSET;
use segno_format::{BLOCK_SIZE, Block, Features, Nid, Structure, Unit};

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
        let mut file = File::new(ino, raw, layout, features);
        self.report_broken(ino, fields::check(&file, raw, &self.volume.sb));
        file.kept = (raw.is_dir() || via == Via::Quota).then(Vec::new);
        self.contents(&mut file, block, via)?;
        let node = self.xattr_node(&mut file, raw)?;
        self.report_broken(ino, xattr::check(&file, block, node.as_ref()));
        self.report_broken(ino, file.counts(raw, features));
        if via != Via::Quota && features.contains(Features::QUOTA_INO) {
            self.found.usage.add(payers(raw, features), file.blocks);
        }
        Ok(Some(file))
    }

    pub(super) fn count(&mut self, file_type: FileType) {
        let n = match file_type {
            FileType::Regular => &mut self.found.counts.files,
            FileType::Directory => &mut self.found.counts.dirs,
            FileType::Symlink => &mut self.found.counts.symlinks,
            _ => &mut self.found.counts.special_files,
        };
        *n = n.saturating_add(1);
        self.found.counts.inodes = self.found.counts.inodes.saturating_add(1);
        self.tell();
    }

    /// Checks what depends on how the inode was found: type, links, parent.
    fn check_via(&mut self, ino: u32, raw: &RawInode, via: Via) {
        let (file_type, links) = (FileType::of_mode(raw.i_mode.get()) as u8, raw.i_links.get());
        let mut rules = Rules::new(Kind::DentryType, Structure::Inode, Unit::Nid, ino);
        match via {
            Via::Root => {
                rules.equal("type of the root inode", file_type, FileType::Directory as u8);
            }
            Via::Name { parent, file_type: stored } => {
                for (who, kind, e) in Named::of(raw).problems(ino, parent, stored) {
                    self.report(who, kind, e);
                }
                if !raw.is_dir() {
                    self.links.first(ino, links, file_type);
                }
            }
            Via::Orphan => {
                rules.of(Kind::Orphan).equal("i_links of an orphan", links, 0u64);
            }
            Via::Quota => {
                rules.of(Kind::Quota).equal("type of a quota file", file_type, FileType::Regular as u8);
                rules.of(Kind::InodeLinks).equal("i_links of a quota file", links, 1u64);
            }
        }
        self.report_broken(ino, rules);
    }

    fn contents(&mut self, file: &mut File, block: &Block, via: Via) -> Result<(), CheckError> {
        let raw: &RawInode = block.view();
        let inline = raw.inline();
        match FileType::of_mode(raw.i_mode.get()) {
            FileType::Regular | FileType::Directory | FileType::Symlink | FileType::Unknown => {}
            special => {
                self.report_broken(file.ino, special::check(file, raw, special));
                return Ok(());
            }
        }
        if inline.intersects(Inline::DATA | Inline::DENTRY) {
            self.report_broken(file.ino, inline::check(file, block));
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
        let mut rules = file.rules(Kind::Inode);
        rules.equal("i_size of a directory", size, covered * BLOCK_SIZE as u64);
        rules.require(file.end <= covered, "blocks of a directory past i_size", file.end, covered);
        self.report_broken(file.ino, rules);
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
}
