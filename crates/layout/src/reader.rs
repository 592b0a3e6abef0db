//! Where blocks come from. A source is read in units of 4096 bytes; a block of the volume is one or several
//! of them.
use alloc::vec::Vec;
use core::convert::Infallible;
use segno_format::{Block, BlockAddr, Corrupt, Geometry, Structure};
use zerocopy::IntoBytes;

/// A source of a volume's units: a device, a device with pending changes, or the readable part of a damaged
/// one.
pub trait Reader {
    /// Error that ends reading; `Infallible` for a source that omits unreadable units.
    type Error;

    /// End of the addresses that it can have, exclusive.
    fn end(&self) -> u32;

    /// A unit; `None` if the source omits it.
    fn read_block(&self, at: BlockAddr) -> Result<Option<Block>, Self::Error>;

    /// Consecutive units.
    fn read_blocks(&self, at: BlockAddr, count: u32) -> Result<Vec<Option<Block>>, Self::Error> {
        (0..count).map(|i| self.read_block(at.offset(i))).collect()
    }
}

impl<R: Reader + ?Sized> Reader for &R {
    type Error = R::Error;

    fn end(&self) -> u32 {
        (**self).end()
    }

    fn read_block(&self, at: BlockAddr) -> Result<Option<Block>, R::Error> {
        (**self).read_block(at)
    }

    fn read_blocks(&self, at: BlockAddr, count: u32) -> Result<Vec<Option<Block>>, R::Error> {
        (**self).read_blocks(at, count)
    }
}

/// A block of a volume, as its units.
pub(crate) struct VolumeBlock(pub Vec<Block>);

impl VolumeBlock {
    pub(crate) fn is_zero(&self) -> bool {
        self.0.iter().all(Block::is_zero)
    }
}

impl AsRef<[u8]> for VolumeBlock {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// A block of a volume; `None` if the source omits a part of it.
pub(crate) fn read_volume_block<R: Reader + ?Sized>(
    reader: &R,
    geo: &Geometry,
    at: BlockAddr,
) -> Result<Option<VolumeBlock>, R::Error> {
    let units = reader.read_blocks(geo.unit(at), geo.units())?;
    Ok(units.into_iter().collect::<Option<Vec<_>>>().map(VolumeBlock))
}

/// The damage to report for an omitted block.
pub(crate) fn left_out(what: Structure, at: BlockAddr) -> Corrupt {
    Corrupt::block(what, at.0.into(), "the block cannot be read", 0, 1)
}

/// The result of reading a source that cannot fail, as it omits unreadable units.
pub fn certain<T>(read: Result<T, Infallible>) -> T {
    let Ok(value) = read;
    value
}
