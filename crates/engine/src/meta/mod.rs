//! Access to the blocks of the volume. Errors name the operation and the address.
mod device;
mod durable;
mod node_readahead;
mod zones;

pub use device::Device;
pub use durable::Written;
use zones::Zones;

/// The geometry of a small volume.
#[cfg(test)]
pub fn test_geometry() -> segno_format::Geometry {
    use segno_format::Block;
    use segno_format::superblock::{RawSuperblock, SUPERBLOCK_COPIES};
    let device = std::sync::Arc::new(segno_device::MemDevice::new(25_600));
    let member = segno_mkfs::Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &segno_mkfs::MkfsOptions::default()).unwrap();
    let [first, _] = SUPERBLOCK_COPIES;
    let mut block = [Block::zeroed()];
    segno_device::BlockDevice::read(&*device, first.0.into(), &mut block).unwrap();
    RawSuperblock::from_block(&block[0].0).parse(first.0.into()).unwrap().geo
}
