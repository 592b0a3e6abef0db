//! Boundaries of the index tree and of the inode, holes, truncation.
use super::{BLOCK, Rig, formats, pattern};
use segno_engine::{Error, ExtentKind, FallocMode};
use segno_format::inode::max_file_size;
use segno_mkfs::MkfsOptions;

/// First block of each part of the tree, for the number of slots in the inode.
fn borders(slots: u64) -> Vec<u64> {
    let (p, n) = (1018, 1018);
    let direct = slots + 2 * p;
    let double = direct + 2 * p * n;
    vec![
        1,
        slots,
        slots + p,
        direct,
        direct + p,
        direct + p * n,
        double,
        double + p,
        double + p * n,
        double + 17 * p * n + 3 * p,
    ]
}

#[test]
fn every_boundary_of_the_tree() {
    for (format, slots) in formats().iter().zip([873, 864, 864]) {
        let mut rig = Rig::new(128, format);
        let data = pattern(slots, 3 * BLOCK as usize + 12);
        let files: Vec<_> = borders(slots)
            .into_iter()
            .map(|b| {
                let ino = rig.create(&format!("at {b}"));
                // Two whole blocks around the boundary, and parts of two others.
                let offset = (b * BLOCK).saturating_sub(BLOCK + 7);
                rig.write(ino, offset, &data);
                (b, ino, offset)
            })
            .collect();
        for round in ["cached", "written", "remounted"] {
            for &(b, ino, offset) in &files {
                assert_eq!(rig.read(ino, offset, data.len()), data, "{round}, border {b}");
                assert_eq!(rig.size(ino), offset + data.len() as u64);
                let before = rig.read(ino, offset.saturating_sub(9), 9.min(offset as usize));
                assert!(before.iter().all(|&x| x == 0), "{round}, border {b}: hole in front");
            }
            match round {
                "cached" => rig.volume.sync().unwrap(),
                _ => rig.remount(),
            }
        }
        for (_, ino, _) in files {
            rig.truncate(ino, 0);
            assert_eq!(rig.blocks(ino), 0, "nodes are left");
        }
        rig.remount();
    }
}

#[test]
fn the_last_byte_of_the_largest_file() {
    let mut rig = Rig::new(128, &MkfsOptions::default());
    let max = max_file_size(1018);
    let ino = rig.create("large");
    rig.write(ino, max - 5, b"abcde");
    assert!(matches!(rig.volume.write(ino, max, b"x"), Err(Error::FileTooBig)));
    assert_eq!(rig.volume.write(ino, max - 3, b"defgh").unwrap(), 3, "cut at the limit");
    assert!(matches!(rig.volume.fallocate(ino, FallocMode::Allocate, max - 1, 2), Err(Error::FileTooBig)));
    rig.remount();
    assert_eq!(rig.read(ino, max - 5, 10), b"abdef");
    assert_eq!(rig.blocks(ino), 4, "one block, three nodes");
    rig.truncate(ino, max - 4);
    rig.truncate(ino, max);
    assert_eq!(rig.read(ino, max - 5, 10), b"a\0\0\0\0");
    rig.truncate(ino, 1 << 40);
    assert_eq!(rig.blocks(ino), 0);
    rig.remount();
}

#[test]
fn inline_data_up_to_its_capacity() {
    for (format, capacity) in formats().iter().zip([3488u64, 3452, 3452]) {
        let mut rig = Rig::new(128, format);
        let data = pattern(9, 8192);
        let cases: Vec<(String, u64, usize)> = vec![
            ("empty".into(), 0, 0),
            ("one".into(), 0, 1),
            ("full".into(), 0, capacity as usize),
            ("over".into(), 0, capacity as usize + 1),
            ("tail".into(), capacity - 1, 1),
            ("past".into(), capacity, 1),
            ("block".into(), 0, 4096),
        ];
        let inos: Vec<_> = cases.iter().map(|(name, ..)| rig.create(name)).collect();
        for (&ino, (_, at, len)) in inos.iter().zip(&cases) {
            rig.write(ino, *at, &data[..*len]);
        }
        for round in 0..2 {
            for (&ino, (name, at, len)) in inos.iter().zip(&cases) {
                let mut expected = vec![0; *at as usize];
                expected.extend(&data[..*len]);
                expected.truncate(if *len == 0 { 0 } else { usize::MAX });
                assert_eq!(rig.read(ino, 0, 10_000), expected, "{name}, round {round}");
                let inline = at + *len as u64 <= capacity;
                assert_eq!(rig.blocks(ino), u64::from(!inline), "{name}, round {round}");
            }
            rig.remount();
        }
        // Growing a full inline file converts it; shrinking and growing an inline one leaves zeros.
        let full = inos[2];
        rig.write(full, capacity - 2, b"----");
        let mut expected = data[..capacity as usize - 2].to_vec();
        expected.extend(b"----");
        assert_eq!(rig.read(full, 0, 10_000), expected);
        let tail = inos[4];
        rig.truncate(tail, capacity - 1);
        rig.truncate(tail, capacity);
        assert_eq!(rig.read(tail, capacity - 1, 10), [0]);
        rig.truncate(tail, capacity + 1);
        assert_eq!(rig.blocks(tail), 0, "nothing but zeros was moved out");
        rig.remount();
        assert_eq!(rig.read(full, 0, 10_000), expected);
        assert_eq!(rig.read(tail, 0, 10_000), vec![0; capacity as usize + 1]);
    }
}

#[test]
fn converted_data_is_in_the_next_checkpoint() {
    let mut rig = Rig::new(128, &MkfsOptions::default());
    let ino = rig.create("f");
    rig.write(ino, 0, b"precious");
    rig.volume.sync().unwrap();
    rig.truncate(ino, 100_000);
    rig.remount();
    assert_eq!(rig.read(ino, 0, 10), b"precious\0\0");
}

#[test]
fn truncated_data_does_not_reappear() {
    let mut rig = Rig::new(128, &MkfsOptions::default());
    for flushed in [false, true] {
        let ino = rig.create(if flushed { "flushed" } else { "cached" });
        rig.write(ino, 0, &pattern(3, 20_000));
        if flushed {
            rig.volume.sync().unwrap();
        }
        rig.truncate(ino, 5_000);
        rig.truncate(ino, 20_000);
        let mut expected = pattern(3, 5_000);
        expected.resize(20_000, 0);
        assert_eq!(rig.read(ino, 0, 30_000), expected);
        assert_eq!(rig.blocks(ino), 2);
        rig.truncate(ino, 4_999);
        rig.write(ino, 12_000, b"x");
        expected[4_999] = 0;
        expected.truncate(12_000);
        expected.push(b'x');
        rig.remount();
        assert_eq!(rig.read(ino, 0, 30_000), expected);
    }
}

#[test]
fn seeking_distinguishes_data_holes_and_reserved_blocks() {
    let rig = Rig::new(128, &MkfsOptions::default());
    let v = &rig.volume;
    let ino = rig.create("f");
    let far = 5_000_000 * BLOCK;
    rig.write(ino, 10 * BLOCK + 5, b"data");
    rig.write(ino, far, b"data");
    for _ in 0..2 {
        assert_eq!(v.seek_data(ino, 0).unwrap(), 10 * BLOCK);
        assert_eq!(v.seek_data(ino, 10 * BLOCK + 9).unwrap(), 10 * BLOCK + 9);
        assert_eq!(v.seek_hole(ino, 10 * BLOCK + 9).unwrap(), 11 * BLOCK);
        assert_eq!(v.seek_data(ino, 11 * BLOCK).unwrap(), far);
        assert_eq!(v.seek_hole(ino, far).unwrap(), far + 4);
        assert!(matches!(v.seek_data(ino, far + 4), Err(Error::NoSuchOffset)));
        assert!(matches!(v.seek_hole(ino, far + 4), Err(Error::NoSuchOffset)));
        v.sync().unwrap();
    }
    let reserved = rig.create("reserved");
    v.fallocate(reserved, FallocMode::Allocate, 0, 1 << 20).unwrap();
    assert!(matches!(v.seek_data(reserved, 0), Err(Error::NoSuchOffset)));
    assert_eq!(v.seek_hole(reserved, 0).unwrap(), 1 << 20);
    rig.write(reserved, 5 * BLOCK, b"x");
    assert_eq!(v.seek_data(reserved, 0).unwrap(), 5 * BLOCK);
    let kinds =
        |ino| v.extents(ino).unwrap().iter().map(|e| (e.file_block, e.len, e.kind)).collect::<Vec<_>>();
    assert_eq!(
        kinds(reserved),
        [(0, 5, ExtentKind::Unwritten), (5, 1, ExtentKind::Written), (6, 250, ExtentKind::Unwritten)]
    );
    assert_eq!(kinds(ino), [(10, 1, ExtentKind::Written), (5_000_000, 1, ExtentKind::Written)]);
    assert_eq!(v.seek_data(rig.create("empty"), 0).unwrap_err().errno(), 6);
}

#[test]
fn copying_keeps_holes_at_the_end_of_the_destination() {
    let mut rig = Rig::new(128, &MkfsOptions::default());
    let (src, dst) = (rig.create("src"), rig.create("dst"));
    let data = pattern(1, 9_000);
    rig.write(src, 100_000, &data);
    rig.truncate(src, 5_000_000);
    assert_eq!(rig.volume.copy_range(src, 50, dst, 50, u64::MAX).unwrap(), 5_000_000 - 50);
    assert_eq!(rig.size(dst), 5_000_000);
    assert_eq!(rig.read(dst, 0, 5_000_000), rig.read(src, 0, 5_000_000));
    assert!(rig.blocks(dst) < 20, "{} blocks for 9000 bytes", rig.blocks(dst));
    assert!(matches!(rig.volume.copy_range(src, 0, src, 5, 10), Err(Error::Invalid(_))));
    assert_eq!(rig.volume.copy_range(src, 100_000, src, 200_000, 9_000).unwrap(), 9_000);
    rig.remount();
    assert_eq!(rig.read(src, 200_000, 9_000), data);
}
