//! A roll-forward chain whose log does not continue at the address named by the last fsync.
use super::rig::Rig;
use segno_format::sit::LogType;
use segno_format::summary::RawSummary;
use segno_format::{Features, Nid};
use std::sync::atomic::Ordering;

#[test]
fn an_fsync_after_a_gap_in_the_chain_writes_a_checkpoint() {
    let rig = Rig::new(Features::empty());
    let v = &rig.volume;
    let file = rig.create(b"f").ino;
    v.sync().unwrap();
    let fsync = |content: &[u8]| {
        v.write(file, 0, content).unwrap();
        v.fsync(file).unwrap();
        v.stats().fsync_checkpoints.load(Ordering::Relaxed)
    };
    assert_eq!((fsync(b"one"), fsync(b"two")), (0, 0));
    // The next block of the chain is not at the address that the last one names.
    drop(v.space.allocate(LogType::WarmNode, &[RawSummary::node(Nid(100))]).unwrap());
    assert_eq!((fsync(b"three"), fsync(b"four")), (1, 1), "a checkpoint starts a chain without gap");
}
