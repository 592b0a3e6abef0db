//! Fields of inodes that the engine stores and no operation shows, read from an unmounted volume by the readers of `segno rescue`.
use crate::capture::Tree;
use segno_device::BlockDevice;
use segno_format::inode::{Inline, RawInode};
use segno_rescue::Volume;

/// These fields of a regular file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// `i_compress_flag` of a compressed file: level and checksum option.
    pub compress_flag: u16,
    /// The blocks that compression saves were released.
    pub released: bool,
    /// The file is pinned.
    pub pinned: bool,
    /// `i_gc_failures`.
    pub gc_failures: u16,
}

/// Adds these fields to the regular files of a tree, whose numbers are those of the volume.
pub fn read(device: &dyn BlockDevice, tree: &mut Tree) -> Result<(), String> {
    let volume = Volume::unscanned(device);
    for (&ino, inode) in tree.inodes.iter_mut().filter(|(_, inode)| inode.bytes().is_ok()) {
        let found = volume.live(ino, |node| node.ino == ino);
        let block = found.and_then(|(node, _)| volume.inode(&node)).map(|(block, _)| block);
        let raw: &RawInode = block.as_ref().ok_or_else(|| format!("inode {ino} is not in the NAT"))?.view();
        let inline = raw.inline();
        inode.stored = Some(Stored {
            compress_flag: inode.compression.map_or(0, |_| raw.extra().i_compress_flag.get()),
            released: inline.contains(Inline::COMPRESS_RELEASED),
            pinned: inline.contains(Inline::PIN_FILE),
            gc_failures: raw.i_current_depth.get() as u16,
        });
    }
    Ok(())
}
