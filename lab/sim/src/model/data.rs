//! Bytes and sizes.
use super::attr::{ACCESS_ACL, acl};
use super::{BLOCK, Bytes, Content, Model};
use crate::fs::{Node, Res, Seek, errno};
use segno_engine::{FallocMode, SetAttr};
use segno_format::inode::Advise;

const S_ISUID: u16 = 0o4000;
const S_ISGID: u16 = 0o2000;
const S_IXGRP: u16 = 0o010;

impl Model {
    pub(super) fn write_data(&mut self, node: Node, offset: u64, data: &[u8]) -> Res<usize> {
        let room = self.limits.file_size.saturating_sub(offset);
        self.get(node)?.bytes()?;
        if data.is_empty() {
            return Ok(0);
        }
        if room == 0 {
            return Err(errno::EFBIG);
        }
        self.check_not_released(node)?;
        let bytes = self.get_mut(node)?.bytes_mut()?;
        let data = data.get(..usize::try_from(room).unwrap_or(usize::MAX)).unwrap_or(data);
        bytes.write(offset, data);
        self.modified(node)?;
        Ok(data.len())
    }

    /// Takes over the content of a file, if its size and each block are as before or as after an operation.
    pub fn adopt(&mut self, node: Node, after: &Self, found: Bytes) -> Result<(), String> {
        let bytes = |m: &Self| m.inodes.get(&node).and_then(|i| i.bytes().ok()).cloned();
        let (Some(old), Some(new)) = (bytes(self), bytes(after)) else { return Ok(()) };
        if found.size() != old.size() && found.size() != new.size() {
            return Err(format!("size is {}, neither {} nor {}", found.size(), old.size(), new.size()));
        }
        let all = || found.indices().chain(old.indices()).chain(new.indices());
        let cut = |b: &Bytes, i: u64| b.read(i * BLOCK, BLOCK as usize);
        let known = |&i: &u64| {
            let mut one = [cut(&found, i), cut(&old, i), cut(&new, i)];
            one.iter_mut().for_each(|b| b.resize(BLOCK as usize, 0));
            one[0] == one[1] || one[0] == one[2]
        };
        if let Some(index) = all().find(|i| !known(i)) {
            return Err(format!("block {index} is neither as before nor as after"));
        }
        let change = |m: &Self| m.inodes.get(&node).map(|i| i.times);
        let times = if found == old { change(self) } else { change(after) };
        if let Some(inode) = self.inodes.get_mut(&node) {
            inode.content = Content::File(found);
            inode.times = times.unwrap_or(inode.times);
        }
        Ok(())
    }

    fn modified(&mut self, node: Node) -> Res<()> {
        let now = self.now;
        self.change(node)?.times.modify = now;
        Ok(())
    }

    pub(super) fn set_attributes(&mut self, node: Node, set: &SetAttr) -> Res<()> {
        let (now, limit) = (self.now, self.limits.file_size);
        if set.size.is_some_and(|size| size > 0 && size <= limit) {
            self.check_not_released(node)?;
        }
        let inode = self.get_mut(node)?;
        if let Some(size) = set.size {
            let bytes = inode.bytes_mut()?;
            if size > limit {
                return Err(errno::EFBIG);
            }
            let shrinks = size <= bytes.size();
            bytes.set_size(size);
            inode.advise.set(Advise::KEEP_SIZE, inode.advise.contains(Advise::KEEP_SIZE) && !shrinks);
            if size == 0
                && let Some(stored) = &mut inode.stored
            {
                stored.released = false;
            }
            inode.times.modify = now;
        }
        inode.mode = set.mode.map_or(inode.mode, |m| m & 0o7777);
        let (mode, access) = (inode.mode, inode.xattrs.get_mut(ACCESS_ACL));
        access.filter(|_| set.mode.is_some()).into_iter().for_each(|access| *access = acl(mode));
        if set.kill_suidgid && !inode.is_dir() {
            inode.mode &= !S_ISUID;
            if inode.mode & S_IXGRP != 0 {
                inode.mode &= !S_ISGID;
            }
        }
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.times.access = set.atime.unwrap_or(inode.times.access);
        inode.times.modify = set.mtime.unwrap_or(inode.times.modify);
        inode.times.change = set.ctime.unwrap_or(now);
        Ok(())
    }

    pub(super) fn allocate(&mut self, node: Node, mode: FallocMode, offset: u64, len: u64) -> Res<()> {
        if len == 0 {
            return Err(errno::EINVAL);
        }
        let end = offset.checked_add(len).ok_or(errno::EFBIG)?;
        let limit = self.limits.file_size;
        let shifts = matches!(mode, FallocMode::CollapseRange | FallocMode::InsertRange);
        if shifts && (!offset.is_multiple_of(BLOCK) || !len.is_multiple_of(BLOCK)) {
            return Err(errno::EINVAL);
        }
        let (compressed, cached) = (self.limits.compressed.is_some(), self.limits.cached);
        let released = self.check_not_released(node);
        let inode = self.get_mut(node)?;
        let bytes = inode.bytes_mut()?;
        let size = bytes.size();
        // A hole may reach past the largest file, but not start there.
        let reach = if mode == FallocMode::PunchHole { offset } else { end };
        if reach > limit {
            return Err(errno::EFBIG);
        }
        if shifts && compressed {
            return Err(errno::EOPNOTSUPP);
        }
        released?;
        match mode {
            FallocMode::Allocate => bytes.set_size(size.max(end)),
            FallocMode::AllocateKeepSize => {}
            FallocMode::ZeroRange => {
                bytes.zero(offset..end);
                bytes.set_size(size.max(end));
            }
            FallocMode::ZeroRangeKeepSize => bytes.zero(offset..end),
            FallocMode::PunchHole if offset >= size => return Ok(()),
            FallocMode::PunchHole => bytes.zero(offset..end),
            FallocMode::CollapseRange if end >= size => return Err(errno::EINVAL),
            FallocMode::CollapseRange => bytes.collapse(offset..end),
            FallocMode::InsertRange if offset >= size => return Err(errno::EINVAL),
            FallocMode::InsertRange if size.saturating_add(len) > limit => return Err(errno::EFBIG),
            FallocMode::InsertRange => bytes.insert(offset..end),
        }
        let keeps = matches!(mode, FallocMode::AllocateKeepSize | FallocMode::ZeroRangeKeepSize);
        if keeps && end > size && !cached {
            inode.advise |= Advise::KEEP_SIZE;
        }
        self.modified(node)
    }

    /// Reserved blocks that are zero may count as data or not, so this is the tightest answer, not the only
    /// one.
    pub(super) fn seek_to(&mut self, node: Node, what: Seek, offset: u64) -> Res<u64> {
        let bytes = self.get(node)?.bytes().map_err(|_| errno::EINVAL)?;
        if offset >= bytes.size() {
            return Err(errno::ENXIO);
        }
        let first = offset / BLOCK;
        let found = match what {
            Seek::Data => bytes.indices().find(|&i| i >= first).ok_or(errno::ENXIO)?,
            Seek::Hole => (first..).find(|&i| bytes.block(i).iter().all(|&b| b == 0)).unwrap_or(first),
        };
        Ok((found * BLOCK).max(offset).min(bytes.size()))
    }

    pub(super) fn copy(&mut self, from: (Node, u64), to: (Node, u64), len: u64) -> Res<u64> {
        let source = self.get(from.0)?.bytes()?;
        let len = len.min(source.size().saturating_sub(from.1));
        let overlap = from.1 < to.1.saturating_add(len) && to.1 < from.1.saturating_add(len);
        if from.0 == to.0 && overlap {
            return Err(errno::EINVAL);
        }
        let data = source.read(from.1, len as usize);
        if data.is_empty() {
            return Ok(0);
        }
        self.write_data(to.0, to.1, &data).map(|n| n as u64)
    }
}
