//! One crash after a few operations: the states that the kernel was observed to recover, and the additions of strict
//! mode.
use super::*;
use segno_engine::{FallocMode, RenameMode, XattrMode};
use segno_format::Block;
use segno_format::inode::RawInode;

const MODES: [FsyncMode; 3] = [FsyncMode::Strict, FsyncMode::Posix, FsyncMode::Nobarrier];

/// Sync, then actions, then a crash; `expect` runs before and after the checker.
fn scenario<A, B>(
    mode: FsyncMode,
    before: impl Fn(&Rig) -> A,
    actions: impl Fn(&Rig) -> B,
    expect: impl Fn(&Rig),
) -> Rig {
    let mut rig = Rig::new(mode);
    before(&rig);
    rig.v.sync().unwrap();
    actions(&rig);
    rig.crash();
    expect(&rig);
    rig.judge();
    expect(&rig);
    rig
}

fn in_all_modes<A, B>(before: impl Fn(&Rig) -> A, actions: impl Fn(&Rig) -> B, expect: impl Fn(&Rig)) {
    for mode in MODES {
        scenario(mode, &before, &actions, &expect);
    }
}

#[test]
fn only_the_synced_one_of_two_new_files_survives() {
    let actions = |r: &Rig| {
        r.create("b");
        r.fsync(r.create("a"));
    };
    in_all_modes(|_| {}, actions, |r| assert_eq!(r.names(), ["a"]));
}

#[test]
fn an_unsynced_removal_is_lost() {
    let actions = |r: &Rig| {
        r.fsync(r.create("a"));
        r.v.unlink(Ino::ROOT, b"a").unwrap();
    };
    in_all_modes(|_| {}, actions, |r| assert_eq!(r.names(), ["a"]));
}

#[test]
fn a_removal_before_the_fsync_of_another_file_is_ordered_in_strict_mode_only() {
    let before = |r: &Rig| r.create("a");
    let actions = |r: &Rig| {
        r.v.unlink(Ino::ROOT, b"a").unwrap();
        r.fsync(r.create("b"));
    };
    scenario(FsyncMode::Posix, before, actions, |r| assert_eq!(r.names(), ["a", "b"]));
    scenario(FsyncMode::Strict, before, actions, |r| assert_eq!(r.names(), ["b"]));
}

#[test]
fn a_removal_before_the_fsync_of_a_committed_file_is_ordered_in_no_mode() {
    let before = |r: &Rig| [r.create("a"), r.create("b")];
    let actions = |r: &Rig| {
        r.v.unlink(Ino::ROOT, b"a").unwrap();
        r.v.write(r.ino("b"), 0, b"appended").unwrap();
        r.fsync(r.ino("b"));
    };
    in_all_modes(before, actions, |r| {
        assert_eq!((r.names(), r.content("b")), (vec!["a".into(), "b".into()], b"appended".to_vec()));
    });
}

fn rename(r: &Rig, from: &str, to: &str) {
    let owner = Owner::default();
    r.v.rename(Ino::ROOT, from.as_bytes(), Ino::ROOT, to.as_bytes(), RenameMode::Replace, owner).unwrap();
}

#[test]
fn a_renamed_file_is_synced_under_its_new_name() {
    let before = |r: &Rig| r.file("a", b"old");
    let actions = |r: &Rig| {
        rename(r, "a", "b");
        r.fsync(r.ino("b"));
    };
    in_all_modes(before, actions, |r| {
        assert_eq!(r.names(), ["b"]);
        assert_eq!(r.content("b"), b"old");
    });
}

#[test]
fn a_rename_before_the_fsync_of_another_file_is_ordered_in_strict_mode_only() {
    let before = |r: &Rig| r.create("a");
    let actions = |r: &Rig| {
        rename(r, "a", "b");
        r.fsync(r.create("c"));
    };
    scenario(FsyncMode::Posix, before, actions, |r| assert_eq!(r.names(), ["a", "c"]));
    scenario(FsyncMode::Strict, before, actions, |r| assert_eq!(r.names(), ["b", "c"]));
}

#[test]
fn a_new_file_takes_the_name_of_a_removed_one() {
    let before = |r: &Rig| r.file("a", &pattern(1, 3 * BLOCK));
    let actions = |r: &Rig| {
        r.v.unlink(Ino::ROOT, b"a").unwrap();
        r.fsync(r.file("a", b"new"));
    };
    in_all_modes(before, actions, |r| {
        assert_eq!(r.names(), ["a"]);
        assert_eq!(r.content("a"), b"new");
    });
}

#[test]
fn a_new_file_takes_the_name_of_a_removed_directory() {
    let before = |r: &Rig| r.v.mkdir(Ino::ROOT, b"a", 0o755, Owner::default()).unwrap();
    let actions = |r: &Rig| {
        r.v.rmdir(Ino::ROOT, b"a").unwrap();
        r.fsync(r.file("a", b"new"));
    };
    in_all_modes(before, actions, |r| {
        assert_eq!(r.names(), ["a"]);
        assert_eq!(r.content("a"), b"new");
        assert_eq!(r.v.getattr(Ino::ROOT).unwrap().nlink, 2);
    });
}

/// Linux logs this file: it takes the name of a directory that was emptied and removed, and that is full again after
/// replay.
#[test]
fn a_restored_directory_and_the_file_with_its_name_are_both_kept() {
    let mut rig = Rig::new(FsyncMode::Posix);
    let dir = rig.v.mkdir(Ino::ROOT, b"a", 0o755, Owner::default()).unwrap().ino;
    let inside = create_in(&rig.v, dir, "inside");
    rig.v.write(inside, 0, b"precious").unwrap();
    rig.v.sync().unwrap();
    rig.fsync(rig.file("b", b"new"));
    let geo = rig.v.superblock().geo;
    let main = u64::from(geo.main_blkaddr)..u64::from(geo.main_end());
    let patched = main.filter(|&addr| rename_logged(&rig.dev, addr, b"b", b"a")).count();
    assert_eq!(patched, 1);
    rig.crash();
    for _ in 0..2 {
        let names = rig.names();
        let [file, dir] = names.as_slice() else { panic!("{names:?}") };
        assert_eq!((file.as_str(), dir.as_str()), (format!("#{}", rig.ino(file)).as_str(), "a"));
        assert_eq!(rig.content(file), b"new");
        let inside = rig.v.lookup(rig.ino("a"), b"inside").unwrap().ino;
        assert_eq!(content_of(&rig.v, inside), b"precious");
        rig.judge();
    }
}

/// Renames a logged inode block. Returns false if no block with the old name is at the address.
fn rename_logged(dev: &MemDevice, addr: u64, from: &[u8], to: &[u8]) -> bool {
    let mut blocks = [Block::zeroed()];
    dev.read(addr, &mut blocks).unwrap();
    let [block] = &mut blocks;
    let raw: &mut RawInode = block.view_mut();
    if !raw.footer.is_dent() || raw.name() != from {
        return false;
    }
    raw.set_name(Ino::ROOT, to);
    dev.write(addr, &[block]).unwrap();
    true
}

#[test]
fn sizes_are_replayed() {
    for (before, after) in [(50_000, 10_000), (9_000, 1_000_000), (9_000_000, 10_000), (9_000_000, 0), (3, 0)]
    {
        let data = pattern(7, before);
        let actions = |r: &Rig| {
            r.resize(r.ino("a"), after as u64);
            r.fsync(r.ino("a"));
        };
        let mut expected = data.clone();
        expected.resize(after, 0);
        in_all_modes(
            |r| r.file("a", &data),
            actions,
            |r| {
                assert!(r.content("a") == expected, "from {before} to {after}");
                // Old content past the end must not reappear.
                r.resize(r.ino("a"), before as u64);
                let mut grown = expected.clone();
                grown.resize(before, 0);
                if before > after {
                    assert!(r.content("a") == grown, "from {before} to {after} and back");
                }
                r.resize(r.ino("a"), after as u64);
            },
        );
    }
}

#[test]
fn a_sparse_file_after_a_truncation_has_no_old_blocks_in_its_hole() {
    let far = 5_000 * BLOCK as u64;
    let actions = |r: &Rig| {
        let ino = r.ino("a");
        r.resize(ino, 0);
        r.v.write(ino, far, b"end").unwrap();
        r.fsync(ino);
    };
    in_all_modes(
        |r| r.file("a", &pattern(7, 4_000 * BLOCK)),
        actions,
        |r| {
            let content = r.content("a");
            assert_eq!(content.len() as u64, far + 3);
            assert!(content[..far as usize].iter().all(|&b| b == 0));
            assert_eq!(&content[far as usize..], b"end");
        },
    );
}

#[test]
fn nodes_freed_after_being_logged_are_not_restored() {
    let far = 5_000 * BLOCK as u64;
    let actions = |r: &Rig| {
        let ino = r.file("a", &pattern(7, 4_000 * BLOCK));
        r.fsync(ino);
        r.resize(ino, 0);
        r.v.write(ino, far, b"end").unwrap();
        r.fsync(ino);
    };
    in_all_modes(|_| {}, actions, |r| assert!(r.content("a")[..far as usize].iter().all(|&b| b == 0)));
}

#[test]
fn attributes_are_replayed() {
    for (size, name) in [(20, &b"user.small"[..]), (2_000, b"user.large")] {
        let value = pattern(3, size);
        let actions = |r: &Rig| {
            let ino = r.ino("a");
            let set = SetAttr { mode: Some(0o600), uid: Some(7), gid: Some(8), ..SetAttr::default() };
            r.v.setattr(ino, &set).unwrap();
            r.v.setxattr(ino, name, &value, XattrMode::Set).unwrap();
            r.fsync(ino);
        };
        in_all_modes(
            |r| r.create("a"),
            actions,
            |r| {
                let attr = r.v.getattr(r.ino("a")).unwrap();
                assert_eq!((attr.mode, attr.uid, attr.gid), (0o100_600, 7, 8));
                assert_eq!(r.v.getxattr(attr.ino, name).unwrap(), value);
            },
        );
    }
}

#[test]
fn a_removed_attribute_stays_removed() {
    let before = |r: &Rig| {
        let ino = r.create("a");
        r.v.setxattr(ino, b"user.large", &pattern(3, 2_000), XattrMode::Set).unwrap();
        r.v.setxattr(ino, b"user.small", b"x", XattrMode::Set).unwrap();
    };
    let actions = |r: &Rig| {
        r.v.removexattr(r.ino("a"), b"user.large").unwrap();
        r.fsync(r.ino("a"));
    };
    in_all_modes(before, actions, |r| assert_eq!(r.v.listxattr(r.ino("a")).unwrap(), b"user.small\0"));
}

#[test]
fn writes_after_the_fsync_are_lost() {
    let data = pattern(5, 18_000);
    let actions = |r: &Rig| {
        let ino = r.file("a", &data[..9_000]);
        r.fsync(ino);
        r.v.write(ino, 9_000, &data[9_000..]).unwrap();
    };
    in_all_modes(|_| {}, actions, |r| assert!(r.content("a") == data[..9_000]));
}

#[test]
fn data_in_segments_that_were_free_in_the_checkpoint_is_not_overwritten() {
    let data = pattern(5, 9 << 20);
    in_all_modes(
        |_| {},
        |r| r.fsync(r.file("a", &data)),
        |r| {
            // Written at the current log positions.
            r.file("b", &pattern(6, 3 << 20));
            r.v.sync().unwrap();
            assert!(r.content("a") == data);
            r.v.unlink(Ino::ROOT, b"b").unwrap();
        },
    );
}

#[test]
fn reserved_blocks_past_the_end_stay_reserved() {
    let data = pattern(5, 9_000);
    let actions = |r: &Rig| {
        r.v.fallocate(r.ino("a"), FallocMode::AllocateKeepSize, 0, 1 << 20).unwrap();
        r.fsync(r.ino("a"));
    };
    in_all_modes(
        |r| r.file("a", &data),
        actions,
        |r| {
            let attr = r.v.getattr(r.ino("a")).unwrap();
            assert_eq!(attr.size, 9_000);
            assert!(attr.blocks * 512 >= 1 << 20, "{} blocks are left", attr.blocks);
            assert!(r.content("a") == data);
        },
    );
}

#[test]
fn inline_data_and_its_conversion_are_replayed() {
    let long = pattern(9, 9_000);
    in_all_modes(|_| {}, |r| r.fsync(r.file("a", b"abc")), |r| assert_eq!(r.content("a"), b"abc"));
    let overwrite = |r: &Rig| {
        r.v.write(r.ino("a"), 0, &long).unwrap();
        r.fsync(r.ino("a"));
    };
    in_all_modes(|r| r.file("a", b"abc"), overwrite, |r| assert!(r.content("a") == long));
    let change = |r: &Rig| {
        r.v.write(r.ino("a"), 1, b"xy").unwrap();
        r.fsync(r.ino("a"));
    };
    in_all_modes(|r| r.file("a", b"abc"), change, |r| assert_eq!(r.content("a"), b"axy"));
}

#[test]
fn a_symlink_needs_a_checkpoint() {
    let link = |r: &Rig| r.v.symlink(Ino::ROOT, b"s", b"target", Owner::default()).unwrap();
    let actions = |r: &Rig| {
        link(r);
        r.fsync(r.create("a"));
    };
    in_all_modes(|_| {}, actions, |r| assert_eq!(r.names(), ["a"]));
    let synced = |r: &Rig| {
        link(r);
        r.fsync(r.ino("s"));
    };
    in_all_modes(|_| {}, synced, |r| assert_eq!(r.v.readlink(r.ino("s")).unwrap(), b"target"));
}

#[test]
fn many_fsyncs_of_one_file_keep_the_last() {
    let actions = |r: &Rig| {
        let ino = r.create("a");
        for version in 0..40 {
            // Far apart, to involve several direct nodes.
            for at in [0, 2_000, 4_000] {
                r.v.write(ino, at * BLOCK as u64, &pattern(version, 2 * BLOCK)).unwrap();
            }
            r.fsync(ino);
        }
    };
    in_all_modes(
        |_| {},
        actions,
        |r| {
            let content = r.content("a");
            for at in [0, 2_000, 4_000] {
                assert!(content[at * BLOCK..][..2 * BLOCK] == pattern(39, 2 * BLOCK), "block {at}");
            }
        },
    );
}

#[test]
fn a_block_that_moved_inside_the_file_is_found() {
    for mode in [FallocMode::CollapseRange, FallocMode::InsertRange] {
        let data = pattern(11, 40 * BLOCK);
        let (at, len) = (4 * BLOCK, 3 * BLOCK);
        let mut expected = data.clone();
        if mode == FallocMode::CollapseRange {
            expected.drain(at..at + len);
        } else {
            expected.splice(at..at, vec![0; len]);
        }
        let actions = |r: &Rig| {
            r.v.fallocate(r.ino("a"), mode, at as u64, len as u64).unwrap();
            r.fsync(r.ino("a"));
        };
        in_all_modes(|r| r.file("a", &data), actions, |r| assert!(r.content("a") == expected, "{mode:?}"));
    }
}

#[test]
fn holes_are_replayed() {
    let data = pattern(11, 3_000 * BLOCK);
    let (at, len) = (900 * BLOCK, 1_500 * BLOCK);
    let mut expected = data.clone();
    expected[at..at + len].fill(0);
    let actions = |r: &Rig| {
        r.v.fallocate(r.ino("a"), FallocMode::PunchHole, at as u64, len as u64).unwrap();
        r.fsync(r.ino("a"));
    };
    in_all_modes(|r| r.file("a", &data), actions, |r| assert!(r.content("a") == expected));
}

#[test]
fn an_fsync_without_changes_does_no_io() {
    for links in [1, 2] {
        let rig = Rig::new(FsyncMode::Strict);
        let ino = rig.file("a", b"x");
        if links == 2 {
            rig.v.link(ino, Ino::ROOT, b"b").unwrap();
        }
        rig.fsync(ino);
        rig.fsync(Ino::ROOT);
        let is_write = |name: &str| name != "fsyncs" && !name.starts_with("fsync_");
        let written =
            |r: &Rig| r.v.stats().snapshot().into_iter().filter(|c| is_write(c.0)).collect::<Vec<_>>();
        let before = written(&rig);
        rig.fsync(ino);
        rig.fsync(Ino::ROOT);
        let changed: Vec<_> = written(&rig).into_iter().zip(before).filter(|(a, b)| a != b).collect();
        assert!(changed.is_empty(), "{changed:?}");
    }
}

#[test]
fn ordinary_fsyncs_write_no_checkpoint() {
    let rig = Rig::new(FsyncMode::Strict);
    let old = rig.file("old", b"x");
    rig.v.sync().unwrap();
    let before = rig.checkpoints();
    rig.v.write(old, 0, &pattern(1, 5 * BLOCK)).unwrap();
    rig.fsync(old);
    let new = rig.file("new", b"y");
    rig.fsync(new);
    rig.v.write(new, 0, &pattern(1, 5 * BLOCK)).unwrap();
    rig.fsync(new);
    assert_eq!(rig.checkpoints(), before);
    rename(&rig, "new", "newer");
    rig.fsync(new);
    assert_eq!(rig.checkpoints(), before + 1);
    rig.v.write(new, 0, b"z").unwrap();
    rig.fsync(new);
    assert_eq!(rig.checkpoints(), before + 1, "once is enough");
}

#[test]
fn a_file_that_replaced_another_has_its_content_without_an_fsync() {
    for (size, mode) in [100, 9 * BLOCK, 2000 * BLOCK].into_iter().flat_map(|s| MODES.map(|m| (s, m))) {
        let before = |r: &Rig| r.file("old", &pattern(1, 3 * BLOCK));
        let actions = |r: &Rig| {
            r.file("new", &pattern(2, size));
            let (root, owner) = (Ino::ROOT, Owner::default());
            r.v.rename(root, b"new", root, b"old", RenameMode::Replace, owner).unwrap();
            // Commits the names, but not the data.
            r.fsync(root);
        };
        scenario(mode, before, actions, |r| {
            assert_eq!(r.names(), ["old"]);
            assert!(r.content("old") == pattern(2, size), "{size} bytes, {mode:?}");
        });
    }
}

#[test]
fn a_checkpoint_has_only_the_written_part_of_a_growing_file() {
    let before = |r: &Rig| {
        let ino = r.file("appended", &pattern(1, 5000));
        r.fsync(ino);
    };
    let actions = |r: &Rig| {
        r.file("new", &pattern(2, 50 * BLOCK));
        let ino = r.ino("appended");
        r.v.write(ino, 5000, &pattern(3, 9 * BLOCK)).unwrap();
        // Commits names and inodes, but not the data.
        r.fsync(Ino::ROOT);
    };
    let r = scenario(FsyncMode::Strict, before, actions, |r| {
        assert_eq!(r.names(), ["appended", "new"]);
        assert!(r.content("new").is_empty());
        assert!(r.content("appended") == pattern(1, 5000));
    });
    // Blocks reserved past the end read as zeros when the file grows over them.
    r.v.write(r.ino("appended"), 8 * BLOCK as u64, b"x").unwrap();
    let all = r.content("appended");
    assert!(all.starts_with(&pattern(1, 5000)));
    assert!(all.get(5000..8 * BLOCK).unwrap().iter().all(|&b| b == 0));
}
