//! The contents of the pages of the files, and the contents that must be there after a cut.
use segno_format::{BLOCK_SIZE, Block, crc};
use zerocopy::IntoBytes;

const BYTES: usize = 16;

/// A page of all files together.
pub type Page = u32;

/// Contents of a block: which page it is, and its version.
pub fn fill(page: Page, version: u32, block: &mut [u8; BLOCK_SIZE]) {
    block.as_chunks_mut::<BYTES>().0.fill(bytes_of(page, version));
}

/// Page and version of a whole block.
fn read(block: &[u8]) -> Option<(Page, u32)> {
    let first = block.first_chunk::<BYTES>()?;
    let ([page, version, ..], _) = first.as_chunks::<4>() else { return None };
    let (page, version) = (u32::from_le_bytes(*page), u32::from_le_bytes(*version));
    let whole = block.len() == BLOCK_SIZE && block.as_chunks::<BYTES>().0.iter().all(|b| b == first);
    (whole && *first == bytes_of(page, version)).then_some((page, version))
}

/// The page that a block holds, if it holds one.
pub fn owner(block: &Block) -> Option<Page> {
    read(block.as_bytes()).map(|(page, _)| page)
}

fn bytes_of(page: Page, version: u32) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    let (head, check) = out.split_at_mut(8);
    head.as_chunks_mut::<4>().0.copy_from_slice(&[page.to_le_bytes(), version.to_le_bytes()]);
    let sum = crc(u32::MAX, head);
    check.as_chunks_mut::<4>().0.copy_from_slice(&[sum.to_le_bytes(), (!sum).to_le_bytes()]);
    out
}

/// State of a page; 0: no version.
#[derive(Clone, Copy, Default)]
struct State {
    /// The greatest version ever given.
    last: u32,
    /// The version that a read returns.
    holds: u32,
    /// The version that a completed sync covers.
    synced: u32,
}

/// All pages.
pub struct Versions {
    pages: Vec<State>,
}

impl Versions {
    pub fn new(pages: usize) -> Self {
        Self { pages: vec![State::default(); pages] }
    }

    /// The page is about to be written.
    pub fn next(&mut self, page: Page) -> u32 {
        self.pages.get_mut(page as usize).map_or(0, |state| {
            state.last += 1;
            state.holds = state.last;
            state.last
        })
    }

    /// The page is not there any more, or need not be.
    pub fn dropped(&mut self, page: Page) {
        if let Some(state) = self.pages.get_mut(page as usize) {
            (state.holds, state.synced) = (0, 0);
        }
    }

    /// The version that a read returns.
    pub fn holds(&self, page: Page) -> u32 {
        self.pages.get(page as usize).map_or(0, |state| state.holds)
    }

    /// A sync of everything returned.
    pub fn synced(&mut self) {
        self.pages.iter_mut().for_each(|state| state.synced = state.holds);
    }

    /// Judges a page as read. After a cut it may be as old as the last sync, and continues from there.
    pub fn judge(&mut self, page: Page, block: &[u8], after_cut: bool) -> Result<(), String> {
        let state = self.pages.get_mut(page as usize).ok_or("no such page")?;
        let found = version_in(page, block)?;
        let least = if after_cut { state.synced } else { state.holds };
        if !(least..=state.holds).contains(&found) {
            return Err(format!("page {page} has version {found}, not one from {least} to {}", state.holds));
        }
        (state.holds, state.synced) = (found, if after_cut { found } else { state.synced });
        Ok(())
    }
}

/// The version of a page as read, 0 for a hole. Bytes of anything else are an error.
pub fn version_in(page: Page, block: &[u8]) -> Result<u32, String> {
    match read(block) {
        Some((of, version)) if of == page => Ok(version),
        Some((other, _)) => Err(format!("page {page} holds page {other}")),
        None if block.iter().all(|&b| b == 0) => Ok(0),
        None => Err(format!("page {page} holds no version")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_damaged_and_old_pages_are_found() {
        let block = |page, version| {
            let mut block = [0; BLOCK_SIZE];
            fill(page, version, &mut block);
            block
        };
        let mut all = Versions::new(4);
        let versions = [all.next(2), all.next(2)];
        assert_eq!(versions, [1, 2]);
        all.judge(2, &block(2, 1), true).unwrap();
        assert_eq!(all.next(2), 3, "no version is given twice");
        all.synced();
        all.judge(2, &block(2, 3), false).unwrap();
        for (wrong, why) in
            [(block(2, 1), "version 1"), (block(3, 3), "page 3"), ([0; BLOCK_SIZE], "version 0")]
        {
            assert!(all.judge(2, &wrong, true).unwrap_err().contains(why));
        }
        let mut torn = block(2, 3);
        torn[4000] ^= 1;
        assert!(all.judge(2, &torn, true).unwrap_err().contains("no version"));
        all.dropped(2);
        all.judge(2, &[0; BLOCK_SIZE], false).unwrap();
    }
}
