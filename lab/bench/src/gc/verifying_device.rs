//! A device between the engine and the zones that knows which version of each page was written last, and where.
//!
//! Every block written and read in the main area is judged by its tag. The first fault found fails the call, and is kept.
use super::tag::{Content, Tag};
use parking_lot::Mutex;
use segno_device::{BlockDevice, Buffer, Reading, Zone, ZoneLimits};
use segno_format::{BLOCKS_PER_SEG, Block};
use segno_gcmodel::Experiment;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// No page, no block, no file.
const NONE: u32 = u32::MAX;

/// Blocks written to the main area, by what they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    /// Pages in a new version.
    pub user: u64,
    /// Pages in the version that was there already.
    pub moved: u64,
    /// Nodes and directory blocks.
    pub other: u64,
}

impl Written {
    pub fn total(self) -> u64 {
        self.user + self.moved + self.other
    }
}

/// The device.
pub struct VerifyingDevice {
    inner: Arc<dyn BlockDevice>,
    /// First block of the main area.
    main: u64,
    per_zone: u64,
    /// File blocks from one page to the next.
    stride: u32,
    state: Mutex<State>,
}

struct State {
    /// First page of each file, by inode number.
    files: Vec<u32>,
    pages: Vec<Page>,
    /// The page that each block of the main area holds.
    holds: Vec<u32>,
    /// Pages whose newest copy is in the segment.
    live: Vec<u16>,
    written: Written,
    fault: Option<String>,
}

#[derive(Clone, Copy)]
struct Page {
    version: u32,
    /// Block of the main area with the newest copy.
    at: u32,
}

impl VerifyingDevice {
    pub fn new(inner: Arc<dyn BlockDevice>, main: u64, e: &Experiment) -> Self {
        let (stride, per_zone) = (e.stride() as u32, e.blocks_per_zone.into());
        let blocks = inner.block_count().saturating_sub(main) as usize;
        let state = State {
            files: Vec::new(),
            pages: vec![Page { version: 0, at: NONE }; e.extent().0 as usize],
            holds: vec![NONE; blocks],
            live: vec![0; blocks / BLOCKS_PER_SEG as usize],
            written: Written::default(),
            fault: None,
        };
        Self { inner, main, per_zone, stride, state: Mutex::new(state) }
    }

    /// A file was created whose first page has this number.
    pub fn created(&self, ino: u32, first: u32) {
        let files = &mut self.state.lock().files;
        if files.len() <= ino as usize {
            files.resize(ino as usize + 1, NONE);
        }
        if let Some(file) = files.get_mut(ino as usize) {
            *file = first;
        }
    }

    /// A file with these pages was deleted.
    pub fn deleted(&self, ino: u32, pages: Range<u32>) {
        let state = &mut *self.state.lock();
        if let Some(file) = state.files.get_mut(ino as usize) {
            *file = NONE;
        }
        pages.for_each(|page| state.place(page, NONE));
    }

    pub fn written(&self) -> Written {
        self.state.lock().written
    }

    /// The first fault found.
    pub fn fault(&self) -> Option<String> {
        self.state.lock().fault.clone()
    }

    /// The newest copies in a segment: offset and page.
    pub fn newest_in(&self, segment: u32) -> Vec<(u32, u32)> {
        let state = self.state.lock();
        let first = segment * BLOCKS_PER_SEG;
        let is_newest = |&(off, page): &(u32, u32)| state.page(page).is_some_and(|p| p.at == first + off);
        let holds = (0..BLOCKS_PER_SEG).map(|off| (off, state.held(first + off)));
        holds.filter(is_newest).collect()
    }

    fn judge<'a>(
        &self,
        addr: u64,
        blocks: impl Iterator<Item = &'a Block>,
        one: impl Fn(&mut State, u32, Content, u32) -> Result<(), String>,
    ) -> io::Result<()> {
        let mut state = self.state.lock();
        for (at, block) in (addr..).zip(blocks) {
            let Some(at) = at.checked_sub(self.main) else { continue };
            one(&mut state, at as u32, Content::of(block), self.stride)
                .map_err(|why| state.refuse(at, &why))?;
        }
        Ok(())
    }
}

impl State {
    /// Keeps the first fault, and makes an error of it.
    fn refuse(&mut self, at: u64, why: &str) -> io::Error {
        let why = format!("block {at} of the main area: {why}");
        self.fault.get_or_insert_with(|| why.clone());
        io::Error::other(why)
    }

    fn page(&self, page: u32) -> Option<Page> {
        self.pages.get(page as usize).copied()
    }

    fn held(&self, at: u32) -> u32 {
        self.holds.get(at as usize).copied().unwrap_or(NONE)
    }

    /// The number of a tag's page.
    fn number(&self, tag: Tag, stride: u32) -> Option<u32> {
        let first = self.files.get(tag.ino as usize).copied().filter(|&first| first != NONE)?;
        let page = first.checked_add(tag.page / stride)?;
        (tag.page.is_multiple_of(stride) && (page as usize) < self.pages.len()).then_some(page)
    }

    /// Records where the newest copy of a page is.
    fn place(&mut self, page: u32, at: u32) {
        let Some(p) = self.pages.get_mut(page as usize) else { return };
        let old = std::mem::replace(&mut p.at, at);
        for (at, change) in [(old, -1), (at, 1)] {
            if let Some(n) = self.live.get_mut((at / BLOCKS_PER_SEG) as usize) {
                *n = n.saturating_add_signed(change);
            }
        }
    }

    fn wrote(&mut self, at: u32, content: Content, stride: u32) -> Result<(), String> {
        let page = match content {
            Content::Damaged(tag) => return Err(format!("a damaged block with {tag:?} is written")),
            Content::Tag(tag) => {
                let page =
                    self.number(tag, stride).ok_or_else(|| format!("{tag:?} of no file is written"))?;
                let Some(p) = self.pages.get_mut(page as usize) else { return Ok(()) };
                match tag.version.cmp(&p.version) {
                    std::cmp::Ordering::Less => {
                        return Err(format!("{tag:?} is written after version {}", p.version));
                    }
                    std::cmp::Ordering::Equal => self.written.moved += 1,
                    std::cmp::Ordering::Greater => self.written.user += 1,
                }
                p.version = tag.version;
                self.place(page, at);
                page
            }
            Content::Other => {
                self.written.other += 1;
                NONE
            }
        };
        if let Some(holds) = self.holds.get_mut(at as usize) {
            *holds = page;
        }
        Ok(())
    }

    /// Only the newest copy of a page is read.
    fn read(&mut self, at: u32, content: Content, stride: u32) -> Result<(), String> {
        let page = self.held(at);
        let Some(p) = self.page(page) else {
            return match content {
                Content::Other => Ok(()),
                found => Err(format!("{found:?} is read where none was written")),
            };
        };
        let Content::Tag(tag) = content else {
            return Err(format!("{content:?} is read instead of version {} of page {page}", p.version));
        };
        match self.number(tag, stride) {
            Some(found) if found == page && tag.version == p.version && p.at == at => Ok(()),
            _ => Err(format!("{tag:?} is read; page {page} has version {} in block {}", p.version, p.at)),
        }
    }

    fn reset(&mut self, blocks: Range<usize>) -> Result<(), String> {
        let per = BLOCKS_PER_SEG as usize;
        let live = self.live.get(blocks.start / per..blocks.end / per).unwrap_or_default();
        if live.iter().any(|&n| n > 0) {
            return Err("a zone with the newest copies of pages is reset".into());
        }
        self.holds.get_mut(blocks).unwrap_or_default().fill(NONE);
        Ok(())
    }
}

impl BlockDevice for VerifyingDevice {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.inner.read(addr, into)?;
        self.judge(addr, into.iter(), State::read)
    }

    /// Not judged: read-ahead takes neighbours along that no one looks at.
    fn start_read(&self, addr: u64, into: Buffer) -> Reading {
        self.inner.start_read(addr, into)
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.judge(addr, blocks.iter().copied(), State::wrote)?;
        self.inner.write(addr, blocks)
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.judge(addr, blocks.iter().copied(), State::wrote)?;
        self.inner.write_fua(addr, blocks)
    }

    fn flush(&self) -> io::Result<()> {
        self.inner.flush()
    }

    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.inner.discard(addr, count)
    }

    fn read_only(&self) -> bool {
        false
    }

    fn zones(&self) -> io::Result<Vec<Zone>> {
        self.inner.zones()
    }

    fn zone_limits(&self) -> ZoneLimits {
        self.inner.zone_limits()
    }

    fn reset_zone(&self, start: u64) -> io::Result<()> {
        if let Some(first) = start.checked_sub(self.main) {
            let mut state = self.state.lock();
            let reset = state.reset(first as usize..(first + self.per_zone) as usize);
            reset.map_err(|why| state.refuse(first, &why))?;
        }
        self.inner.reset_zone(start)
    }

    fn finish_zone(&self, start: u64) -> io::Result<()> {
        self.inner.finish_zone(start)
    }
}
