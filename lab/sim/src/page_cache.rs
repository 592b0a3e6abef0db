//! The kernel's writeback cache as it appears to the server: written pages and times stay above the volume
//! until an fsync, a close or an operation that needs them sends whole pages, then the times.
use crate::fs::{Attr, Node, Res, errno};
use segno_engine::{Error, SetAttr, Time, Volume};
use segno_format::dentry::FileType;
use segno_format::inode::Advise;
use segno_format::{BLOCK_SIZE, Ino};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

const PAGE: u64 = BLOCK_SIZE as u64;
/// Larger offsets are written through: a page cache would accept them, but a test of limits needs the error
/// at once.
const FAR: u64 = 1 << 30;
/// Set-user-ID and set-group-ID; the kernel writes through to such files.
const SET_ID: u16 = 0o6000;

/// Files with something to send. Not locked while the volume works.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    files: Mutex<BTreeMap<Node, Dirty>>,
}

#[derive(Clone, Debug)]
struct Dirty {
    pages: BTreeMap<u64, Vec<u8>>,
    size: u64,
    modify: Time,
    change: Time,
}

impl PageCache {
    fn files(&self) -> MutexGuard<'_, BTreeMap<Node, Dirty>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_regular(volume: &Volume, node: Node) -> bool {
        volume.getattr(Ino(node)).is_ok_and(|a| a.kind == FileType::Regular)
    }

    /// A write(2).
    pub fn write(&self, volume: &Volume, node: Node, offset: u64, data: &[u8], now: Time) -> Res<usize> {
        let attr = volume.getattr(Ino(node)).map_err(|e| e.errno())?;
        let end = offset.saturating_add(data.len() as u64);
        if data.is_empty() || attr.kind != FileType::Regular || attr.mode & SET_ID != 0 || end > FAR {
            self.send(volume, node)?;
            let n = volume.write(Ino(node), offset, data).map_err(|e| e.errno())?;
            if n > 0 {
                set_times(volume, node, now, now)?;
            }
            return Ok(n);
        }
        let mut file = self.files().get(&node).cloned().unwrap_or_else(|| Dirty {
            pages: BTreeMap::new(),
            size: attr.size,
            modify: attr.mtime,
            change: attr.ctime,
        });
        for index in offset / PAGE..end.div_ceil(PAGE) {
            if let Entry::Vacant(page) = file.pages.entry(index) {
                page.insert(page_of(volume, node, index)?);
            }
        }
        file.copy_in(offset, data);
        file.size = file.size.max(end);
        (file.modify, file.change) = (now, now);
        self.files().insert(node, file);
        Ok(data.len())
    }

    /// A read(2).
    pub fn read(&self, volume: &Volume, node: Node, offset: u64, len: usize) -> Res<Vec<u8>> {
        let mut data = vec![0; len];
        let n = volume.read(Ino(node), offset, &mut data).map_err(|e| e.errno())?;
        let Some(file) = self.files().get(&node).cloned() else {
            data.truncate(n);
            return Ok(data);
        };
        data.iter_mut().skip(n).for_each(|b| *b = 0);
        for (i, byte) in data.iter_mut().enumerate() {
            let at = offset.saturating_add(i as u64);
            let cached = file.pages.get(&(at / PAGE)).and_then(|page| page.get((at % PAGE) as usize));
            cached.into_iter().for_each(|b| *byte = *b);
        }
        data.truncate(usize::try_from(file.size.saturating_sub(offset)).unwrap_or(len).min(len));
        Ok(data)
    }

    /// Replaces the attributes of a file whose pages and times are not sent yet with the ones that stat(2)
    /// returns.
    pub fn cover(&self, node: Node, attr: &mut Attr) {
        attr.advise.remove(Advise::KEEP_SIZE);
        if let Some(file) = self.files().get(&node) {
            (attr.size, attr.mtime, attr.ctime) = (file.size, file.modify, file.change);
        }
    }

    /// A change of attributes: of the size before the pages are sent, of others after.
    pub fn setattr(&self, volume: &Volume, node: Node, set: &SetAttr, now: Time) -> Res<()> {
        let mut set = SetAttr { ctime: Some(now), ..*set };
        if set.size.is_none() {
            self.send(volume, node)?;
        } else {
            set.mtime = set.mtime.or(Some(now));
        }
        volume.setattr(Ino(node), &set).map_err(|e| e.errno())?;
        if let (Some(size), Some(file)) = (set.size, self.files().get_mut(&node)) {
            file.pages.retain(|&index, _| index * PAGE < size);
            if let Some(page) = file.pages.get_mut(&(size / PAGE)) {
                page.iter_mut().skip((size % PAGE) as usize).for_each(|b| *b = 0);
            }
            (file.size, file.modify, file.change) = (size, now, now);
        }
        Ok(())
    }

    /// A name or an attribute of the inode changed, or the inode is gone.
    pub fn changed(&self, volume: &Volume, node: Node, now: Time) {
        let gone = volume.getattr(Ino(node)).is_err();
        let mut files = self.files();
        if gone {
            files.remove(&node);
        } else if let Some(file) = files.get_mut(&node) {
            file.change = now;
        }
    }

    /// An ioctl may have changed the inode. The kernel does not set its ctime then, and later sends the one it has. The model
    /// expects the ctime of the change, so the cache takes it over, if there was a change.
    pub fn adopt_change(&self, volume: &Volume, node: Node) {
        let Ok(attr) = volume.getattr(Ino(node)) else { return };
        if let Some(file) = self.files().get_mut(&node) {
            file.change = file.change.max(attr.ctime);
        }
    }

    /// A change of content by the server itself; it returns how much it changed.
    pub fn serve(
        &self,
        volume: &Volume,
        node: Node,
        now: Time,
        change: impl FnOnce() -> Result<u64, Error>,
    ) -> Res<u64> {
        self.send(volume, node)?;
        let done = change().map_err(|e| e.errno())?;
        if done > 0 {
            set_times(volume, node, now, now)?;
        }
        Ok(done)
    }

    /// Sends the pages of a file in order, then its times.
    pub fn send(&self, volume: &Volume, node: Node) -> Res<()> {
        let Some(file) = self.files().remove(&node) else { return Ok(()) };
        for (index, page) in &file.pages {
            let at = index * PAGE;
            let len = file.size.saturating_sub(at).min(PAGE) as usize;
            let data = page.get(..len).unwrap_or_default();
            if volume.write(Ino(node), at, data).map_err(|e| e.errno())? < data.len() {
                return Err(errno::ENOSPC);
            }
        }
        set_times(volume, node, file.modify, file.change)
    }

    /// Sends everything.
    pub fn send_all(&self, volume: &Volume) -> Res<()> {
        let nodes: Vec<Node> = self.files().keys().copied().collect();
        nodes.into_iter().try_for_each(|node| self.send(volume, node))
    }
}

impl Dirty {
    fn copy_in(&mut self, offset: u64, data: &[u8]) {
        for (at, &byte) in (offset..).zip(data) {
            let place = self.pages.get_mut(&(at / PAGE)).and_then(|page| page.get_mut((at % PAGE) as usize));
            place.into_iter().for_each(|b| *b = byte);
        }
    }
}

fn set_times(volume: &Volume, node: Node, modify: Time, change: Time) -> Res<()> {
    let set = SetAttr { mtime: Some(modify), ctime: Some(change), ..SetAttr::default() };
    volume.setattr(Ino(node), &set).map(drop).map_err(|e| e.errno())
}

/// A page as the volume has it; zeros after the end of the file.
fn page_of(volume: &Volume, node: Node, index: u64) -> Res<Vec<u8>> {
    let mut page = vec![0; BLOCK_SIZE];
    volume.read(Ino(node), index * PAGE, &mut page).map_err(|e| e.errno())?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use crate::fs::Fs;
    use crate::setup;
    use segno_device::MemDevice;
    use segno_format::inode::InodeFlags;
    use std::sync::Arc;

    #[test]
    fn data_and_times_stay_above_the_volume_until_a_sync() {
        let setup = setup::chosen(Some("cached"), 0).unwrap();
        let mut cached = setup.mount(Arc::new(MemDevice::from_snapshot(&setup.base)), 1000).unwrap();
        let mut below = cached.without_page_cache();
        let root = cached.root();
        let node = cached.mknod(root, b"a", 0o100_644, (0, 0), segno_engine::Owner::default()).unwrap();
        cached.set_time(crate::compare::time_of(5));
        cached.write(node, 4000, b"across a page").unwrap();
        cached.setattr(node, &segno_engine::SetAttr { size: Some(4005), ..Default::default() }).unwrap();
        cached.write(node, 4005, b"s").unwrap();
        let written = cached.getattr(node).unwrap();
        assert_eq!((written.size, written.mtime.secs), (4006, 1005));
        assert_eq!(cached.read(node, 3999, 100).unwrap(), b"\0across");
        assert_eq!(below.read(node, 3999, 100).unwrap(), [0; 6]);
        cached.fsync(node, false).unwrap();
        assert_eq!(below.getattr(node).unwrap(), written);
        assert_eq!(below.read(node, 3999, 100).unwrap(), b"\0across");
    }

    #[test]
    fn an_ioctl_without_a_change_leaves_the_ctime_of_written_data() {
        let setup = setup::chosen(Some("cached"), 0).unwrap();
        let mut cached = setup.mount(Arc::new(MemDevice::from_snapshot(&setup.base)), 1000).unwrap();
        let root = cached.root();
        let node = cached.mknod(root, b"a", 0o100_644, (0, 0), segno_engine::Owner::default()).unwrap();
        let mut ctime_after = |step, change: &dyn Fn(&mut crate::mounted::Mounted)| {
            cached.set_time(crate::compare::time_of(step));
            change(&mut cached);
            cached.getattr(node).unwrap().ctime.secs
        };
        assert_eq!(ctime_after(5, &|fs| assert_eq!(fs.write(node, 0, b"data"), Ok(4))), 1005);
        // The volume has no projects, and the file none.
        assert_eq!(ctime_after(6, &|fs| fs.set_project(node, 0).unwrap()), 1005);
        assert_eq!(ctime_after(7, &|fs| fs.set_flags(node, InodeFlags::NODUMP).unwrap()), 1007);
        assert_eq!(ctime_after(8, &|fs| fs.fsync(node, false).unwrap()), 1007);
    }
}
