//! One damage per rule: it is found and named, even with other damage.
use crate::edit::Edit;
use crate::image::{filled, kinds, report, text};
use segno_check::Kind;
use segno_device::{BlockDevice, MemDevice};
use segno_format::checkpoint::{CpFlags, RawCheckpoint};
use segno_format::dentry::{DentryShape, FileType};
use segno_format::inode::{Inline, InodeFlags, RawInode};
use segno_format::nat::RawNatEntry;
use segno_format::node::RawNode;
use segno_format::orphan::RawOrphanBlock;
use segno_format::sit::{LogType, RawSitEntry};
use segno_format::summary::{RawSummary, RawSummaryBlock, SummaryType};
use segno_format::{Block, BlockAddr, Ino, Nid, SegNo, name_hash};
use zerocopy::little_endian::{U16, U32, U64};

pub type Case = (&'static str, &'static [Kind], fn(&Edit));

/// Applies each damage to a fresh copy of the filled volume.
pub fn run(cases: &[Case]) {
    let image = filled();
    let mut wrong = String::new();
    for (name, expected, damage) in cases {
        let edit = Edit::new(image);
        damage(&edit);
        let found = report(&edit.dev);
        wrong += &crate::afterwards(name, &edit.dev);
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        if kinds(&found) != expected {
            wrong += &format!("{name}: found {:?}, expected {expected:?}\n{}\n", kinds(&found), text(&found));
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_volume_itself_is_clean() {
    run(&[("no damage", &[], |_| {})]);
}

#[test]
fn superblock() {
    run(&[
        ("magic of one copy", &[Kind::Superblock], |e| e.superblock(1, |sb| sb.magic = U32::new(1))),
        ("checksum of the first copy", &[Kind::Superblock], |e| {
            let mut block = e.block(BlockAddr(0));
            block.0[1024 + 124] ^= 1;
            e.put(BlockAddr(0), &block);
        }),
        ("another uuid", &[Kind::SuperblockCopies], |e| e.superblock(1, |sb| sb.uuid[0] ^= 1)),
        ("another label", &[Kind::SuperblockStale], |e| {
            e.superblock(1, |sb| sb.volume_name[0] = U16::new(65))
        }),
        ("encoding", &[Kind::Superblock], |e| {
            (0..2).for_each(|c| e.superblock(c, |sb| sb.s_encoding.set(0)))
        }),
        ("recorded errors", &[Kind::ErrorRecord], |e| {
            (0..2).for_each(|c| e.superblock(c, |sb| sb.s_errors[0] = 2))
        }),
        ("unknown feature of one copy", &[Kind::SuperblockCopies], |e| {
            e.superblock(0, |sb| sb.feature = U32::new(sb.feature.get() | 0x20_0000));
        }),
    ]);
}

#[test]
fn checkpoint() {
    run(&[
        ("no pack", &[Kind::NoCheckpoint], |e| {
            (0..2).for_each(|p| e.put(e.geo.pack_addr(p), &Block::zeroed()));
        }),
        ("user_block_count", &[Kind::Checkpoint], |e| e.change_cp(|cp| cp.user_block_count = U64::new(0))),
        ("overprovision", &[Kind::Checkpoint], |e| e.change_cp(|cp| cp.overprov_segment_count = U32::new(0))),
        ("reserve", &[Kind::Checkpoint], |e| e.change_cp(|cp| cp.rsvd_segment_count = U32::new(1))),
        ("bitmap size", &[Kind::Checkpoint], |e| e.change_cp(|cp| cp.sit_ver_bitmap_bytesize = U32::new(1))),
        ("start of summaries", &[Kind::Checkpoint], |e| e.change_cp(|cp| cp.cp_pack_start_sum = U32::new(0))),
        ("orphans without their flag", &[Kind::Checkpoint], |e| {
            e.change_cp(|cp| cp.cp_pack_start_sum = U32::new(2))
        }),
        ("compacted flag of a normal pack", &[Kind::Checkpoint], |e| {
            e.change_cp(|cp| cp.ckpt_flags = U32::new((cp.flags() | CpFlags::COMPACT_SUM).bits()));
        }),
        ("error flag", &[Kind::Checkpoint], |e| {
            e.change_cp(|cp| cp.ckpt_flags = U32::new((cp.flags() | CpFlags::ERROR).bits()));
        }),
        ("ends of different checkpoints, as after a cut", &[], |e| {
            let mut block = e.cp();
            block.view_mut::<RawCheckpoint>().elapsed_time = U64::new(77);
            RawCheckpoint::seal(&mut block);
            e.put(e.pack, &block);
        }),
        ("check wanted", &[Kind::CheckpointFlag], |e| {
            e.change_cp(|cp| cp.ckpt_flags = U32::new((cp.flags() | CpFlags::FSCK).bits()));
        }),
        ("valid blocks", &[Kind::Counter], |e| {
            e.change_cp(|cp| cp.valid_block_count = U64::new(cp.valid_block_count.get() + 1));
        }),
        ("valid nodes", &[Kind::Counter], |e| {
            e.change_cp(|cp| cp.valid_node_count = U32::new(cp.valid_node_count.get() - 1));
        }),
        ("valid inodes", &[Kind::Counter], |e| {
            e.change_cp(|cp| cp.valid_inode_count = U32::new(cp.valid_inode_count.get() + 1));
        }),
        ("free segments", &[Kind::Counter], |e| e.change_cp(|cp| cp.free_segment_count = U32::new(1))),
    ]);
}

#[test]
fn logs() {
    run(&[
        ("segment out of range", &[Kind::Curseg], |e| {
            e.change_cp(|cp| cp.cur_data_segno[1] = U32::new(1 << 20));
        }),
        ("offset out of range", &[Kind::Curseg], |e| e.change_cp(|cp| cp.cur_data_blkoff[1] = U16::new(512))),
        ("next block in use", &[Kind::Curseg], |e| e.change_cp(|cp| cp.cur_node_blkoff[0] = U16::new(0))),
        ("allocation type", &[Kind::Curseg], |e| e.change_cp(|cp| cp.alloc_type[2] = 2)),
        ("two logs in one section", &[Kind::Curseg], |e| {
            e.change_cp(|cp| cp.cur_data_segno[1] = cp.cur_data_segno[2]);
        }),
        ("type of a log's segment", &[Kind::Curseg], |e| {
            let cp = e.cp();
            let seg = cp.view::<RawCheckpoint>().cur_node_segno[2].get();
            e.sit(SegNo(seg), |s| s.vblocks = U16::new(s.vblocks.get() & 0x3ff));
        }),
    ]);
}

#[test]
fn tables() {
    run(&[
        ("SIT count", &[Kind::SitEntry], |e| {
            let (seg, _) = e.geo.seg_of(e.node(3)).unwrap();
            e.sit(seg, |s| s.vblocks = U16::new(s.vblocks.get() + 1));
        }),
        ("SIT type", &[Kind::SitEntry], |e| {
            e.sit(SegNo(70), |s| s.vblocks = U16::new(6 << 10));
        }),
        ("SIT journal count", &[Kind::SitJournal], |e| e.sit_journal(|j| j.count = U16::new(7))),
        ("SIT journal segment", &[Kind::SitJournal], |e| {
            e.sit_journal(|j| {
                j.entries[0].segno = U32::new(1 << 30);
                j.count = U16::new(1);
            });
        }),
        ("NAT journal count", &[Kind::NatJournal], |e| e.nat_journal(|j| j.count = U16::new(39))),
        ("NAT journal nid", &[Kind::NatJournal], |e| {
            e.nat_journal(|j| {
                j.entries[0].nid = U32::new(2);
                j.count = U16::new(1);
            });
        }),
        ("NAT journal twice", &[Kind::NatJournal], |e| {
            let root = e.nat(3, |_| {});
            e.nat_journal(|j| {
                for slot in &mut j.entries[..2] {
                    slot.nid = U32::new(3);
                    slot.entry = root;
                }
                j.count = U16::new(2);
            });
        }),
        ("dummy address", &[Kind::NatEntry], |e| {
            e.nat(2, |n| n.block_addr = U32::new(2));
        }),
        ("owner of a node", &[Kind::NatEntry, Kind::NodeFooter], |e| {
            let nid = e.raw_inode(e.lookup("big")).nid(0);
            e.nat(nid.0, |n| n.ino = U32::new(100_000));
        }),
        ("nat_bits", &[Kind::NatBits], |e| {
            let addr = e.pack.offset(511);
            let mut block = e.block(addr);
            block.0[8] |= 0x20;
            e.put(addr, &block);
        }),
    ]);
}

#[test]
fn owners() {
    run(&[
        ("lost node", &[Kind::NodeLost, Kind::NatBits, Kind::Counter], |e| {
            let seg = SegNo(70);
            let addr = e.geo.seg_start(seg);
            e.nat(9000, |n| *n = RawNatEntry { ino: U32::new(3), block_addr: U32::new(addr.0), ..*n });
            e.sit(seg, |s| *s = RawSitEntry::new(LogType::ColdNode, 0, &[0; 64], 0));
            e.mark(addr, true);
            e.edit::<RawSummaryBlock>(e.geo.ssa_addr(seg), |s| {
                *s = RawSummaryBlock::empty(SummaryType::Node)
            });
            e.summary(addr, |s| *s = RawSummary::node(Nid(9000)));
        }),
        ("lost block", &[Kind::BlockLost, Kind::Counter], |e| {
            e.mark(e.geo.seg_start(SegNo(70)), true);
        }),
        ("summary type", &[Kind::SummaryType], |e| {
            let (seg, _) = e.geo.seg_of(e.node(3)).unwrap();
            e.edit::<RawSummaryBlock>(e.summary_block(seg).unwrap(), |s| s.entry_type = 0);
        }),
        ("summary of a node", &[Kind::SummaryEntry], |e| e.summary(e.node(3), |s| s.nid = U32::new(4))),
        ("owner in a summary", &[Kind::SummaryEntry], |e| {
            e.summary(e.slot(e.lookup("two"), 1), |s| s.nid = U32::new(3));
        }),
        ("slot in a summary", &[Kind::SummaryEntry], |e| {
            e.summary(e.slot(e.lookup("two"), 1), |s| s.ofs_in_node = U16::new(5));
        }),
        ("version in a summary", &[Kind::SummaryEntry], |e| {
            e.summary(e.slot(e.lookup("two"), 1), |s| s.version = 1);
        }),
    ]);
}

#[test]
fn nodes() {
    run(&[
        ("address of a node", &[Kind::NatEntry, Kind::BlockLost, Kind::Counter], |e| {
            e.nat(e.lookup("small"), |n| n.block_addr = U32::new(5));
        }),
        ("unwritten address of a node", &[Kind::NatEntry, Kind::BlockLost, Kind::Counter], |e| {
            e.nat(e.lookup("small"), |n| n.block_addr = U32::new(BlockAddr::NEW.0));
        }),
        (
            "two nodes in one block",
            &[Kind::NatDuplicate, Kind::NodeFooter, Kind::BlockLost, Kind::Counter],
            |e| {
                let other = e.node(e.lookup("empty"));
                e.nat(e.lookup("small"), |n| n.block_addr = U32::new(other.0));
            },
        ),
        ("node without an entry", &[Kind::NodeMissing], |e| {
            let ino = e.lookup("big");
            e.inode(ino, |n| n.set_nid(4, Nid(9000)));
        }),
        ("node out of range", &[Kind::NodeMissing], |e| {
            let ino = e.lookup("big");
            e.inode(ino, |n| n.set_nid(4, Nid(u32::MAX)));
        }),
        ("node in two places", &[Kind::NodeShared], |e| {
            let ino = e.lookup("big");
            e.inode(ino, |n| n.set_nid(4, n.nid(0)));
        }),
        ("footer of an inode", &[Kind::NodeFooter, Kind::Counter], |e| {
            e.inode(e.lookup("small"), |n| n.footer.nid = U32::new(4));
        }),
        (
            "node offset",
            &[Kind::NodeFooter, Kind::InodeBlocks, Kind::InodeExtent, Kind::BlockLost, Kind::Counter],
            |e| {
                let nid = e.raw_inode(e.lookup("big")).nid(0);
                e.edit::<RawNode>(e.node(nid.0), |n| n.footer.flag = U32::new(2 << 3 | 1));
            },
        ),
        ("cold bit of a directory", &[Kind::ColdBit], |e| e.inode(3, |n| n.footer.flag = U32::new(1))),
        ("cold bit of a direct node", &[Kind::ColdBit], |e| {
            let nid = e.raw_inode(e.lookup("big")).nid(0);
            e.edit::<RawNode>(e.node(nid.0), |n| n.footer.flag = U32::new(1 << 3));
        }),
        ("node in a data segment", &[Kind::SegmentType, Kind::Counter], |e| {
            let (seg, _) = e.geo.seg_of(e.node(3)).unwrap();
            e.sit(seg, |s| s.vblocks = U16::new(s.vblocks.get() & 0x3ff));
        }),
        ("node free in the SIT", &[Kind::BlockFree, Kind::Counter], |e| {
            e.mark(e.node(e.lookup("small")), false)
        }),
    ]);
}

#[test]
fn data() {
    run(&[
        (
            "address out of range",
            &[Kind::BlockAddress, Kind::InodeExtent, Kind::BlockLost, Kind::Counter],
            |e| e.set_slot(e.lookup("two"), 1, BlockAddr(5)),
        ),
        (
            "cluster mark in a plain file",
            &[Kind::BlockAddress, Kind::InodeExtent, Kind::BlockLost, Kind::Counter],
            |e| {
                e.set_slot(e.lookup("two"), 1, BlockAddr::COMPRESS);
            },
        ),
        (
            "reserved block of a directory",
            &[Kind::BlockAddress, Kind::Inode, Kind::InodeBlocks, Kind::Counter],
            |e| e.set_slot(3, 5, BlockAddr::NEW),
        ),
        ("data free in the SIT", &[Kind::BlockFree, Kind::Counter], |e| {
            e.mark(e.slot(e.lookup("two"), 1), false)
        }),
        (
            "block of another file",
            &[Kind::BlockShared, Kind::InodeExtent, Kind::BlockLost, Kind::Counter],
            |e| {
                e.set_slot(e.lookup("two"), 1, e.slot(e.lookup("three"), 1));
            },
        ),
        ("block of a node", &[Kind::BlockShared, Kind::InodeExtent, Kind::BlockLost, Kind::Counter], |e| {
            e.set_slot(e.lookup("two"), 1, e.node(3))
        }),
        ("data in a node segment", &[Kind::Curseg, Kind::SegmentType, Kind::Counter], |e| {
            let (seg, _) = e.geo.seg_of(e.slot(e.lookup("two"), 0)).unwrap();
            e.sit(seg, |s| s.vblocks = U16::new(s.vblocks.get() & 0x3ff | 3 << 10));
        }),
        ("i_blocks", &[Kind::InodeBlocks], |e| e.inode(e.lookup("two"), |n| n.i_blocks = U64::new(9))),
        ("extent", &[Kind::InodeExtent], |e| {
            let first = e.slot(e.lookup("two"), 0).0;
            e.inode(e.lookup("two"), |n| {
                n.i_ext.blk = U32::new(first);
                n.i_ext.len = U32::new(3);
            });
        }),
        ("cluster without blocks", &[Kind::Cluster, Kind::Inode], |e| {
            e.compress([BlockAddr::COMPRESS, BlockAddr::NULL, BlockAddr::NEW, BlockAddr::NEW], 4);
        }),
        ("hole in a cluster", &[Kind::Cluster], |e| {
            let addr = e.slot(e.lookup("three"), 1);
            e.compress([BlockAddr::COMPRESS, addr, BlockAddr::NULL, BlockAddr::NEW], 3);
        }),
        ("saved blocks", &[Kind::ComprBlocks], |e| {
            let addr = e.slot(e.lookup("three"), 1);
            e.compress([BlockAddr::COMPRESS, addr, BlockAddr::NEW, BlockAddr::NEW], 1);
        }),
    ]);
}

fn change(name: &str, e: &Edit, f: impl FnOnce(&mut RawInode)) {
    e.inode(e.lookup(name), f);
}

#[test]
fn inodes() {
    run(&[
        ("checksum", &[Kind::InodeChecksum], |e| {
            e.edit::<RawInode>(e.node(e.lookup("small")), |n| n.i_atime = U64::new(1));
        }),
        ("extra size", &[Kind::Inode], |e| {
            change("small", e, |n| {
                let mut extra = n.extra();
                extra.i_extra_isize = U16::new(38);
                n.set_extra(&extra);
            });
        }),
        ("extra size without room for the checksum", &[Kind::Inode, Kind::Padding], |e| {
            change("empty", e, |n| {
                let mut extra = n.extra();
                extra.i_extra_isize = U16::new(4);
                n.set_extra(&extra);
            });
        }),
        ("blocks that compression saves in a directory", &[Kind::Inode], |e| {
            change("sub", e, |n| {
                n.i_flags = U32::new(InodeFlags::COMPR.bits());
                let mut extra = n.extra();
                extra.i_compr_blocks.set(1);
                n.set_extra(&extra);
            });
        }),
        ("mode", &[Kind::DentryType, Kind::Inode], |e| {
            change("small", e, |n| n.i_mode = U16::new(0o170_644))
        }),
        ("name length", &[Kind::Inode], |e| change("small", e, |n| n.i_namelen = U32::new(256))),
        ("nanoseconds", &[Kind::Inode], |e| change("small", e, |n| n.i_mtime_nsec = U32::new(1_000_000_000))),
        ("size", &[Kind::Inode], |e| change("two", e, |n| n.i_size = U64::new(1 << 62))),
        ("xattr node is the inode", &[Kind::Inode, Kind::NodeShared], |e| {
            let ino = e.lookup("small");
            change("small", e, |n| n.i_xattr_nid = U32::new(ino));
        }),
        ("inline directory flag of a file", &[Kind::Inode], |e| {
            change("small", e, |n| n.i_inline |= Inline::DENTRY.bits())
        }),
        ("verity without the feature", &[Kind::Inode, Kind::Xattr], |e| {
            change("two", e, |n| n.i_advise |= 0x40)
        }),
        ("casefold flag of a file", &[Kind::Inode], |e| {
            change("two", e, |n| n.i_flags = U32::new(InodeFlags::CASEFOLD.bits()));
        }),
        ("size of a directory", &[Kind::Inode], |e| change("sub", e, |n| n.i_size = U64::new(100))),
        ("depth of a directory", &[Kind::DentryPlace], |e| {
            change("sub", e, |n| n.i_current_depth = U32::new(0))
        }),
        ("links of a file", &[Kind::InodeLinks], |e| change("small", e, |n| n.i_links = U32::new(2))),
        ("links of a directory", &[Kind::InodeLinks], |e| change("sub", e, |n| n.i_links = U32::new(2))),
        ("no links", &[Kind::InodeLinks], |e| change("small", e, |n| n.i_links = U32::new(0))),
        ("parent", &[Kind::ParentPointer], |e| change("small", e, |n| n.i_pino = U32::new(9))),
    ]);
}

#[test]
fn content_of_inodes() {
    run(&[
        ("inline size", &[Kind::InlineData], |e| change("small", e, |n| n.i_size = U64::new(4000))),
        ("inline word", &[Kind::InlineData], |e| {
            let layout = e.layout(e.lookup("small"));
            change("small", e, |n| n.set_slot(&layout, 0, BlockAddr(5)));
        }),
        ("inline data without the flag", &[Kind::InlineData], |e| {
            change("small", e, |n| n.i_inline &= !Inline::DATA_EXIST.bits());
        }),
        ("inline root", &[Kind::Inode], |e| e.inline_dir(Ino::ROOT.0)),
        ("bytes past the end", &[Kind::Padding], |e| change("small", e, |n| n.i_size = U64::new(3))),
        ("target with NUL", &[Kind::Symlink], |e| change("link", e, |n| n.i_size = U64::new(7))),
        ("target without length", &[Kind::Symlink], |e| change("longlink", e, |n| n.i_size = U64::new(0))),
        ("target too long", &[Kind::Symlink], |e| change("longlink", e, |n| n.i_size = U64::new(4096))),
        ("device number", &[Kind::DentryType, Kind::DeviceNumber], |e| {
            let layout = e.layout(e.lookup("empty"));
            change("empty", e, |n| {
                n.i_mode = U16::new(0o020_644);
                n.i_inline &= !(Inline::DATA | Inline::DATA_EXIST).bits();
                n.set_slot(&layout, 0, BlockAddr(0x1_0000));
            });
        }),
        ("no encryption context", &[Kind::Xattr], |e| change("two", e, |n| n.i_advise |= 4)),
        ("attributes", &[Kind::Xattr], |e| {
            let layout = e.layout(e.lookup("small"));
            change("small", e, |n| {
                n.i_inline |= Inline::XATTR.bits();
                let at = n.body.len() - layout.xattr_words.max(50) as usize * 4;
                n.body[at..at + 4].copy_from_slice(&0xF2F5_2011u32.to_le_bytes());
                n.body[at + 24..at + 28].copy_from_slice(&[1, 1, 0xff, 0]);
            });
        }),
    ]);
}

/// Gives the file `small` one more name.
fn link(e: &Edit, dir: &str, name: &[u8]) {
    e.add_name(e.lookup(dir), name, e.lookup("small"), FileType::Regular);
    change("small", e, |n| n.i_links.set(n.i_links.get() + 1));
}

#[test]
fn entry_names() {
    const BLOCK: DentryShape = DentryShape::BLOCK;
    run(&[
        ("entry length", &[Kind::Dentry, Kind::NodeLost, Kind::Counter], |e| {
            e.dentry(e.lookup("sub"), b"inner", |b, slot, _| {
                b[30 + slot as usize * 11 + 8..][..2].copy_from_slice(&300u16.to_le_bytes());
            });
        }),
        ("slot of no entry", &[Kind::Dentry], |e| {
            e.dentry(e.lookup("sub"), b"inner", |b, _, _| b[20] |= 1);
        }),
        ("slash in a name", &[Kind::DentryName], |e| {
            e.dentry(e.lookup("sub"), b"inner", |b, slot, ino| {
                BLOCK.insert(b, slot, name_hash(b"in/er"), Ino(ino), b"in/er", FileType::Regular);
            });
        }),
        ("hash", &[Kind::DentryHash], |e| {
            e.dentry(e.lookup("sub"), b"inner", |b, slot, ino| {
                BLOCK.insert(b, slot, 7, Ino(ino), b"inner", FileType::Regular);
            });
        }),
        ("hash of a folded name", &[Kind::DentryHash], |e| {
            change("sub/deep", e, |n| n.i_flags.set(InodeFlags::CASEFOLD.bits()));
            link(e, "sub/deep", b"FILE");
        }),
        ("debatable hash of a folded name", &[Kind::FoldedHash], |e| {
            change("sub/deep", e, |n| n.i_flags.set(InodeFlags::CASEFOLD.bits()));
            link(e, "sub/deep", "\u{dc}\u{200d}".as_bytes());
        }),
        ("hash of a folded name beyond ASCII", &[Kind::DentryHash], |e| {
            change("sub/deep", e, |n| n.i_flags.set(InodeFlags::CASEFOLD.bits()));
            link(e, "sub/deep", "\u{dc}".as_bytes());
        }),
        ("names that fold to the same", &[Kind::DentryDuplicate, Kind::DentryHash], |e| {
            change("sub/deep", e, |n| n.i_flags.set(InodeFlags::CASEFOLD.bits()));
            link(e, "sub/deep", b"file");
            link(e, "sub/deep", b"FILE");
        }),
        ("bucket", &[Kind::DentryPlace], |e| {
            let many = e.lookup("many");
            // Block 2 is bucket 0 of level 1; this hash belongs into bucket 1.
            let name = (0..).map(|i| format!("n{i}")).find(|n| name_hash(n.as_bytes()) % 2 == 1).unwrap();
            let addr = e.slot(many, 2);
            let mut block = e.block(addr);
            let old = BLOCK.next(&block.0, 0, 0).unwrap().unwrap();
            let (slot, ino, len) = (old.slot, old.ino, old.name.len());
            BLOCK.remove(&mut block.0, slot, len);
            BLOCK.insert(
                &mut block.0,
                slot,
                name_hash(name.as_bytes()),
                ino,
                name.as_bytes(),
                FileType::Regular,
            );
            e.put(addr, &block);
        }),
    ]);
}

#[test]
fn entry_targets() {
    const BLOCK: DentryShape = DentryShape::BLOCK;
    run(&[
        ("name twice", &[Kind::DentryDuplicate, Kind::InodeLinks], |e| {
            e.add_name(e.lookup("sub"), b"inner", e.lookup("sub/inner"), FileType::Regular);
        }),
        ("type", &[Kind::DentryType], |e| {
            e.dentry(e.lookup("sub"), b"inner", |b, slot, ino| {
                BLOCK.set_target(b, slot, Ino(ino), FileType::Fifo)
            });
        }),
        ("unknown type", &[Kind::DentryType], |e| {
            e.dentry(e.lookup("sub"), b"inner", |b, slot, _| b[30 + slot as usize * 11 + 10] = 9);
        }),
        ("file as directory", &[Kind::DentryType, Kind::InodeLinks], |e| {
            e.dentry(e.lookup("sub"), b"inner", |b, slot, ino| {
                BLOCK.set_target(b, slot, Ino(ino), FileType::Directory)
            });
        }),
        ("directory as file", &[Kind::DentryType, Kind::InodeLinks], |e| {
            e.dentry(e.lookup("sub"), b"deep", |b, slot, ino| {
                BLOCK.set_target(b, slot, Ino(ino), FileType::Regular)
            });
        }),
        (". of another", &[Kind::DentryDots], |e| {
            e.dentry(e.lookup("sub"), b".", |b, slot, _| {
                BLOCK.set_target(b, slot, Ino(3), FileType::Directory)
            });
        }),
        (".. of another", &[Kind::DentryDots], |e| {
            e.dentry(e.lookup("sub/deep"), b"..", |b, slot, _| {
                BLOCK.set_target(b, slot, Ino(3), FileType::Directory)
            });
        }),
        (".. of itself", &[Kind::DentryDots], |e| {
            let ino = e.lookup("sub");
            e.dentry(ino, b"..", |b, slot, _| BLOCK.set_target(b, slot, Ino(ino), FileType::Directory));
        }),
        ("no ..", &[Kind::DentryDots], |e| {
            e.dentry(e.lookup("sub/deep"), b"..", |b, slot, _| BLOCK.remove(b, slot, 2));
        }),
        ("target without an inode", &[Kind::NodeMissing, Kind::NodeLost, Kind::Counter], |e| {
            e.dentry(e.lookup("sub"), b"inner", |b, slot, _| {
                BLOCK.set_target(b, slot, Ino(9000), FileType::Regular)
            });
        }),
        ("second name of a directory", &[Kind::NodeShared, Kind::InodeLinks], |e| {
            e.add_name(e.lookup("sub"), b"loop", 3, FileType::Directory);
        }),
    ]);
}

#[test]
fn short_device() {
    let image = filled();
    let whole = Edit::new(image);
    let short = MemDevice::new(image.block_count() / 2);
    for addr in 0..short.block_count() {
        short.write(addr, &[&whole.block(BlockAddr(addr as u32))]).unwrap();
    }
    let found = report(&short);
    assert_eq!((kinds(&found), found.complete), (vec![Kind::DeviceTooSmall], false));
}

#[test]
fn lists() {
    run(&[
        ("orphan without an inode", &[Kind::Orphan], |e| e.orphans(&[9000])),
        ("orphan out of range", &[Kind::Orphan], |e| e.orphans(&[2])),
        ("orphan with a name", &[Kind::Orphan], |e| e.orphans(&[e.lookup("small")])),
        ("orphan listed twice", &[Kind::Orphan], |e| e.orphans(&[9000, 9000])),
        ("orphan with links", &[Kind::Orphan], |e| {
            let ino = e.lookup("sub/inner");
            e.dentry(e.lookup("sub"), b"inner", |b, slot, _| DentryShape::BLOCK.remove(b, slot, 5));
            e.orphans(&[ino]);
        }),
        ("number of orphan blocks", &[Kind::Orphan], |e| {
            e.orphans(&[]);
            e.edit::<RawOrphanBlock>(e.pack.offset(1), |b| b.footer.blk_count = U16::new(2));
        }),
        ("number of orphans", &[Kind::Orphan], |e| {
            e.orphans(&[]);
            e.edit::<RawOrphanBlock>(e.pack.offset(1), |b| b.footer.entry_count = U32::new(1021));
        }),
        ("circle of fsynced nodes", &[Kind::RollForward], |e| e.fsync(e.lookup("small"), e.next_node())),
    ]);
}
