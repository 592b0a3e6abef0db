//! Lost nodes: of the root, of quota files, direct nodes, and inodes of which an older version is left.
use crate::edit::Edit;
use crate::outcome::{After, after};
use segno_format::checkpoint::RawCheckpoint;
use segno_format::inode::{RawInode, seal_checksum};
use segno_format::node::RawNode;
use segno_format::quota::{QUOTA_BLOCK, QuotaTable};
use segno_format::{Block, BlockAddr, Ino};

fn lose(e: &Edit, nid: u32) {
    e.put(e.node(nid), &Block::zeroed());
}

#[test]
fn direct_node_is_made_anew() {
    let after = after(|e| lose(e, e.raw_inode(e.lookup("big")).nid(1).0));
    after.said("it is made anew from the summaries of its blocks", true);
    assert_eq!(after.read("big"), vec![9; 4096 * 3000]);
}

fn everything_is_there(after: &After) {
    assert_eq!(after.read("small"), b"hello");
    assert_eq!(after.read("sub/inner"), b"inner");
    assert_eq!(after.read("two"), [7; 8192]);
    (0..700).for_each(|i| assert_eq!(after.read(&format!("many/file{i:05}")), [b'x'; 40]));
}

#[test]
fn inode_of_the_root() {
    let after = after(|e| lose(e, 3));
    after.said("the root directory was lost", true);
    everything_is_there(&after);
    let root = after.volume.getattr(after.volume.root()).unwrap();
    assert_eq!((root.mode & 0o7777, root.uid), (0o755, 0));
}

#[test]
fn root_with_its_block() {
    let after = after(|e| {
        e.put(e.slot(3, 0), &Block([0x5a; 4096]));
        lose(e, 3);
    });
    after.said("/sub: had lost its name, and has it again", false);
    everything_is_there(&after);
}

/// Limits are in the blocks of the file, and stay.
#[test]
fn inode_of_a_quota_file() {
    let quota = 4;
    let limit = |e: &Edit, f: &dyn Fn(&mut QuotaTable)| {
        let blocks: Vec<BlockAddr> = (0..2).map(|i| e.slot(quota, i)).collect();
        let bytes: Vec<u8> = blocks.iter().flat_map(|b| e.block(*b).0).collect();
        let mut table = QuotaTable::parse(&bytes[..6 * QUOTA_BLOCK], 0, quota).unwrap();
        f(&mut table);
        let mut new = table.to_bytes(0);
        new.resize(2 * 4096, 0);
        for (addr, part) in blocks.iter().zip(new.chunks(4096)) {
            e.put(*addr, &Block(part.try_into().unwrap()));
        }
    };
    let after = after(|e| {
        limit(e, &|table| table.entries.get_mut(&0).unwrap().space_limits = [0, 1 << 30]);
        lose(e, quota);
    });
    after.said("the inode of the quota file was lost, and is made anew", true);
    let mut bytes = vec![0; after.volume.getattr(Ino(quota)).unwrap().size as usize];
    after.volume.read(Ino(quota), 0, &mut bytes).unwrap();
    assert_eq!(QuotaTable::parse(&bytes, 0, quota).unwrap().entries[&0].space_limits, [0, 1 << 30]);
}

/// Puts an older version of an inode where the next node of the log would be.
fn older(e: &Edit, ino: u32, change: impl FnOnce(&mut RawInode)) {
    let mut block = e.block(e.node(ino));
    change(block.view_mut());
    let version = e.cp().view::<RawCheckpoint>().checkpoint_ver.get() - 1;
    block.view_mut::<RawNode>().footer.cp_ver.set(version);
    seal_checksum(&mut block, e.sb.features, e.sb.inode_checksum_seed());
    e.put(e.next_node(), &block);
}

#[test]
fn older_version_of_an_inode() {
    let after = after(|e| {
        let ino = e.lookup("two");
        older(e, ino, |n| {
            n.i_mode.set(0o100_640);
            // The block has been freed since.
            n.i_size.set(4096);
        });
        lose(e, ino);
    });
    after.said("/two: the newest version of the inode is lost; an older one is used", true);
    assert_eq!(after.read("two"), [7; 8192]);
    assert_eq!(after.volume.getattr(after.ino("two").unwrap()).unwrap().mode & 0o7777, 0o640);
}

/// The number may have been another file's then.
#[test]
fn older_version_under_another_name() {
    let after = after(|e| {
        let ino = e.lookup("two");
        older(e, ino, |n| n.set_name(Ino(3), b"secret"));
        lose(e, ino);
    });
    after.said("name two led to no file", true);
    assert_eq!(after.ino("two"), None);
}
