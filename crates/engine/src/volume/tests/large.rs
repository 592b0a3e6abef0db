//! Writeback of large files before small ones.
use super::rig::{BLOCK, Rig};
use crate::files::Inode;
use crate::writeback::LARGE_DIVISOR;
use segno_format::Features;
use std::sync::Arc;

#[test]
fn small_files_wait_while_a_large_one_is_flushed() {
    let rig = Rig::new(Features::default());
    let (large, small) = (rig.create(b"large"), rig.create(b"small"));
    let v = &rig.volume;
    let write = |f: &Inode, pages: u64| v.write(f.ino, 0, &vec![7; (pages * BLOCK) as usize]).unwrap();
    let dirty = |f: &Inode| f.pages.lock().dirty() as u64;
    let enough = v.base.cache_blocks() / LARGE_DIVISOR / 2;
    write(&small, enough);
    write(&large, enough + 1);
    assert!(v.writeback.large_among(vec![small.clone()]).is_empty());
    let found = v.writeback.large_among(vec![small.clone(), large.clone()]);
    assert!(matches!(found.as_slice(), [one] if Arc::ptr_eq(one, &large)));
    while v.writeback.serve(0) {}
    assert_eq!((dirty(&small), dirty(&large)), (enough, 0));
}
