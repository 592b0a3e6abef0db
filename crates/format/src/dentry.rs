//! Directory entries: dentry blocks and inline directories share one shape with different sizes.
use crate::bits::lsb;
use crate::inode::InodeLayout;
use crate::{BLOCK_SIZE, Corrupt, Ino, NAME_MAX, Structure};
use core::ops::Range;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Slots in a dentry block.
pub const SLOTS_PER_BLOCK: u32 = 214;
/// Name, in the root directory, of the directory for files that lost theirs.
pub const LOST_FOUND: &[u8] = b"lost+found";
/// Name bytes in a slot.
pub const SLOT_LEN: usize = 8;
/// Deepest hash level.
pub const MAX_DEPTH: u32 = 63;
const DENTRY_BYTES: usize = 11;
/// Dentries looked at together in a search for a hash.
const GROUP: usize = 8;
const GROUP_BYTES: usize = GROUP * DENTRY_BYTES;

/// `file_type` of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileType {
    /// Not stored; the inode has to be asked.
    Unknown = 0,
    /// A regular file.
    Regular = 1,
    /// A directory.
    Directory = 2,
    /// A character device.
    CharDevice = 3,
    /// A block device.
    BlockDevice = 4,
    /// A named pipe.
    Fifo = 5,
    /// A socket.
    Socket = 6,
    /// A symbolic link.
    Symlink = 7,
}

impl FileType {
    /// The type of a mode's format bits.
    #[must_use]
    pub fn of_mode(mode: u16) -> Self {
        match mode & 0o170_000 {
            0o100_000 => Self::Regular,
            0o040_000 => Self::Directory,
            0o020_000 => Self::CharDevice,
            0o060_000 => Self::BlockDevice,
            0o010_000 => Self::Fifo,
            0o140_000 => Self::Socket,
            0o120_000 => Self::Symlink,
            _ => Self::Unknown,
        }
    }
    /// The number of readdir(3), `DT_*`: the format bits of a mode.
    #[must_use]
    pub fn dirent_type(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Fifo => 1,
            Self::CharDevice => 2,
            Self::Directory => 4,
            Self::BlockDevice => 6,
            Self::Regular => 8,
            Self::Symlink => 10,
            Self::Socket => 12,
        }
    }
    /// The type of a stored number.
    #[must_use]
    pub fn from_disk(v: u8) -> Option<Self> {
        Some(match v {
            0 => Self::Unknown,
            1 => Self::Regular,
            2 => Self::Directory,
            3 => Self::CharDevice,
            4 => Self::BlockDevice,
            5 => Self::Fifo,
            6 => Self::Socket,
            7 => Self::Symlink,
            _ => return None,
        })
    }

    /// The type in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Regular => "file",
            Self::Directory => "directory",
            Self::CharDevice => "character device",
            Self::BlockDevice => "block device",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::Symlink => "symlink",
        }
    }
}

/// `struct f2fs_dir_entry`, 11 bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDentry {
    /// Hash of the name, which the place in the directory follows from.
    pub hash: U32,
    /// Inode that the name leads to.
    pub ino: U32,
    /// Bytes of the name.
    pub name_len: U16,
    /// See [`FileType`].
    pub file_type: u8,
}
const _: () = assert!(size_of::<RawDentry>() == DENTRY_BYTES);

/// Where bitmap, entries and names are in a dentry block or an inline area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DentryShape {
    /// Slots.
    pub slots: u32,
    dentries: usize,
    names: usize,
    size: usize,
}

/// An entry found by a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// First slot.
    pub slot: u32,
    /// Stored hash of the name.
    pub hash: u32,
    /// Inode that the name leads to.
    pub ino: Ino,
    /// The name, as stored.
    pub name: &'a [u8],
    /// Raw file type; see [`FileType::from_disk`].
    pub file_type: u8,
}

impl Entry<'_> {
    /// Slot after the entry.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.slot + slots_for(self.name.len())
    }
}

/// Slots that a name takes.
#[must_use]
pub fn slots_for(name_len: usize) -> u32 {
    name_len.div_ceil(SLOT_LEN) as u32
}

impl DentryShape {
    /// A full dentry block.
    pub const BLOCK: Self = Self { slots: SLOTS_PER_BLOCK, dentries: 30, names: 2384, size: BLOCK_SIZE };

    /// The inline directory of an inode of that layout.
    #[must_use]
    pub fn inline(layout: &InodeLayout) -> Self {
        let c = layout.inline_capacity();
        let n = c * 8 / 153;
        Self { slots: n as u32, dentries: c - 19 * n, names: c - 8 * n, size: c }
    }

    /// Whether slot `i` is in use.
    #[must_use]
    pub fn in_use(&self, area: &[u8], i: u32) -> bool {
        i < self.slots && lsb::test(area, i as usize)
    }

    /// The next entry at or after slot `pos`, or `None` at the end. `at` names the place for an error.
    pub fn next<'a>(&self, area: &'a [u8], mut pos: u32, at: u64) -> Result<Option<Entry<'a>>, Corrupt> {
        while pos < self.slots {
            if self.in_use(area, pos)
                && let Some(entry) = self.entry(area, pos, at)?
            {
                return Ok(Some(entry));
            }
            pos += 1;
        }
        Ok(None)
    }

    /// The next entry at or after slot `pos` that has this hash, or `None`. Looks at nothing but hashes on its way.
    pub fn next_with_hash<'a>(
        &self,
        area: &'a [u8],
        hash: u32,
        pos: u32,
        at: u64,
    ) -> Result<Option<Entry<'a>>, Corrupt> {
        let hash = hash.to_le_bytes();
        let has = |d: &[u8]| d.first_chunk() == Some(&hash);
        let from = self.dentries + pos as usize * DENTRY_BYTES;
        let end = self.dentries + self.slots as usize * DENTRY_BYTES;
        let (groups, rest) = area.get(from..end).unwrap_or_default().as_chunks::<GROUP_BYTES>();
        let groups = groups.iter().map(<[u8; GROUP_BYTES]>::as_slice).chain([rest]);
        for (first, group) in (pos..).step_by(GROUP).zip(groups) {
            // Nearly always no slot of the group matches, so the group is tested as a whole first.
            if !group.chunks_exact(DENTRY_BYTES).fold(false, |any, d| any | has(d)) {
                continue;
            }
            for (slot, d) in (first..).zip(group.chunks_exact(DENTRY_BYTES)) {
                if has(d)
                    && let Some(entry) = self.found_at(area, slot, at)?
                {
                    return Ok(Some(entry));
                }
            }
        }
        Ok(None)
    }

    /// The entry that starts at a slot, if one does.
    pub fn entry_at<'a>(&self, area: &'a [u8], slot: u32, at: u64) -> Result<Option<Entry<'a>>, Corrupt> {
        if self.in_use(area, slot) { self.entry(area, slot, at) } else { Ok(None) }
    }

    /// Like [`Self::entry_at`], for a slot that was not reached through the entries before it. Bytes in
    /// further slots of a name are not an entry, as in a walk.
    pub fn found_at<'a>(&self, area: &'a [u8], slot: u32, at: u64) -> Result<Option<Entry<'a>>, Corrupt> {
        if self.is_within_name(area, slot, at) { Ok(None) } else { self.entry_at(area, slot, at) }
    }

    fn is_within_name(&self, area: &[u8], slot: u32, at: u64) -> bool {
        let covers = |before: u32| {
            let len = self.raw(area, before, at).map_or(0, |d| d.name_len.get());
            self.in_use(area, before) && before + slots_for(len.into()) > slot
        };
        // Further slots of a name are written with length zero, so there is nearly never anything to walk.
        if !(slot.saturating_sub(slots_for(NAME_MAX) - 1)..slot).any(covers) {
            return false;
        }
        let mut pos = 0;
        while let Ok(Some(entry)) = self.next(area, pos, at) {
            pos = entry.next();
            if entry.slot >= slot || pos > slot {
                return entry.slot != slot;
            }
        }
        false
    }

    /// The hashes in all slots, whether in use or not.
    pub fn hashes<'a>(&self, area: &'a [u8]) -> impl Iterator<Item = [u8; 4]> + use<'a> {
        let end = self.dentries + self.slots as usize * DENTRY_BYTES;
        let (dentries, _) = area.get(self.dentries..end).unwrap_or_default().as_chunks::<DENTRY_BYTES>();
        dentries.iter().map(|&[a, b, c, d, ..]| [a, b, c, d])
    }

    /// The entry that starts at a used slot; `None` in the further slots of an entry.
    fn entry<'a>(&self, area: &'a [u8], slot: u32, at: u64) -> Result<Option<Entry<'a>>, Corrupt> {
        let d = self.raw(area, slot, at)?;
        let len = usize::from(d.name_len.get());
        if len == 0 {
            return Ok(None);
        }
        let bad = |why, expected| Err(Corrupt::block(Structure::DentryBlock, at, why, len as u64, expected));
        if len > NAME_MAX {
            return bad("name length", NAME_MAX as u64);
        }
        if slot + slots_for(len) > self.slots {
            return bad("name runs past the last slot", u64::from(self.slots - slot) * 8);
        }
        let start = self.names + slot as usize * SLOT_LEN;
        let Some(name) = area.get(start..start + len) else {
            return bad("name runs past the area", self.size as u64);
        };
        Ok(Some(Entry { slot, hash: d.hash.get(), ino: Ino(d.ino.get()), name, file_type: d.file_type }))
    }

    fn raw(&self, area: &[u8], slot: u32, at: u64) -> Result<RawDentry, Corrupt> {
        let start = self.dentries + slot as usize * DENTRY_BYTES;
        area.get(start..).and_then(|s| RawDentry::read_from_prefix(s).ok()).map(|(d, _)| d).ok_or_else(|| {
            Corrupt::block(Structure::DentryBlock, at, "area too short", area.len() as u64, self.size as u64)
        })
    }

    /// First of `n` consecutive free slots.
    #[must_use]
    pub fn find_room(&self, area: &[u8], n: u32) -> Option<u32> {
        self.used(area).free(self.slots).first_run(n)
    }

    /// Number of free slots.
    #[must_use]
    pub fn free_slots(&self, area: &[u8]) -> u32 {
        self.used(area).free(self.slots).count()
    }

    fn used(&self, area: &[u8]) -> SlotSet {
        SlotSet::of_map(area.get(..(self.slots as usize).div_ceil(8)).unwrap_or_default())
    }

    /// Writes an entry into slots that [`DentryShape::find_room`] gave.
    pub fn insert(&self, area: &mut [u8], slot: u32, hash: u32, ino: Ino, name: &[u8], t: FileType) {
        let n = slots_for(name.len());
        for i in slot..slot + n {
            let len = if i == slot { name.len() as u16 } else { 0 };
            let d = RawDentry {
                hash: U32::new(if i == slot { hash } else { 0 }),
                ino: U32::new(if i == slot { ino.0 } else { 0 }),
                name_len: U16::new(len),
                file_type: if i == slot { t as u8 } else { 0 },
            };
            let at = self.dentries + i as usize * DENTRY_BYTES;
            if let Some(dst) = area.get_mut(at..at + DENTRY_BYTES) {
                dst.copy_from_slice(d.as_bytes());
            }
            lsb::put(area, i as usize, true);
        }
        let start = self.names + slot as usize * SLOT_LEN;
        if let Some(dst) = area.get_mut(start..start + n as usize * SLOT_LEN) {
            let (text, pad) = dst.split_at_mut(name.len());
            text.copy_from_slice(name);
            pad.fill(0);
        }
    }

    /// Writes `.` and `..`, which are in the first two slots.
    pub fn insert_dots(&self, area: &mut [u8], ino: Ino, parent: Ino) {
        self.insert(area, 0, 0, ino, b".", FileType::Directory);
        self.insert(area, 1, 0, parent, b"..", FileType::Directory);
    }

    /// Points an existing entry at another inode.
    pub fn set_target(&self, area: &mut [u8], slot: u32, ino: Ino, t: FileType) {
        let at = self.dentries + slot as usize * DENTRY_BYTES;
        if let Some(d) = area.get_mut(at..at + DENTRY_BYTES).and_then(|s| RawDentry::mut_from_bytes(s).ok()) {
            d.ino = U32::new(ino.0);
            d.file_type = t as u8;
        }
    }

    /// Byte of the area at which the entry of a slot is.
    #[must_use]
    pub fn dentry_offset(&self, slot: u32) -> usize {
        self.dentries + slot as usize * DENTRY_BYTES
    }

    /// Byte of the area at which the name of a slot is.
    #[must_use]
    pub fn name_offset(&self, slot: u32) -> usize {
        self.names + slot as usize * SLOT_LEN
    }

    /// Marks all slots free.
    pub fn clear(&self, area: &mut [u8]) {
        let map = (self.slots as usize).div_ceil(8);
        if let Some(map) = area.get_mut(..map) {
            map.fill(0);
        }
    }

    /// Clears the slots of an entry.
    pub fn remove(&self, area: &mut [u8], slot: u32, name_len: usize) {
        for i in slot..slot + slots_for(name_len) {
            lsb::put(area, i as usize, false);
        }
    }

    /// Whether no slot outside a range is in use.
    #[must_use]
    pub fn is_empty_but(&self, area: &[u8], range: Range<u32>) -> bool {
        let kept = SlotSet::first(range.end).and(&SlotSet::first(range.start).not());
        self.used(area).and(&SlotSet::first(self.slots)).and(&kept.not()).count() == 0
    }
}

/// Slots of an area; there are never more than fit.
struct SlotSet([u64; 4]);

impl SlotSet {
    fn of_map(map: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(map).for_each(|(to, from)| *to = *from);
        let (words, _) = bytes.as_chunks::<8>();
        let mut out = [0; 4];
        out.iter_mut().zip(words).for_each(|(to, from)| *to = u64::from_le_bytes(*from));
        Self(out)
    }

    /// The first `n`.
    fn first(n: u32) -> Self {
        Self([0, 64, 128, 192].map(|start| match n.saturating_sub(start) {
            n @ 0..64 => (1 << n) - 1,
            _ => u64::MAX,
        }))
    }

    fn not(&self) -> Self {
        Self(self.0.map(|w| !w))
    }

    fn and(&self, other: &Self) -> Self {
        let mut out = self.0;
        out.iter_mut().zip(other.0).for_each(|(w, o)| *w &= o);
        Self(out)
    }

    /// Those of `slots` that are not in it.
    fn free(&self, slots: u32) -> Self {
        self.not().and(&Self::first(slots))
    }

    fn count(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }

    /// Moves all down by 1 to 63.
    fn down(&self, by: u32) -> Self {
        let [a, b, c, d] = self.0;
        let join = |low: u64, high: u64| low >> by | high << (64 - by);
        Self([join(a, b), join(b, c), join(c, d), d >> by])
    }

    /// The first slot that begins a run of `n`.
    fn first_run(self, n: u32) -> Option<u32> {
        // A run of `length + step` begins where one of `length` begins both here and `step` slots later.
        let (mut starts, mut length) = (self, 1);
        while length < n {
            let step = length.min(n - length).min(63);
            starts = starts.and(&starts.down(step));
            length += step;
        }
        let at = starts.0.iter().position(|&w| w != 0)?;
        Some(at as u32 * 64 + starts.0.get(at)?.trailing_zeros())
    }
}

/// Buckets of a level.
#[must_use]
pub fn buckets(level: u32, dir_level: u8) -> u64 {
    1 << (level + u32::from(dir_level)).min(30)
}

/// Blocks in a bucket of a level.
#[must_use]
pub fn bucket_blocks(level: u32) -> u64 {
    if level < 31 { 2 } else { 4 }
}

/// First file block of the bucket that a hash falls into at a level.
#[must_use]
pub fn bucket_start(level: u32, dir_level: u8, hash: u32) -> u64 {
    let before: u64 = (0..level).map(|l| buckets(l, dir_level) * bucket_blocks(l)).sum();
    before + u64::from(hash) % buckets(level, dir_level) * bucket_blocks(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_vectors() {
        let starts =
            |hash, dir_level, n| (0..n).map(|l| bucket_start(l, dir_level, hash)).collect::<Vec<_>>();
        assert_eq!(starts(0x4BC4_BECC, 0, 6), [0, 2, 22 - 16, 22, 54, 86]);
        assert_eq!(starts(0x4BC4_BECC, 2, 5), [0, 16, 48, 80, 144]);
        assert_eq!(starts(0x5107_C3F3, 0, 6), [0, 4, 12, 20, 36, 100]);
        assert_eq!(starts(0x5107_C3F3, 2, 4), [6, 14, 30, 94]);
        assert_eq!(starts(0, 0, 8), [0, 2, 6, 14, 30, 62, 126, 254]);
        assert_eq!(bucket_start(30, 0, 0), 2_147_483_646);
    }

    #[test]
    fn shape_vectors() {
        let cases = [
            (0, 0, 192, 40, 2152),
            (0, 50, 182, 30, 2032),
            (9, 50, 180, 32, 2012),
            (9, 0, 190, 42, 2132),
            (6, 50, 181, 25, 2016),
        ];
        for (extra_words, xattr_words, slots, dentries, names) in cases {
            let layout = InodeLayout {
                extra_words,
                xattr_words,
                slots: 923 - extra_words - xattr_words,
                per_node: 1018,
            };
            let s = DentryShape::inline(&layout);
            assert_eq!(
                (s.slots, s.dentries, s.names),
                (slots, dentries, names),
                "E {extra_words} X {xattr_words}"
            );
        }
    }

    #[test]
    fn insert_find_remove() {
        let mut area = vec![0; BLOCK_SIZE];
        let s = DentryShape::BLOCK;
        let slot = s.find_room(&area, 2).unwrap();
        s.insert(&mut area, slot, 7, Ino(9), b"README.md", FileType::Regular);
        let e = s.next(&area, 0, 0).unwrap().unwrap();
        assert_eq!((e.slot, e.hash, e.ino, e.name), (0, 7, Ino(9), &b"README.md"[..]));
        assert_eq!(s.next_with_hash(&area, 7, 0, 0).unwrap(), Some(e));
        assert_eq!(s.next_with_hash(&area, 7, 1, 0).unwrap(), None);
        assert_eq!(s.next_with_hash(&area, 8, 0, 0).unwrap(), None);
        assert_eq!(s.find_room(&area, 213), None);
        s.remove(&mut area, 0, 9);
        assert!(s.next(&area, 0, 0).unwrap().is_none());
        assert!(s.is_empty_but(&area, 0..0));
    }

    /// Neither Linux nor a walk looks at them; old kernels left anything there.
    #[test]
    fn what_lies_in_the_slots_of_another_name_is_not_found() {
        let s = DentryShape::BLOCK;
        let mut area = vec![0; BLOCK_SIZE];
        s.insert(&mut area, 3, 7, Ino(9), &[b'n'; 99], FileType::Regular);
        s.insert(&mut area, 16, 9, Ino(5), b"next", FileType::Regular);
        let with = |name_len: u16| {
            let mut area = area.clone();
            let inner =
                RawDentry { hash: U32::new(8), ino: U32::new(3), name_len: name_len.into(), file_type: 1 };
            let start = s.dentries + 8 * DENTRY_BYTES;
            area[start..start + DENTRY_BYTES].copy_from_slice(inner.as_bytes());
            area
        };
        for name_len in [5, 0x7fff] {
            let area = with(name_len);
            assert_eq!(s.found_at(&area, 8, 0).unwrap(), None);
            assert_eq!(s.next_with_hash(&area, 8, 0, 0).unwrap(), None);
            for (hash, slot) in [(7, 3), (9, 16)] {
                let entry = s.next_with_hash(&area, hash, 0, 0).unwrap();
                assert_eq!(entry.map(|e| e.slot), Some(slot), "{name_len}");
                assert_eq!(s.found_at(&area, slot, 0).unwrap(), entry);
            }
        }
    }

    #[test]
    fn sets_of_slots_are_as_looking_at_each() {
        let (s, mut x) = (DentryShape::BLOCK, 12345_u64);
        for round in 0..400_u32 {
            let mut area = vec![0; BLOCK_SIZE];
            for slot in 0..256 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                lsb::put(&mut area, slot, (x >> 33) % 400 < round.into());
            }
            let used = |i: u32| s.in_use(&area, i);
            let run = |i: u32, n: u32| i + n <= s.slots && (i..i + n).all(|i| !used(i));
            for n in 1..=32 {
                assert_eq!(s.find_room(&area, n), (0..s.slots).find(|&i| run(i, n)), "{n} slots");
            }
            assert_eq!(s.free_slots(&area), (0..s.slots).filter(|&i| !used(i)).count() as u32);
            let first = (x >> 40) as u32 % s.slots;
            for but in [first..first + 3, 0..first, first..s.slots] {
                let empty = (0..s.slots).all(|i| but.contains(&i) || !used(i));
                assert_eq!(s.is_empty_but(&area, but), empty);
            }
        }
    }
}
