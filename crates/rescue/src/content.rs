//! The content of a file, as pieces with their offsets. A range without a piece is a hole.
use crate::file::{File, Opened, Slot};
use crate::volume::Volume;
use segno_codec::{Algorithm, decompress};
use segno_format::cluster::{CHECKSUM, compressed_data};
use segno_format::inode::{Advise, Inline};
use segno_format::{BLOCK_SIZE, BlockAddr};
use std::io;

/// Blocks read at once.
const RUN: usize = 256;

/// Takes the pieces of a file.
pub type Write<'a> = dyn FnMut(u64, &[u8]) -> io::Result<()> + 'a;

/// Blocks and clusters of a file that became holes, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holes {
    /// Blocks that could not be read.
    pub unreadable: u64,
    /// Blocks that were not allowed.
    pub withheld: u64,
    /// Clusters that could not be decompressed.
    pub clusters: u64,
}

struct Output<'a, 'w> {
    volume: &'a Volume<'a>,
    size: u64,
    write: &'a mut Write<'w>,
    /// Consecutive blocks of the file at consecutive addresses.
    run: Option<(u64, BlockAddr, u32)>,
    holes: Holes,
    result: io::Result<()>,
}

/// Reads the content of a file, block by block, as far as `allowed`.
pub fn read(
    volume: &Volume<'_>,
    file: &Opened,
    allowed: &dyn Fn(&Slot) -> bool,
    write: &mut Write<'_>,
) -> io::Result<Holes> {
    let size = file.raw().i_size.get();
    if file.raw().inline().contains(Inline::DATA) {
        let area = file.inline_area();
        let n = usize::try_from(size).map_or(area.len(), |n| n.min(area.len()));
        write(0, area.get(..n).unwrap_or_default())?;
        return Ok(Holes::default());
    }
    let mut out = Output { volume, size, write, run: None, holes: Holes::default(), result: Ok(()) };
    // Encrypted clusters cannot be decompressed; their blocks are given as they are.
    let compressed = file.raw().is_compressed() && !file.raw().advise().contains(Advise::ENCRYPT);
    file.slots(volume, |slots| {
        if out.result.is_err() {
            return;
        }
        match slots {
            [first, rest @ ..] if compressed && first.addr == BlockAddr::COMPRESS => {
                out.cluster(file, first, rest, allowed);
            }
            _ => slots.iter().for_each(|s| out.block(s, allowed)),
        }
    });
    out.end_run();
    out.result.map(|()| out.holes)
}

impl Output<'_, '_> {
    fn block(&mut self, s: &Slot, allowed: &dyn Fn(&Slot) -> bool) {
        if !s.addr.is_real() || s.file_block.saturating_mul(BLOCK_SIZE as u64) >= self.size {
            return;
        }
        if !self.volume.in_main(s.addr) {
            self.holes.unreadable += 1;
            return;
        }
        if !allowed(s) {
            self.holes.withheld += 1;
            return;
        }
        if let Some((first, addr, count)) = &mut self.run
            && *first + u64::from(*count) == s.file_block
            && addr.offset(*count) == s.addr
            && (*count as usize) < RUN
        {
            *count += 1;
            return;
        }
        self.end_run();
        self.run = Some((s.file_block, s.addr, 1));
    }

    fn end_run(&mut self) {
        let Some((first, addr, count)) = self.run.take() else { return };
        for (i, block) in (first..).zip(self.volume.reader.blocks(addr, count)) {
            match block {
                Some(block) => self.put(i, &block.0),
                None => self.holes.unreadable += 1,
            }
        }
    }

    fn put(&mut self, file_block: u64, bytes: &[u8]) {
        let offset = file_block.saturating_mul(BLOCK_SIZE as u64);
        let n = usize::try_from(self.size.saturating_sub(offset)).map_or(bytes.len(), |n| n.min(bytes.len()));
        if self.result.is_ok() && n > 0 {
            self.result = (self.write)(offset, bytes.get(..n).unwrap_or_default());
        }
    }

    fn cluster(&mut self, file: &File, first: &Slot, rest: &[Slot], allowed: &dyn Fn(&Slot) -> bool) {
        self.end_run();
        if first.file_block.saturating_mul(BLOCK_SIZE as u64) >= self.size {
            return;
        }
        match self.decompressed(file, rest, allowed) {
            Some(bytes) => self.put(first.file_block, &bytes),
            None => self.holes.clusters += 1,
        }
    }

    fn decompressed(&self, file: &File, rest: &[Slot], allowed: &dyn Fn(&Slot) -> bool) -> Option<Vec<u8>> {
        let mut data = Vec::new();
        for s in rest.iter().take_while(|s| s.addr.is_real()) {
            let block =
                self.volume.reader.block(s.addr).filter(|_| self.volume.in_main(s.addr) && allowed(s))?;
            data.extend_from_slice(&block.0);
        }
        let extra = file.raw().extra();
        let checksum = extra.i_compress_flag.get() & CHECKSUM != 0;
        let cdata = compressed_data(file.node.ino, &data, checksum).ok()?;
        let mut out = vec![0; (rest.len() + 1) * BLOCK_SIZE];
        decompress(Algorithm::from_disk(extra.i_compress_algorithm)?, cdata, &mut out).ok()?;
        Some(out)
    }
}
