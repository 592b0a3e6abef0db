//! Blocks filled with one byte each, and an array as the model of a device.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "only tests call this")]
use segno_device::BlockDevice;
use segno_format::{BLOCK_SIZE, Block};

/// A block full of one byte.
pub fn block(fill: u8) -> Block {
    Block([fill; BLOCK_SIZE])
}

pub fn write(device: &dyn BlockDevice, addr: u64, fills: &[u8]) {
    gathered(fills, |blocks| device.write(addr, blocks).unwrap());
}

pub fn write_fua(device: &dyn BlockDevice, addr: u64, fills: &[u8]) {
    gathered(fills, |blocks| device.write_fua(addr, blocks).unwrap());
}

pub fn gathered<R>(fills: &[u8], with: impl FnOnce(&[&Block]) -> R) -> R {
    let blocks: Vec<Block> = fills.iter().map(|&f| block(f)).collect();
    with(&blocks.iter().collect::<Vec<_>>())
}

/// The fill bytes of blocks. Buffers start with other contents, so that a read without effect is detected.
pub fn read(device: &dyn BlockDevice, addr: u64, count: usize) -> Vec<u8> {
    let mut blocks = vec![block(0xEE); count];
    device.read(addr, &mut blocks).unwrap();
    blocks
        .iter()
        .map(|b| {
            assert!(b.0.iter().all(|&byte| byte == b.0[0]), "a block is mixed");
            b.0[0]
        })
        .collect()
}

/// Runs (write, write_fua, discard or flush; address; count; fill) on a device whose discarded blocks read as zeros.
pub fn compare_with_array(device: &dyn BlockDevice, ops: &[(u8, u64, u64, u8)]) {
    let mut model = vec![0u8; device.block_count() as usize];
    for &(op, addr, count, fill) in ops {
        let fills: Vec<u8> =
            (0..count).map(|i| if fill == 0 { 0 } else { fill.wrapping_add(i as u8) }).collect();
        let (done, fills) = match op {
            0 => (gathered(&fills, |b| device.write(addr, b)), fills),
            1 => (gathered(&fills, |b| device.write_fua(addr, b)), fills),
            2 => (device.discard(addr, count), vec![0; count as usize]),
            _ => {
                device.flush().unwrap();
                continue;
            }
        };
        let range = addr as usize..(addr + count) as usize;
        match model.get_mut(range) {
            Some(part) => {
                done.unwrap();
                part.copy_from_slice(&fills);
            }
            None => assert_eq!(done.unwrap_err().kind(), std::io::ErrorKind::InvalidInput),
        }
        assert_eq!(read(device, 0, model.len()), model);
    }
}
