//! Both copies of the superblock: which counts, and in which order they are replaced.
use super::{Blocks, volume};
use segno_device::BlockDevice;
use segno_format::superblock::RawSuperblock;
use segno_format::{Block, BlockAddr};
use segno_layout::{NoSuperblock, Superblocks, certain, superblock_in_force};

/// The superblock of a volume, with a label.
fn labelled(label: &str) -> Block {
    let (device, sb) = volume(false);
    let mut block = (&*device as &dyn BlockDevice).block(BlockAddr(0)).unwrap();
    let mut raw = sb.raw;
    assert!(raw.set_label(label));
    raw.seal();
    raw.store(&mut block.0);
    block
}

fn broken(mut block: Block) -> Block {
    // log_blocks_per_seg
    block.0[1024 + 20] ^= 1;
    block
}

fn of(copies: [Option<Block>; 2]) -> Blocks {
    Blocks((0..).zip(copies).filter_map(|(at, block)| Some((at, block?))).collect())
}

#[test]
fn the_first_valid_copy_is_in_force() {
    let (a, b) = (labelled("a"), labelled("b"));
    let cases = [
        ("both", Some(a.clone()), Some(b.clone()), Some("a")),
        ("the first broken", Some(broken(a.clone())), Some(b.clone()), Some("b")),
        ("the first unreadable", None, Some(b.clone()), Some("b")),
        ("the second broken", Some(a.clone()), Some(broken(b.clone())), Some("a")),
        ("none", Some(broken(a)), None, None),
        ("zeros", Some(Block::zeroed()), Some(Block::zeroed()), None),
    ];
    for (name, first, second, expected) in cases {
        let reader = of([first, second]);
        let label = |sb: &segno_format::superblock::Superblock| sb.label();
        let loaded = certain(Superblocks::load(&reader));
        assert_eq!(loaded.in_force().map(label).as_deref(), expected, "{name}");
        let found = certain(superblock_in_force(&reader));
        assert_eq!(found.as_ref().ok().map(label).as_deref(), expected, "{name}");
        assert_eq!(matches!(found, Err(NoSuperblock::Damaged(_))), expected.is_none(), "{name}");
    }
}

#[test]
fn a_copy_that_does_not_count_is_replaced_first() {
    let (old, new) = (labelled("old"), labelled("new"));
    let wanted = RawSuperblock::from_block(&new.0);
    let cases: [(&str, Option<Block>, Option<Block>, &[u32]); 7] = [
        ("both valid", Some(old.clone()), Some(old.clone()), &[1, 0]),
        ("the first broken", Some(broken(old.clone())), Some(old.clone()), &[0, 1]),
        ("the second broken", Some(old.clone()), Some(broken(old.clone())), &[1, 0]),
        ("the first unreadable", None, Some(old.clone()), &[0, 1]),
        ("the first as wanted", Some(new.clone()), Some(old.clone()), &[1]),
        ("the second as wanted", Some(broken(old)), Some(new.clone()), &[0]),
        ("both as wanted", Some(new.clone()), Some(new.clone()), &[]),
    ];
    for (name, first, second, order) in cases {
        let writes = certain(Superblocks::load(&of([first, second]))).update(&wanted);
        assert_eq!(writes.iter().map(|(at, _)| at.0).collect::<Vec<_>>(), order, "{name}");
        for (_, block) in &writes {
            assert!(RawSuperblock::from_block(&block.0).parse(0).unwrap().label() == "new", "{name}");
        }
    }
}

#[test]
fn copies_contradict_each_other_if_they_describe_different_volumes() {
    let one = labelled("one");
    let mut other = one.clone();
    let mut raw = RawSuperblock::from_block(&other.0);
    raw.uuid = [9; 16];
    raw.seal();
    raw.store(&mut other.0);
    let contradict = |first: &Block, second: &Block| {
        let copies = certain(Superblocks::load(&of([Some(first.clone()), Some(second.clone())])));
        copies.contradicting().is_some()
    };
    assert!(!contradict(&one, &one));
    assert!(!contradict(&one, &labelled("another label")));
    assert!(!contradict(&one, &broken(other.clone())));
    assert!(contradict(&one, &other));
}
