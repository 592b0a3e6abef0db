//! One inode: its fields, its index, its attributes, and the counts that must agree.
use super::file::{File, is_device_alias};
use super::{Via, Walk, fields};
use crate::CheckError;
use crate::report::Kind;
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, Inline, RawInode, verify_checksum};
use segno_format::node::XATTR_NODE_OFFSET;
use segno_format::{BLOCK_SIZE, Block, BlockAddr, Corrupt, Features, Nid, Structure};

impl Walk<'_, '_> {
    /// Checks an inode and everything that hangs from it but the entries of a directory.
    pub(super) fn inode(&mut self, ino: u32, block: &Block, via: Via) -> Result<Option<File>, CheckError> {
        let raw: &RawInode = block.view();
        let features = self.volume.sb.features;
        self.count(raw);
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
        let mut file = File::new(ino, raw, layout, features, via);
        self.contents(&mut file, block, via)?;
        let node = self.xattr_node(&mut file, raw)?;
        self.xattrs(&file, block, node.as_ref());
        self.check_counts(&file, raw);
        if via != Via::Quota {
            self.found.usage.add(raw, features, file.blocks);
        }
        Ok(Some(file))
    }

    fn count(&mut self, raw: &RawInode) {
        let n = match FileType::of_mode(raw.i_mode.get()) {
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
                if stored != file_type as u8 || file_type == FileType::Unknown {
                    let e = bad("type in the directory entry", stored.into(), file_type as u32);
                    self.report(parent, Kind::DentryType, e);
                }
                if !raw.is_dir() {
                    self.links.first(ino, links, file_type);
                }
                let lost = raw.advise().contains(Advise::LOST_PINO);
                let keeps_parent = raw.is_dir() || raw.is_reg() && links == 1 && !lost;
                if keeps_parent && raw.i_pino.get() != parent {
                    self.report(ino, Kind::ParentPointer, bad("i_pino", raw.i_pino.get(), parent));
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
        if is_device_alias(raw, self.volume.sb.features) {
            return self.device_alias(file, raw.i_size.get());
        }
        match FileType::of_mode(raw.i_mode.get()) {
            FileType::Regular | FileType::Directory | FileType::Symlink | FileType::Unknown => {}
            special => {
                self.special(file, raw, special);
                return Ok(());
            }
        }
        if inline.intersects(Inline::DATA | Inline::DENTRY) {
            self.inline_area(file, block);
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

    /// A file that is a whole device: one extent, no index.
    fn device_alias(&mut self, file: &mut File, size: u64) -> Result<(), CheckError> {
        let (start, len) = (file.ext.blk.get(), file.ext.len.get());
        let geo = &self.volume.geo;
        let end = u64::from(start) + u64::from(len);
        if len == 0 || start < geo.main_blkaddr || end > geo.main_end().into() {
            let e = Corrupt::nid(
                Structure::Inode,
                file.ino,
                "extent of an aliased device",
                end,
                geo.main_end().into(),
            );
            self.report(file.ino, Kind::InodeExtent, e);
            return Ok(());
        }
        let expected = u64::from(len) * BLOCK_SIZE as u64;
        if size != expected {
            let e = Corrupt::nid(Structure::Inode, file.ino, "i_size of an aliased device", size, expected);
            self.report(file.ino, Kind::Inode, e);
        }
        for addr in start..start.saturating_add(len) {
            self.claim(BlockAddr(addr), file.ino, None)?;
        }
        file.blocks = file.blocks.saturating_add(len.into());
        file.ext_hits = len.into();
        Ok(())
    }

    /// Inline data and inline directories: the word before them and the index stay empty.
    fn inline_area(&mut self, file: &File, block: &Block) {
        let raw: &RawInode = block.view();
        let bad =
            |why, found: u64, expected: u64| Corrupt::nid(Structure::Inode, file.ino, why, found, expected);
        let word = block.u32_at(file.layout.base());
        if word != 0 {
            self.report(file.ino, Kind::InlineData, bad("first slot of an inline file", word.into(), 0));
        }
        if let Some(nid) = raw.i_nid.iter().find(|n| n.get() != 0) {
            self.report(file.ino, Kind::InlineData, bad("index node of an inline file", nid.get().into(), 0));
        }
        let (size, capacity) = (raw.i_size.get(), file.layout.inline_capacity() as u64);
        if size > capacity {
            self.report(file.ino, Kind::InlineData, bad("i_size of an inline file", size, capacity));
            return;
        }
        if raw.inline().contains(Inline::DENTRY) {
            return;
        }
        let area = block.0.get(file.layout.inline_range()).unwrap_or_default();
        let (data, rest) = area.split_at_checked(size as usize).unwrap_or_default();
        let used = |bytes: &[u8]| bytes.iter().filter(|&&b| b != 0).count() as u64;
        if !raw.inline().contains(Inline::DATA_EXIST) && used(data) != 0 {
            self.report(file.ino, Kind::InlineData, bad("data without the DATA_EXIST flag", used(data), 0));
        }
        if used(rest) != 0 {
            self.report(
                file.ino,
                Kind::Padding,
                bad("bytes in use past the end of inline data", used(rest), 0),
            );
        }
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

    fn check_counts(&mut self, file: &File, raw: &RawInode) {
        let bad =
            |why, found: u64, expected: u64| Corrupt::nid(Structure::Inode, file.ino, why, found, expected);
        let stored = raw.i_blocks.get();
        if stored != file.blocks {
            self.report(file.ino, Kind::InodeBlocks, bad("i_blocks", stored, file.blocks));
        }
        // A read-only image may keep extents of compressed files, which do not follow the index.
        let read_only = self.volume.sb.features.contains(Features::RO);
        let len = u64::from(file.ext.len.get());
        if file.ext_hits != len && !(read_only && file.cluster != 0) {
            self.report(
                file.ino,
                Kind::InodeExtent,
                bad("blocks of i_ext that the index has", file.ext_hits, len),
            );
        }
        if file.cluster != 0 {
            let (stored, saved) =
                (raw.extra().i_compr_blocks.get(), if file.released { 0 } else { file.saved });
            if stored != saved {
                self.report(file.ino, Kind::ComprBlocks, bad("i_compr_blocks", stored, saved));
            }
        }
    }
}
