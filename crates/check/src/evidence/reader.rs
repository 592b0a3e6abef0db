//! Reading blocks: one at a time, or many in long runs with zero blocks left out.
use crate::CheckError;
use segno_device::{BlockDevice, Buffer, Reading};
use segno_format::{BLOCK_SIZE, Block, BlockAddr};

/// Blocks of a table read in one go: 512 KiB.
const RUN: usize = 128;

/// Reads blocks of a device; an error names the address.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    device: &'a dyn BlockDevice,
}

impl<'a> Reader<'a> {
    /// A reader of a device.
    pub(crate) fn new(device: &'a dyn BlockDevice) -> Self {
        Self { device }
    }

    /// Blocks the device has.
    pub(crate) fn len(&self) -> u64 {
        self.device.block_count()
    }

    /// One block.
    pub(crate) fn block(&self, addr: BlockAddr) -> Result<Block, CheckError> {
        let mut one = [Block::zeroed()];
        self.fill(addr, &mut one)?;
        let [block] = one;
        Ok(block)
    }

    /// Consecutive blocks.
    pub(crate) fn blocks(&self, addr: BlockAddr, count: u32) -> Result<Vec<Block>, CheckError> {
        let mut blocks = vec![Block::zeroed(); count as usize];
        self.fill(addr, &mut blocks)?;
        Ok(blocks)
    }

    /// Reads blocks `0..count` of a table whose block `b` is at `addr(b)`, and calls `each` for those not all zero.
    pub(crate) fn scan(
        &self,
        count: u32,
        addr: impl Fn(u32) -> BlockAddr,
        mut each: impl FnMut(u32, &Block),
    ) -> Result<(), CheckError> {
        let mut buf = vec![Block::zeroed(); RUN];
        let mut first = 0;
        while first < count {
            let start = addr(first);
            let follows = |n: &u32| addr(first.saturating_add(*n)) == start.offset(*n);
            let limit = (count - first).min(RUN as u32);
            let n = 1 + (1..limit).take_while(follows).count();
            let part = buf.get_mut(..n).unwrap_or_default();
            self.fill(start, part)?;
            for (b, block) in (first..).zip(part.iter()).filter(|(_, block)| !block.is_zero()) {
                each(b, block);
            }
            first = first.saturating_add(n as u32);
        }
        Ok(())
    }

    /// Starts to fill a buffer with consecutive blocks.
    pub(crate) fn start(&self, addr: BlockAddr, into: Buffer) -> Reading {
        self.device.start_read(addr.0.into(), into)
    }

    fn fill(&self, addr: BlockAddr, into: &mut [Block]) -> Result<(), CheckError> {
        let (addr, count) = (u64::from(addr.0), into.len());
        self.device.read(addr, into).map_err(|source| CheckError::Io { addr, count, source })
    }
}

/// Compares whole arrays, which is much faster than looking at bytes one by one.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    static ZERO: [u8; BLOCK_SIZE] = [0; BLOCK_SIZE];
    bytes.chunks(BLOCK_SIZE).all(|part| ZERO.get(..part.len()) == Some(part))
}

/// How many bytes are in use, for reports.
pub(crate) fn nonzero(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&b| b != 0).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_device::MemDevice;

    /// The blocks of tables with two copies form runs of any length.
    #[test]
    fn scan_follows_jumps_and_skips_zeros() {
        let device = MemDevice::new(2000);
        for addr in (0..2000u64).filter(|a| a % 7 != 0) {
            let mut block = Block::zeroed();
            block.set_u32_at(0, addr as u32);
            device.write(addr, &[&block]).unwrap();
        }
        let copies: [fn(u32) -> bool; 3] = [|_| false, |b| b % 3 == 1, |b| b >= 500];
        for copy in copies {
            let addr = |b| BlockAddr(if copy(b) { 1000 + b } else { b });
            let mut seen = Vec::new();
            Reader::new(&device).scan(700, addr, |b, block| seen.push((b, block.u32_at(0)))).unwrap();
            let all = (0..700).map(|b| (b, addr(b).0));
            assert_eq!(seen, all.filter(|(_, a)| a % 7 != 0).collect::<Vec<_>>());
        }
    }
}
