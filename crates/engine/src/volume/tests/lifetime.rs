//! Data blocks go to the hot, warm and cold log by the age of the blocks that they replace.
use super::rig::{BLOCK, Rig};
use crate::files::Inode;
use crate::options::ContextSetting;
use segno_format::Features;
use segno_format::sit::LogType;
use std::sync::Arc;

const PAGES: u64 = 20_000;

impl Rig {
    fn overwrite(&self, file: &Inode, pages: impl Iterator<Item = u64>) {
        let v = &self.volume;
        pages.for_each(|page| _ = v.write(file.ino, page * BLOCK, &[page as u8; BLOCK as usize]).unwrap());
        v.writeback.flush_all_data().unwrap();
    }

    /// The type of the segment that holds each page.
    fn logs(&self, file: &Arc<Inode>, pages: impl Iterator<Item = u64>) -> Vec<LogType> {
        let v = &self.volume;
        let addrs = v.nodes.map_blocks(&file.frame, 0..PAGES).unwrap();
        let log = |page: u64| {
            let (seg, _) = v.base.geo.seg_of(addrs[page as usize]).unwrap();
            v.space.with_table(|t| t.log_of(seg)).unwrap()
        };
        pages.map(log).collect()
    }

    fn assert_logs(&self, file: &Arc<Inode>, pages: impl Iterator<Item = u64>, log: LogType, what: &str) {
        let found = self.logs(file, pages);
        let others = found.iter().filter(|&&found| found != log).count();
        assert_eq!(others, 0, "{what}: of {} pages", found.len());
    }

    fn clean(&self) {
        self.volume.sync().unwrap();
        while self.volume.clean_now().unwrap() > 0 {}
    }
}

/// Even pages of the file, from the `from`-th.
fn even(from: u64, count: u64) -> impl Iterator<Item = u64> + Clone {
    (from..from + count).map(|i| 2 * i)
}

#[test]
fn blocks_go_to_the_log_for_the_age_of_their_old_copies() {
    let mut rig = Rig::new(Features::empty());
    rig.volume.set_contexts(ContextSetting::Fixed(1));
    let file = rig.create(b"f");
    rig.overwrite(&file, 0..PAGES);
    rig.overwrite(&file, even(0, PAGES / 2));
    rig.assert_logs(&file, 0..PAGES, LogType::WarmData, "nothing tells them apart");
    rig.clean();
    // The ends of the file may lie in sections that are open or nearly full.
    let odd = || (1001..PAGES - 1000).step_by(2);
    rig.assert_logs(&file, odd(), LogType::ColdData, "moved out of warm sections");

    // Two periods of overwrites that prefer what was never moved, which is half of the file.
    (0..24).for_each(|_| rig.overwrite(&file, even(0, 500)));
    rig.overwrite(&file, even(0, 500).chain(even(1000, 500)));
    rig.assert_logs(&file, even(0, 500), LogType::HotData, "overwritten early");
    rig.assert_logs(&file, even(1000, 500), LogType::HotData, "the age limit is not known yet");
    rig.overwrite(&file, [1001, 1003].into_iter());
    rig.assert_logs(
        &file,
        [1001, 1003].into_iter(),
        LogType::WarmData,
        "the old copies had survived cleaning",
    );

    rig.overwrite(&file, even(0, 250).chain(even(2000, 500)));
    rig.volume.sync().unwrap();
    let places = |rig: &Rig| rig.volume.nodes.map_blocks(&file.frame, 0..PAGES).unwrap();
    let (logs, old) = (rig.logs(&file, 0..PAGES), places(&rig));
    assert!(rig.volume.clean_now().unwrap() > 0);
    let new = places(&rig);
    let moved = (0..PAGES).filter(|&page| new[page as usize] != old[page as usize]);
    let hot = |page: &u64| logs[*page as usize] == LogType::HotData;
    rig.assert_logs(&file, moved.clone().filter(hot), LogType::WarmData, "moved out of hot sections");
    rig.assert_logs(&file, moved.clone().filter(|page| !hot(page)), LogType::ColdData, "out of others");
    assert!(moved.filter(hot).count() > 100, "hardly a hot block was moved");
    let before = rig.logs(&file, 0..PAGES);
    let ino = file.ino;
    drop(file);
    rig.remount();
    let file = rig.volume.files.inode(ino).unwrap();
    assert_eq!(rig.logs(&file, 0..PAGES), before);
}
