//! Files that are large by themselves. More of such a file will come, and in the end often an fsync, so it is written back early,
//! while the many small files of somebody else wait: those may as well be gone soon.
use crate::inode::Inode;
use crate::volume::Volume;
use std::sync::Arc;

/// Part of the cache.
const LARGE_PART: u64 = 16;

impl Volume {
    /// Has a file written back if it is large by itself.
    pub(crate) fn hint_large(&self, inode: &Inode) {
        let large = self.cache_blocks() / LARGE_PART;
        if self.mem.dirty_data.get() <= large {
            return;
        }
        let pages = inode.pages.lock();
        let home = pages.home().filter(|_| pages.dirty() as u64 > large).map(|c| c.id);
        drop(pages);
        home.into_iter().for_each(|id| self.wb.threads.kick(id));
    }

    /// Those among files that are written back for their size alone, until half of it is left.
    pub(super) fn large_among(&self, files: Vec<Arc<Inode>>) -> Vec<Arc<Inode>> {
        let enough = self.cache_blocks() / LARGE_PART / 2;
        files.into_iter().filter(|f| f.pages.lock().dirty() as u64 > enough).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::test_rig::{BLOCK, Rig};
    use segno_format::Features;

    #[test]
    fn small_files_wait_where_a_large_one_is_written_back() {
        let rig = Rig::new(Features::default());
        let (large, small) = (rig.create(b"large"), rig.create(b"small"));
        let v = &rig.volume;
        let write = |f: &Inode, pages: u64| v.write(f.ino, 0, &vec![7; (pages * BLOCK) as usize]).unwrap();
        let dirty = |f: &Inode| f.pages.lock().dirty() as u64;
        let enough = v.cache_blocks() / LARGE_PART / 2;
        write(&small, enough);
        write(&large, enough + 1);
        assert!(v.large_among(vec![small.clone()]).is_empty());
        let found = v.large_among(vec![small.clone(), large.clone()]);
        assert!(matches!(found.as_slice(), [one] if Arc::ptr_eq(one, &large)));
        while v.serve(0) {}
        assert_eq!((dirty(&small), dirty(&large)), (enough, 0));
    }
}
