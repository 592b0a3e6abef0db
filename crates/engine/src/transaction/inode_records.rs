//! The accumulated changes of an inode in one epoch. An epoch is accepted completely or not at all, so only its end
//! state matters: newest values, net changes of names, sums of links. Only block changes keep their order.
use foldhash::HashMap;
use segno_format::{BlockAddr, Ino};
use segno_journal::Record;
use segno_journal::record::{Attr, Compression, InodeNew, Mapping, Name, Run, Time};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::Range;

/// Runs of a record of packed clusters after which the next cluster begins another record.
const PACKED: usize = 1024;
const BLOCK: u64 = segno_format::BLOCK_SIZE as u64;

/// A page with a new address.
#[derive(Clone, Copy, Debug)]
pub struct MappedPage {
    pub page: u64,
    pub addr: BlockAddr,
    /// Checksum of the content, for replay to verify that it was written.
    pub crc: Option<u32>,
}

/// Records of an inode. Methods that add to it return the approximate size in the journal. Kept small, as tables hold
/// many: an inode that only lost a name, or was freed, keeps only this struct. Most are freed soon, by another thread, so
/// that memory for [`Changes`] would be contended.
#[derive(Debug, Default)]
pub struct InodeRecords {
    lost: Lost,
    changes: Option<Box<Changes>>,
    gone: Option<Deletion>,
}

/// The changes by which an inode loses names and blocks, before any others.
#[derive(Debug, Default)]
struct Lost {
    links: i32,
    ctime: Option<Time>,
    /// All pages were removed.
    all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deletion {
    /// Existed before the epoch.
    Freed,
    /// Created and freed within the epoch.
    Transient,
}

#[derive(Debug, Default)]
struct Changes {
    new: Option<InodeNew>,
    links: i32,
    attr: Attr,
    names: HashMap<ShortName, NameChange>,
    parent: Option<Ino>,
    inline: Inline,
    data: Vec<Record>,
    xattrs: BTreeMap<(u8, Name), Option<Box<[u8]>>>,
}

/// A name, in place unless it is long: memory for it would be freed by the commit, and contended like that for [`Changes`].
type ShortName = SmallVec<[u8; 22]>;

/// Target of a name at the beginning and at the end of the epoch.
#[derive(Debug)]
struct NameChange {
    hash: Option<u32>,
    before: Option<Ino>,
    after: Option<Target>,
}

/// Target of a name.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub ino: Ino,
    pub file_type: u8,
}

/// Changes of inline data: first truncated, then written.
#[derive(Debug, Default)]
struct Inline {
    cut: Option<u64>,
    parts: Vec<(u16, Vec<u8>)>,
}

impl InodeRecords {
    fn changes(&mut self) -> &mut Changes {
        let lost = &mut self.lost;
        self.changes.get_or_insert_with(|| Box::new(std::mem::take(lost).into()))
    }

    pub fn made(&mut self, new: InodeNew) -> usize {
        self.changes().new = Some(new);
        60
    }

    /// Discards all changes of the inode except whether the epoch created it.
    pub fn freed(&mut self) -> usize {
        let transient =
            self.changes.take().is_some_and(|c| c.new.is_some()) || self.gone == Some(Deletion::Transient);
        self.lost = Lost::default();
        self.gone = Some(if transient { Deletion::Transient } else { Deletion::Freed });
        16
    }

    pub fn changed(&mut self, attr: &Attr, links: i32) -> usize {
        if self.changes.is_none() && *attr == (Attr { ctime: attr.ctime, ..Attr::default() }) {
            self.lost.links = self.lost.links.saturating_add(links);
            self.lost.ctime = attr.ctime.or(self.lost.ctime);
            return 16;
        }
        let changes = self.changes();
        changes.attr.merge(attr);
        changes.links = changes.links.saturating_add(links);
        16
    }

    pub fn name(
        &mut self,
        name: &[u8],
        hash: Option<u32>,
        before: Option<Ino>,
        after: Option<Target>,
    ) -> usize {
        let names = &mut self.changes().names;
        match names.get_mut(name) {
            None => _ = names.insert(name.into(), NameChange { hash, before, after }),
            Some(change) if change.before.is_none() && after.is_none() => _ = names.remove(name),
            Some(change) => change.after = after,
        }
        24 + name.len()
    }

    pub fn parent(&mut self, parent: Ino) -> usize {
        self.changes().parent = Some(parent);
        8
    }

    pub fn xattr(&mut self, index: u8, name: &[u8], value: Option<&[u8]>) -> usize {
        self.changes().xattrs.insert((index, name.into()), value.map(Into::into));
        16 + name.len() + value.map_or(0, <[u8]>::len)
    }

    pub fn inline_written(&mut self, offset: usize, bytes: &[u8]) -> usize {
        self.changes().inline.write(offset as u16, bytes);
        12 + bytes.len()
    }

    pub fn inline_cut(&mut self, size: u64) -> usize {
        self.changes().inline.cut(size);
        12
    }

    /// Records that the data is in blocks from now on.
    pub fn inline_off(&mut self) -> usize {
        let changes = self.changes();
        changes.inline = Inline::default();
        changes.data.push(Record::InlineOff);
        4
    }

    /// Records pages mapped in ascending order; `moved` if their content is unchanged.
    pub fn mapped(&mut self, pages: impl Iterator<Item = MappedPage>, moved: bool) -> usize {
        let new = |mapping| Record::Map(Mapping { moved, ..mapping });
        self.add_runs(pages, new, |last| match last {
            Record::Map(mapping) if mapping.moved == moved => Some(mapping),
            _ => None,
        })
    }

    /// Records the blocks of a packed cluster in ascending order, each under the page in whose slot it is. A record has whole
    /// clusters: it stays below the size at which it would be divided.
    pub fn packed(&mut self, blocks: impl Iterator<Item = MappedPage>) -> usize {
        let data = &mut self.changes().data;
        if let Some(Record::Packed(mapping)) = data.last()
            && mapping.runs.len().max(mapping.crcs.len()) > PACKED
        {
            data.push(Record::Packed(Mapping::default()));
        }
        self.add_runs(blocks, Record::Packed, |last| match last {
            Record::Packed(mapping) => Some(mapping),
            _ => None,
        })
    }

    /// Adds runs to the mapping of the last record where they fit, or to new records.
    fn add_runs(
        &mut self,
        pages: impl Iterator<Item = MappedPage>,
        new: impl Fn(Mapping) -> Record,
        open: impl Fn(&mut Record) -> Option<&mut Mapping>,
    ) -> usize {
        let (mut bytes, data) = (0, &mut self.changes().data);
        for MappedPage { page, addr, crc } in pages {
            let run = Run { page, addr, count: 1 };
            match data.last_mut().and_then(&open).filter(|mapping| follows(mapping, &run)) {
                Some(mapping) => {
                    mapping.push(run);
                    mapping.crcs.extend(crc);
                }
                None => {
                    let crcs = crc.into_iter().collect();
                    data.push(new(Mapping { runs: vec![run], crcs, moved: false }));
                }
            }
            bytes += 16;
        }
        bytes
    }

    /// Records that the blocks which compression saves were released, or reserved again.
    pub fn released(&mut self, released: bool) -> usize {
        self.changes().data.push(Record::Released(released));
        4
    }

    /// Records how a file or the files of a directory are compressed, or that they no longer are.
    pub fn compression(&mut self, how: Option<Compression>) -> usize {
        self.changes().data.push(Record::Compression(how));
        8
    }

    pub fn reserved(&mut self, pages: Range<u64>) -> usize {
        let (page, count) = (pages.start, pages.end.saturating_sub(pages.start));
        self.changes().data.push(Record::Reserve { page, count });
        16
    }

    pub fn unmapped(&mut self, pages: Range<u64>) -> usize {
        if pages.is_empty() {
            return 0;
        }
        let (page, count) = (pages.start, pages.end - pages.start);
        self.changes().data.push(Record::Unmap { page, count });
        16
    }

    /// Records that all pages from `from` on were removed.
    pub fn truncated(&mut self, from: u64) -> usize {
        if from == 0 && self.changes.is_none() {
            self.lost.all = true;
            return 16;
        }
        let data = &mut self.changes().data;
        if from == 0 {
            data.retain(|r| matches!(r, Record::InlineOff | Record::Compression(_)));
        }
        data.push(Record::Truncate { size: from.saturating_mul(BLOCK) });
        16
    }

    /// Adds a record of a later epoch. Data keeps its order.
    pub fn fold(&mut self, record: Record<&[u8]>) {
        match record {
            Record::InodeNew(new) => self.changes().new = Some(new),
            Record::InodeFree => _ = self.freed(),
            Record::Nlink(links) => _ = self.changed(&Attr::default(), links),
            Record::Attr(attr) => self.changes().attr.merge(&attr),
            Record::DirTouch(time) => self.changes().attr.merge(&Attr::touch(time)),
            Record::DentryAdd { ino, file_type, hash, name, .. } => {
                self.name(name, hash, None, Some(Target { ino, file_type }));
            }
            Record::DentryDel { ino, hash, name } => _ = self.name(name, hash, Some(ino), None),
            Record::DentrySet { old, new: ino, file_type, hash, name, .. } => {
                self.name(name, hash, Some(old), Some(Target { ino, file_type }));
            }
            Record::DotDot { parent } => self.changes().parent = Some(parent),
            Record::XattrSet { index, name, value } => _ = self.xattr(index, name, Some(value)),
            Record::XattrDel { index, name } => _ = self.xattr(index, name, None),
            Record::InlineData { offset, bytes } => {
                self.changes().data.push(Record::InlineData { offset, bytes: bytes.into() });
            }
            Record::InlineOff => self.changes().data.push(Record::InlineOff),
            Record::Map(mapping) => self.changes().data.push(Record::Map(mapping)),
            Record::Packed(mapping) => self.changes().data.push(Record::Packed(mapping)),
            Record::Released(released) => _ = self.released(released),
            Record::Compression(how) => _ = self.compression(how),
            Record::Reserve { page, count } => self.changes().data.push(Record::Reserve { page, count }),
            Record::Unmap { page, count } => self.changes().data.push(Record::Unmap { page, count }),
            Record::Truncate { size } => self.changes().data.push(Record::Truncate { size }),
            Record::Collapse { page, count } => self.changes().data.push(Record::Collapse { page, count }),
            Record::Insert { page, count } => self.changes().data.push(Record::Insert { page, count }),
        }
    }

    /// The records in replay order; none if the inode was created and freed within the epoch. With `checked`, replay
    /// verifies by the checksums of all mapped pages that their data was written.
    pub fn into_records(self, checked: bool) -> Vec<Record> {
        match (self.gone, self.changes) {
            (Some(Deletion::Freed), _) => vec![Record::InodeFree],
            (Some(Deletion::Transient), _) => Vec::new(),
            (None, None) => Changes::from(self.lost).into_records(checked),
            (None, Some(changes)) => changes.into_records(checked),
        }
    }
}

impl From<Lost> for Changes {
    fn from(lost: Lost) -> Self {
        let data = lost.all.then_some(Record::Truncate { size: 0 });
        Self {
            links: lost.links,
            attr: Attr { ctime: lost.ctime, ..Attr::default() },
            data: data.into_iter().collect(),
            ..Self::default()
        }
    }
}

impl Changes {
    fn into_records(mut self, checked: bool) -> Vec<Record> {
        if !checked {
            self.data.iter_mut().for_each(forget_checksums);
        }
        let mut out: Vec<Record> = self.new.map(Record::InodeNew).into_iter().collect();
        if self.links != 0 {
            out.push(Record::Nlink(self.links));
        }
        put_names(self.names, &mut out);
        out.extend(self.parent.map(|parent| Record::DotDot { parent }));
        out.extend(self.inline.cut.map(|size| Record::Truncate { size }));
        out.extend(
            self.inline.parts.into_iter().map(|(offset, b)| Record::InlineData { offset, bytes: b.into() }),
        );
        out.extend(self.data);
        out.extend(self.xattrs.into_iter().map(|((index, name), value)| match value {
            Some(value) => Record::XattrSet { index, name, value },
            None => Record::XattrDel { index, name },
        }));
        out.extend(attr_record(self.attr));
        out
    }
}

fn forget_checksums(record: &mut Record) {
    if let Record::Map(mapping) | Record::Packed(mapping) = record {
        mapping.crcs = Vec::new();
    }
}

/// Whether a run fits into the same record.
fn follows(mapping: &Mapping, run: &Run) -> bool {
    mapping.runs.last().is_none_or(|last| run.page >= last.page.saturating_add(last.count.into()))
}

/// Removed names first: new ones may need their space.
fn put_names(names: HashMap<ShortName, NameChange>, out: &mut Vec<Record>) {
    let mut names: Vec<(Name, NameChange)> =
        names.into_iter().map(|(name, change)| (name.into_vec().into(), change)).collect();
    names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    let mut later = Vec::new();
    for (name, NameChange { hash, before, after }) in names {
        match (before, after) {
            (Some(ino), None) => out.push(Record::DentryDel { ino, hash, name }),
            (Some(old), Some(new)) if old == new.ino => {}
            (Some(old), Some(Target { ino: new, file_type })) => {
                later.push(Record::DentrySet { old, new, file_type, hash, primary: true, name });
            }
            (None, Some(Target { ino, file_type })) => {
                later.push(Record::DentryAdd { ino, file_type, hash, primary: true, name });
            }
            (None, None) => {}
        }
    }
    out.extend(later);
}

/// Most directories change only both times, to one value.
fn attr_record(attr: Attr) -> Option<Record> {
    if attr.is_empty() {
        return None;
    }
    Some(match attr.mtime {
        Some(time) if attr == Attr::touch(time) => Record::DirTouch(time),
        _ => Record::Attr(attr),
    })
}

impl Inline {
    fn cut(&mut self, size: u64) {
        self.cut = Some(self.cut.map_or(size, |c| c.min(size)));
        for (offset, bytes) in &mut self.parts {
            bytes.truncate(size.saturating_sub((*offset).into()) as usize);
        }
        self.parts.retain(|(_, bytes)| !bytes.is_empty());
    }

    /// Merges the bytes with adjacent or overlapping parts.
    fn write(&mut self, offset: u16, bytes: &[u8]) {
        let (mut start, mut end) = (usize::from(offset), usize::from(offset) + bytes.len());
        let mut joined: Vec<(usize, Vec<u8>)> = Vec::new();
        self.parts.retain_mut(|(o, b)| {
            let (from, to) = (usize::from(*o), usize::from(*o) + b.len());
            let touches = from <= end && start <= to;
            if touches {
                joined.push((from, std::mem::take(b)));
                (start, end) = (start.min(from), end.max(to));
            }
            !touches
        });
        joined.push((offset.into(), bytes.to_vec()));
        let mut all = vec![0; end - start];
        for (from, part) in joined {
            if let Some(into) = all.get_mut(from - start..).and_then(|a| a.get_mut(..part.len())) {
                into.copy_from_slice(&part);
            }
        }
        self.parts.push((start as u16, all));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_links_and_blocks_are_recorded_before_other_changes() {
        let ctime = Time { secs: 5, nsec: 6 };
        let lost = || {
            let mut log = InodeRecords::default();
            log.changed(&Attr { ctime: Some(ctime), ..Attr::default() }, -1);
            log.truncated(0);
            log
        };
        let attr = Record::Attr(Attr { ctime: Some(ctime), ..Attr::default() });
        assert_eq!(lost().into_records(true), [Record::Nlink(-1), Record::Truncate { size: 0 }, attr]);
        let mut more = lost();
        more.reserved(3..4);
        more.changed(&Attr { mode: Some(0o644), ..Attr::default() }, 1);
        let reserve = Record::Reserve { page: 3, count: 1 };
        let attr = Record::Attr(Attr { mode: Some(0o644), ctime: Some(ctime), ..Attr::default() });
        assert_eq!(more.into_records(true), [Record::Truncate { size: 0 }, reserve, attr]);
        let mut freed = lost();
        freed.freed();
        assert_eq!(freed.into_records(true), [Record::InodeFree]);
    }

    #[test]
    fn a_record_has_whole_clusters() {
        let mut log = InodeRecords::default();
        for cluster in 0..20u64 {
            // No address follows another, so each block is a run.
            let block = |i| MappedPage {
                page: cluster * 256 + i,
                addr: BlockAddr(i as u32 * 2),
                crc: Some(i as u32),
            };
            log.packed((1..256).map(block));
        }
        let mut bytes = Vec::new();
        log.into_records(true).iter().for_each(|r| r.encode(&mut bytes));
        let (mut rest, mut blocks) = (bytes.as_slice(), 0);
        while !rest.is_empty() {
            let Ok(Record::<Box<[u8]>>::Packed(mapping)) = Record::decode(&mut rest) else {
                panic!("no clusters")
            };
            let ends = [mapping.runs.first(), mapping.runs.last()].map(|r| r.unwrap().page % 256);
            assert_eq!(ends, [1, 255]);
            blocks += mapping.pages();
        }
        assert_eq!(blocks, 20 * 255);
    }
}
