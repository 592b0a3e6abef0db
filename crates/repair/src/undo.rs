//! The blocks that a repair overwrites, kept to put them back.
use crate::writer::Plan;
use segno_device::BlockDevice;
use segno_format::{BLOCK_SIZE, Block, crc};
use std::collections::HashMap;
use std::io::{self, Read, Write};

const MAGIC: &[u8; 8] = b"segnoun1";
/// Steps of a plan: a superblock, tables and blocks, pack, its end, two superblocks.
const MOST_STEPS: u32 = 8;

/// Old contents of the blocks that a plan writes.
#[derive(Debug)]
pub struct Undo {
    /// Blocks of the device.
    blocks: u64,
    steps: Vec<Vec<Old>>,
}

#[derive(Debug)]
struct Old {
    addr: u64,
    /// Checksum of the block that the repair writes.
    new_crc: u32,
    block: Block,
}

impl Undo {
    /// Reads what a plan is going to overwrite.
    pub fn of(plan: &Plan, device: &dyn BlockDevice) -> io::Result<Self> {
        let read = |(addr, new): &(u64, Block)| {
            let mut one = [Block::zeroed()];
            device.read(*addr, &mut one)?;
            let [block] = one;
            Ok(Old { addr: *addr, new_crc: crc(u32::MAX, &new.0), block })
        };
        let steps = plan.steps.iter().map(|step| step.iter().map(read).collect());
        Ok(Self { blocks: device.block_count(), steps: steps.collect::<io::Result<_>>()? })
    }

    /// Writes it to a file.
    pub fn save(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(MAGIC)?;
        out.write_all(&self.blocks.to_le_bytes())?;
        out.write_all(&(self.steps.len() as u32).to_le_bytes())?;
        for step in &self.steps {
            out.write_all(&(step.len() as u64).to_le_bytes())?;
            for old in step {
                out.write_all(&old.addr.to_le_bytes())?;
                out.write_all(&old.new_crc.to_le_bytes())?;
                out.write_all(&old.block.0)?;
            }
        }
        out.flush()
    }

    /// Reads it from a file.
    pub fn load(from: &mut impl Read) -> io::Result<Self> {
        let mut magic = [0; MAGIC.len()];
        from.read_exact(&mut magic)?;
        let blocks = u64::from_le_bytes(bytes(from)?);
        let count = u32::from_le_bytes(bytes(from)?);
        if magic != *MAGIC || count > MOST_STEPS {
            return Err(io::Error::other("not a file that --undo has written"));
        }
        let mut steps = Vec::new();
        for _ in 0..count {
            let len = u64::from_le_bytes(bytes(from)?);
            let mut step = Vec::new();
            for _ in 0..len {
                let (addr, new_crc) = (u64::from_le_bytes(bytes(from)?), u32::from_le_bytes(bytes(from)?));
                let block = Block(bytes::<BLOCK_SIZE>(from)?);
                step.push(Old { addr, new_crc, block });
            }
            steps.push(step);
        }
        Ok(Self { blocks, steps })
    }

    /// Puts everything back, in the reverse order of the repair. Refused if the volume has changed since.
    pub fn put_back(&self, device: &dyn BlockDevice) -> io::Result<()> {
        if device.block_count() != self.blocks {
            return Err(io::Error::other("the file belongs to a device of another size"));
        }
        let mut written: HashMap<u64, Vec<u32>> = HashMap::new();
        for old in self.steps.iter().flatten() {
            written.entry(old.addr).or_default().push(old.new_crc);
        }
        for old in self.steps.iter().flatten() {
            let mut one = [Block::zeroed()];
            device.read(old.addr, &mut one)?;
            let [now] = one;
            // A repair that was interrupted has left some blocks as they were.
            let repaired = written.get(&old.addr).is_some_and(|crcs| crcs.contains(&crc(u32::MAX, &now.0)));
            if now.0 != old.block.0 && !repaired {
                let text =
                    format!("block {} has changed since the repair: putting it back would do harm", old.addr);
                return Err(io::Error::other(text));
            }
        }
        for step in self.steps.iter().rev() {
            for old in step {
                device.write(old.addr, &[&old.block])?;
            }
            device.flush()?;
        }
        Ok(())
    }
}

fn bytes<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut out = [0; N];
    from.read_exact(&mut out)?;
    Ok(out)
}
