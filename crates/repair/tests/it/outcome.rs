//! The messages to the user, and the volume after the repair. docs/repair.md names these tests.
use crate::edit::Edit;
use crate::image::{filled, report};
use crate::rig::{planned, repaired};
use segno_device::{BlockDevice, MemDevice, Snapshot};
use segno_engine::{MountOptions, Volume};
use segno_format::dentry::{DentryShape, FileType};
use segno_format::node::RawNode;
use segno_format::summary::{RawSummaryBlock, SummaryType};
use segno_format::{BlockAddr, Ino, Nid};
use segno_repair::Plan;
use std::sync::Arc;

pub struct After {
    pub volume: Arc<Volume>,
    pub plan: Plan,
}

pub fn after(damage: impl FnOnce(&Edit)) -> After {
    let edit = Edit::new(filled());
    damage(&edit);
    let (device, plan) = repaired(&edit.dev.snapshot());
    let found = report(&device);
    assert!(found.problems.is_empty(), "{:?}", found.problems);
    let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::from_snapshot(&device.snapshot()));
    let options = MountOptions { background: false, ..MountOptions::default() };
    After { volume: Volume::mount(device, options).unwrap(), plan }
}

impl After {
    pub fn ino(&self, path: &str) -> Option<Ino> {
        let names = path.split('/').filter(|n| !n.is_empty());
        names.into_iter().try_fold(self.volume.root(), |dir, name| {
            self.volume.lookup(dir, name.as_bytes()).ok().map(|a| a.ino)
        })
    }

    pub fn read(&self, path: &str) -> Vec<u8> {
        let ino = self.ino(path).unwrap_or_else(|| panic!("{path} is gone"));
        let mut bytes = vec![0; self.volume.getattr(ino).unwrap().size as usize];
        assert_eq!(self.volume.read(ino, 0, &mut bytes).unwrap(), bytes.len());
        bytes
    }

    pub fn said(&self, text: &str, loss: bool) {
        let all: Vec<String> = self.plan.actions.iter().map(ToString::to_string).collect();
        assert!(self.plan.actions.iter().any(|a| a.loss == loss && a.to_string().contains(text)), "{all:#?}");
    }
}

#[test]
fn nat_entry_of_a_directory() {
    let after = after(|e| {
        e.nat(e.lookup("many"), |n| n.block_addr.set(0));
    });
    assert!(!after.plan.has_loss());
    after.said("NAT entry", false);
    (0..700).for_each(|i| assert_eq!(after.read(&format!("many/file{i:05}")), [b'x'; 40]));
}

/// fsck.f2fs puts all files of such a directory into lost+found, under numbers.
#[test]
fn inode_of_a_directory() {
    let after = after(|e| e.put(e.node(e.lookup("many")), &segno_format::Block::zeroed()));
    after.said("/many: the inode of the directory was lost", true);
    (0..700).for_each(|i| assert_eq!(after.read(&format!("many/file{i:05}")), [b'x'; 40]));
}

#[test]
fn cross_linked_block() {
    let after = after(|e| e.set_slot(e.lookup("two"), 1, e.slot(e.lookup("three"), 1)));
    after.said("/two: block", true);
    after.said("is now a hole", true);
    assert_eq!(after.read("three"), [8; 12288], "the owner keeps its bytes");
    assert_eq!(after.read("two"), [[7; 4096], [0; 4096]].concat(), "the other one gets none of them");
}

/// Without a summary entry, a block at a free place has no owner.
#[test]
fn pointer_to_a_free_block() {
    let after = after(|e| {
        let free = e.geo.seg_start(segno_format::SegNo(60));
        e.put(free, &segno_format::Block([0x5a; 4096]));
        e.set_slot(e.lookup("two"), 1, free);
    });
    assert_eq!(after.read("two"), [[7; 4096], [0; 4096]].concat());
}

#[test]
fn block_free_in_the_sit() {
    let after = after(|e| e.mark(e.slot(e.lookup("two"), 1), false));
    assert!(!after.plan.has_loss());
    assert_eq!(after.read("two"), [7; 8192]);
}

/// fsck.f2fs makes such a target a block long.
#[test]
fn symlink_without_a_length() {
    let after = after(|e| e.inode(e.lookup("longlink"), |n| n.i_size.set(0)));
    after.said("the length 0 of the link's target was impossible; it is now 4000", true);
    assert_eq!(after.volume.readlink(after.ino("longlink").unwrap()).unwrap(), "t".repeat(4000).as_bytes());
}

/// The entries of the summary and the type in the SIT are as they should be: two of four.
#[test]
fn blocks_free_in_the_sit_with_a_summary_of_nodes() {
    let after = after(|e| {
        let addr = e.slot(e.lookup("big"), 500);
        let summary = e.summary_block(e.geo.seg_of(addr).unwrap().0).unwrap();
        e.edit::<RawSummaryBlock>(summary, |s| s.entry_type = SummaryType::Node as u8);
        (0..20).for_each(|i| e.mark(e.slot(e.lookup("big"), 490 + i), false));
    });
    assert!(!after.plan.has_loss());
    assert_eq!(after.read("big"), vec![9; 4096 * 3000]);
}

#[test]
fn name_in_the_wrong_bucket() {
    let after = after(|e| {
        e.dentry(e.lookup("many"), b"file00333", |b, slot, _| {
            let at = DentryShape::BLOCK.dentry_offset(slot);
            b[at] ^= 1;
        });
    });
    assert!(!after.plan.has_loss());
    assert_eq!(after.read("many/file00333"), [b'x'; 40]);
}

#[test]
fn name_without_an_inode() {
    let after = after(|e| e.add_name(3, b"ghost", 9000, FileType::Regular));
    after.said("name ghost led to no file (inode 9000), and is removed", true);
    assert_eq!(after.ino("ghost"), None);
}

#[test]
fn lost_inode_returns_under_its_name() {
    let lose = |e: &Edit| {
        e.dentry(e.lookup("sub"), b"inner", |b, slot, _| DentryShape::BLOCK.remove(b, slot, 5));
    };
    let after = after(lose);
    after.said("/sub/inner: had lost its name, and has it again", false);
    assert_eq!(after.read("sub/inner"), b"inner");
}

#[test]
fn lost_inode_whose_name_is_taken() {
    let mut ino = 0;
    let after = after(|e| {
        let (sub, small) = (e.lookup("sub"), e.lookup("small"));
        ino = e.lookup("sub/inner");
        // Another file has the name now, and its inode records it.
        e.inode(small, |n| n.i_links.set(2));
        e.dentry(sub, b"inner", |b, slot, _| {
            DentryShape::BLOCK.set_target(b, slot, Ino(small), FileType::Regular);
        });
    });
    after.said("formerly inner in directory", false);
    assert_eq!(after.read(&format!("lost+found/{ino}")), b"inner");
    let home = after.volume.getattr(after.ino("lost+found").unwrap()).unwrap();
    assert_eq!(home.mode & 0o7777, 0o700);
}

/// The other file has one link, and that is its own name.
#[test]
fn name_that_leads_to_another_file() {
    let after = after(|e| {
        let small = e.lookup("small");
        e.dentry(e.lookup("sub"), b"inner", |b, slot, _| {
            DentryShape::BLOCK.set_target(b, slot, Ino(small), FileType::Regular);
        });
    });
    after.said("/sub/inner: its name inner led to inode", false);
    assert_eq!(after.read("sub/inner"), b"inner");
    assert_eq!(after.volume.getattr(after.ino("small").unwrap()).unwrap().nlink, 1);
}

/// One of two names leads to a third file: which file it had is known by its count of links.
#[test]
fn second_name_that_leads_to_another_file() {
    let after = after(|e| {
        let (sub, small, two) = (e.lookup("sub"), e.lookup("small"), e.lookup("two"));
        e.add_name(sub, b"hard", two, FileType::Regular);
        e.inode(small, |n| n.i_links.set(2));
    });
    assert!(!after.plan.has_loss());
    after.said("its name hard led to inode", false);
    assert_eq!(after.ino("sub/hard"), after.ino("small"));
    assert_eq!(after.volume.getattr(after.ino("two").unwrap()).unwrap().nlink, 1);
}

/// Several files lack a name, so no one knows which had this one.
#[test]
fn second_name_of_one_of_several_files() {
    let after = after(|e| {
        let (sub, two) = (e.lookup("sub"), e.lookup("two"));
        e.add_name(sub, b"hard", two, FileType::Regular);
        e.add_name(sub, b"hard2", two, FileType::Regular);
        ["small", "three"].iter().for_each(|f| e.inode(e.lookup(f), |n| n.i_links.set(2)));
    });
    after.said("name hard led to inode", true);
    assert_eq!((after.ino("sub/hard"), after.ino("sub/hard2")), (None, None));
    assert_eq!(after.volume.getattr(after.ino("two").unwrap()).unwrap().nlink, 1);
}

#[test]
fn orphan_with_a_name_is_kept() {
    let after = after(|e| e.orphans(&[e.lookup("sub/inner")]));
    assert!(!after.plan.has_loss());
    after.said("listed as an orphan although it has a name", false);
    assert_eq!(after.read("sub/inner"), b"inner");
}

#[test]
fn directory_inside_itself() {
    let mut ino = 0;
    let after = after(|e| {
        ino = e.lookup("sub");
        let deep = e.lookup("sub/deep");
        e.dentry(3, b"sub", |b, slot, _| DentryShape::BLOCK.remove(b, slot, 3));
        e.add_name(deep, b"sub", ino, FileType::Directory);
        e.inode(ino, |n| n.set_name(Ino(deep), b"sub"));
    });
    after.said("the directory was inside itself", true);
    assert_eq!(after.read(&format!("lost+found/{ino}/inner")), b"inner");
}

#[test]
fn lost_node_leaves_a_hole() {
    let after = after(|e| {
        let nid = e.raw_inode(e.lookup("big")).nid(1);
        let addr = e.node(nid.0);
        let node = e.block(addr);
        e.put(addr, &segno_format::Block::zeroed());
        e.summary(addr, |s| s.nid.set(0));
        // Without the summary entries the blocks of the node cannot be found.
        (0..1018).for_each(|i| e.summary(node.view::<RawNode>().addr(i), |s| s.nid.set(0)));
    });
    after.said("what it held is a hole", true);
    let big = after.read("big");
    assert_eq!(big.len(), 4096 * 3000);
    assert!(big.iter().all(|&b| b == 9 || b == 0) && big.iter().filter(|&&b| b == 9).count() >= 4096 * 1900);
}

#[test]
fn indirect_node_is_made_anew() {
    let after = after(|e| {
        let nid = e.raw_inode(e.lookup("big")).nid(2);
        e.nat(nid.0, |n| n.block_addr.set(0));
        e.put(e.geo.seg_start(segno_format::SegNo(60)), &segno_format::Block::zeroed());
        e.inode(e.lookup("big"), |n| n.set_nid(2, Nid(0)));
    });
    assert_eq!(after.read("big"), vec![9; 4096 * 3000]);
}

#[test]
fn quota_is_counted_anew() {
    let after = after(|e| e.charge(3, 7));
    after.said("usage or lists of free blocks in the quota file were wrong", false);
}

#[test]
fn extended_attributes_before_the_damage_stay() {
    use segno_format::inode::{Inline, RawInode};
    use segno_format::xattr::{index, updated};
    let after = after(|e| {
        let ino = e.lookup("small");
        let area = updated(&[], index::USER, b"a", Some(b"kept"), ino).unwrap();
        let end = area.len();
        let mut area = updated(&area, index::USER, b"b", Some(b"lost"), ino).unwrap();
        area[end + 2] = 0xff;
        e.inode(ino, |n| n.i_inline |= Inline::XATTR.bits());
        let at = e.layout(ino).xattr_range().start - std::mem::offset_of!(RawInode, body);
        e.inode(ino, |n| n.body[at..at + area.len()].copy_from_slice(&area));
    });
    after.said("/small: extended attributes behind a damaged one are lost", true);
    let small = after.ino("small").unwrap();
    assert_eq!(after.volume.getxattr(small, b"user.a").unwrap(), b"kept");
}

/// A plan depends only on the content of the volume.
#[test]
fn plans_are_deterministic() {
    let damaged: Snapshot = {
        let edit = Edit::new(filled());
        edit.set_slot(edit.lookup("two"), 1, BlockAddr(5));
        edit.nat(edit.lookup("small"), |n| n.block_addr.set(0));
        edit.dev.snapshot()
    };
    let (a, b) = (planned(&damaged).unwrap(), planned(&damaged).unwrap());
    assert_eq!(a.actions, b.actions);
    assert!(a.addresses().eq(b.addresses()));
}
