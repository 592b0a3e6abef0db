//! Edits structures on an unmounted device, to build states that Segno does not write.
use super::*;
use segno_format::dentry::DentryShape;
use segno_format::inode::RawInode;

/// Calls `change` on every block; writes a block back if it returns true.
fn each_block(dev: &MemDevice, mut change: impl FnMut(&mut Block) -> bool) {
    let mut edited = 0;
    for addr in 0..dev.block_count() {
        let mut one = [Block::zeroed()];
        dev.read(addr, &mut one).unwrap();
        let [block] = &mut one;
        if change(block) {
            dev.write(addr, &[block]).unwrap();
            edited += 1;
        }
    }
    assert!(edited > 0, "nothing to edit");
}

/// Edits the dentry blocks that contain a name; `change` gets the slot.
pub fn edit_entry(dev: &MemDevice, name: &[u8], change: impl Fn(&mut Block, usize)) {
    each_block(dev, |block| {
        // The name slots of a dentry block start at 2384.
        let found = block.0[2384..].windows(name.len()).position(|w| w == name).map(|at| at / 8);
        let Some(slot) = found.filter(|&s| DentryShape::BLOCK.in_use(&block.0, s as u32)) else {
            return false;
        };
        change(block, slot);
        true
    });
}

/// Edits the blocks of an inode. The volume must be without inode checksums.
pub fn edit_inode(dev: &MemDevice, ino: Ino, change: impl Fn(&mut RawInode)) {
    each_block(dev, |block| {
        let raw: &mut RawInode = block.view_mut();
        let mine = raw.footer.nid.get() == ino.0 && raw.footer.ino.get() == ino.0 && raw.i_mode.get() != 0;
        if mine {
            change(raw);
        }
        mine
    });
}
