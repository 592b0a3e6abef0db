//! The cache of NAT blocks.
use super::rig::Rig;
use crate::nodes::BLOCKS_CACHED_MAX;
use segno_format::Features;
use segno_format::geometry::NAT_PER_BLOCK;

#[test]
fn nat_blocks_of_a_checkpoint_stay_within_the_limit() {
    let mut rig = Rig::new(Features::empty());
    let count = (BLOCKS_CACHED_MAX as u32 + 4) * NAT_PER_BLOCK;
    let cached = |rig: &Rig| rig.volume.nodes.nat.cached_blocks();
    let inos: Vec<_> = (0..count).map(|i| rig.create(format!("{i}").as_bytes()).ino).collect();
    rig.volume.sync().unwrap();
    assert!(cached(&rig) <= BLOCKS_CACHED_MAX, "{}", cached(&rig));
    // Entries of evicted blocks are read again.
    assert!(inos.iter().all(|&ino| rig.volume.nodes.exists(ino).unwrap()));
    assert!(cached(&rig) <= BLOCKS_CACHED_MAX, "{}", cached(&rig));
    rig.remount();
}
