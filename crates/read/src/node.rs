//! Inodes.
use alloc::boxed::Box;
use segno_format::dentry::FileType;
use segno_format::inode::{Advise, InodeLayout, RawInode, verify_checksum};
use segno_format::superblock::Superblock;
use segno_format::{Block, Corrupt, Ino};

/// A file, directory, symbolic link or device.
pub struct Inode {
    pub(crate) block: Box<Block>,
    pub(crate) ino: Ino,
    pub(crate) layout: InodeLayout,
}

impl Inode {
    pub(crate) fn new(block: Block, ino: Ino, superblock: &Superblock) -> Result<Self, Corrupt> {
        verify_checksum(&block, superblock.features, superblock.inode_checksum_seed())?;
        let layout = block.view::<RawInode>().layout(superblock.features)?;
        Ok(Self { block: Box::new(block), ino, layout })
    }

    pub(crate) fn raw(&self) -> &RawInode {
        self.block.view()
    }

    pub(crate) fn inline_area(&self) -> &[u8] {
        self.layout.inline(&self.block)
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.raw().advise().contains(Advise::ENCRYPT)
    }

    /// Its number.
    #[must_use]
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// The file type.
    #[must_use]
    pub fn file_type(&self) -> FileType {
        FileType::of_mode(self.raw().i_mode.get())
    }

    /// Type and permission bits, as `st_mode` of stat(2).
    #[must_use]
    pub fn mode(&self) -> u16 {
        self.raw().i_mode.get()
    }

    /// Size in bytes; of a symbolic link, the length of its target.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "as of std::fs::Metadata")]
    pub fn len(&self) -> u64 {
        self.raw().i_size.get()
    }
}
