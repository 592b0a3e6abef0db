//! Volumes that the format allows are clean, even if neither mkfs.f2fs nor sload.f2fs makes them.
use crate::edit::Edit;
use crate::image::{filled, report, text};
use segno_check::Summary;
use segno_format::checkpoint::CpFlags;
use segno_format::dentry::{DentryShape, FileType};
use segno_format::inode::{Inline, InodeFlags, RawInode};
use segno_format::node::XATTR_NODE_OFFSET;
use segno_format::xattr::{index, updated};
use segno_format::{Block, BlockAddr, Ino, rdev};

/// Applies a change to a fresh copy of the filled volume, which must stay clean. Returns what is counted before and
/// after.
fn clean(change: impl FnOnce(&Edit)) -> (Summary, Summary) {
    let edit = Edit::new(filled());
    let before = report(&edit.dev).summary;
    change(&edit);
    let found = report(&edit.dev);
    assert!(found.complete && found.problems.is_empty(), "{}", text(&found));
    (before, found.summary)
}

#[test]
fn hard_link() {
    clean(|e| {
        let ino = e.lookup("small");
        e.add_name(e.lookup("sub"), b"hard", ino, FileType::Regular);
        e.inode(ino, |n| n.i_links.set(2));
    });
}

/// Hashed by the folded form, or by its bytes where a name has none.
#[test]
fn casefolded_directory() {
    clean(|e| {
        let (dir, ino) = (e.lookup("sub/deep"), e.lookup("small"));
        e.inode(dir, |n| n.i_flags.set(InodeFlags::CASEFOLD.bits()));
        let names: [(&[u8], u32); 3] = [
            (b"FileName", 0x6EF9_C731),
            ("Stra\u{df}e".as_bytes(), 0xD6E5_379A),
            (&[0xFF, 0xFE, 0xFD], 0xD600_46D9),
        ];
        for (name, hash) in names {
            e.add_hashed_name(dir, name, hash, ino, FileType::Regular);
        }
        e.inode(ino, |n| n.i_links.set(4));
    });
}

#[test]
fn lost_found_of_newer_tools() {
    clean(|e| {
        let ino = e.lookup("lost+found");
        e.dentry(ino, b"..", |b, slot, _| {
            DentryShape::BLOCK.set_target(b, slot, Ino(ino), FileType::Directory)
        });
    });
}

/// After an unclean stop there are no node summaries, and the older pack may be torn.
#[test]
fn not_unmounted() {
    let (_, after) = clean(|e| {
        e.change_cp(|cp| {
            cp.ckpt_flags.set((cp.flags() - CpFlags::UMOUNT).bits());
            cp.cp_pack_total_block_count.set(cp.cp_pack_total_block_count.get() - 3);
        });
        let other = e.geo.pack_addr(usize::from(e.pack == e.geo.pack_addr(0)));
        e.put(other, &Block::zeroed());
    });
    assert!(!after.clean_unmount);
}

#[test]
fn fsynced_after_the_checkpoint() {
    let (before, after) = clean(|e| e.fsync(e.lookup("small"), e.next_node().offset(1)));
    assert_eq!((after.roll_forward.nodes, after.roll_forward.fsynced), (1, 1));
    assert_eq!(Summary { roll_forward: before.roll_forward, ..after }, before);
}

#[test]
fn orphan() {
    let (before, after) = clean(|e| {
        let ino = e.lookup("sub/inner");
        e.dentry(e.lookup("sub"), b"inner", |b, slot, _| DentryShape::BLOCK.remove(b, slot, 5));
        e.inode(ino, |n| n.i_links.set(0));
        e.orphans(&[ino]);
    });
    assert_eq!((after.orphans, after.files), (1, before.files));
}

#[test]
fn holes_and_reserved_blocks() {
    let (before, after) = clean(|e| {
        e.punch(e.lookup("two"), 0, false);
        e.punch(e.lookup("three"), 2, true);
    });
    assert_eq!((after.data_blocks, after.reserved_blocks), (before.data_blocks - 2, 1));
}

#[test]
fn compressed_file() {
    let (before, after) = clean(|e| {
        let addr = e.slot(e.lookup("three"), 1);
        e.compress([BlockAddr::COMPRESS, addr, BlockAddr::NEW, BlockAddr::NEW], 3);
    });
    assert_eq!((after.data_blocks, after.reserved_blocks), (before.data_blocks - 2, 3));
}

/// Once its space is released, the marker of a cluster counts for nothing.
#[test]
fn released_compressed_file() {
    let (_, after) = clean(|e| {
        let ino = e.lookup("three");
        let addr = e.slot(ino, 1);
        e.compress([BlockAddr::COMPRESS, addr, BlockAddr::NULL, BlockAddr::NULL], 0);
        e.inode(ino, |n| {
            n.i_inline |= Inline::COMPRESS_RELEASED.bits();
            n.i_blocks.set(2);
        });
        e.count_blocks(-1);
        e.charge(0, -1);
    });
    assert_eq!(after.reserved_blocks, 0);
}

fn special(e: &Edit, mode: u16, t: FileType, words: (u32, u32)) {
    let (ino, layout) = (e.lookup("empty"), e.layout(e.lookup("empty")));
    e.inode(ino, |n| {
        n.i_mode.set(mode);
        n.i_inline &= !(Inline::DATA | Inline::DATA_EXIST).bits();
        n.set_slot(&layout, 0, BlockAddr(words.0));
        n.set_slot(&layout, 1, BlockAddr(words.1));
    });
    e.dentry(3, b"empty", |b, slot, ino| DentryShape::BLOCK.set_target(b, slot, Ino(ino), t));
}

#[test]
fn special_files() {
    clean(|e| special(e, 0o020_644, FileType::CharDevice, rdev::encode(5, 1)));
    clean(|e| special(e, 0o060_644, FileType::BlockDevice, rdev::encode(259, 300)));
    // A rename with a whiteout leaves this.
    clean(|e| special(e, 0o020_000, FileType::CharDevice, rdev::encode(0, 0)));
    clean(|e| special(e, 0o010_644, FileType::Fifo, (0, 0)));
    clean(|e| special(e, 0o140_644, FileType::Socket, (0, 0)));
}

#[test]
fn inline_directory() {
    clean(|e| {
        let (ino, parent) = (e.lookup("sub/deep"), e.lookup("sub"));
        e.punch(ino, 0, false);
        e.inode(ino, |n| n.i_inline |= Inline::DENTRY.bits());
        let layout = e.layout(ino);
        let shape = DentryShape::inline(&layout);
        e.inode(ino, |n| {
            n.i_size.set(layout.inline_capacity() as u64);
            n.i_current_depth.set(0);
            let area = &mut n.body[(layout.extra_words as usize + 1) * 4..][..layout.inline_capacity()];
            shape.insert(area, 0, 0, Ino(ino), b".", FileType::Directory);
            shape.insert(area, 1, 0, Ino(parent), b"..", FileType::Directory);
        });
    });
}

/// One list of attributes over the inline area and a node.
#[test]
fn attributes() {
    clean(|e| {
        let ino = e.lookup("small");
        let area = updated(&[], index::USER, b"a", Some(&[1; 60]), ino).unwrap();
        let area = updated(&area, index::USER, b"b", Some(&[2; 600]), ino).unwrap();
        e.inode(ino, |n| n.i_inline |= Inline::XATTR.bits());
        let place = e.layout(ino).xattr_range();
        let (inline, rest) = area.split_at(place.len());
        let mut node = Block::zeroed();
        node.0[..rest.len()].copy_from_slice(rest);
        e.add_node(9000, ino, XATTR_NODE_OFFSET, node);
        e.inode(ino, |n| {
            let at = place.start - std::mem::offset_of!(RawInode, body);
            n.body[at..at + inline.len()].copy_from_slice(inline);
            n.i_xattr_nid.set(9000);
            n.i_blocks.set(2);
        });
    });
}
