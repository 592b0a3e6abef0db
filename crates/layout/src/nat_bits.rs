//! nat_bits: which NAT blocks are full and which are empty, as of an unmount.
use crate::encode::units;
use alloc::vec;
use alloc::vec::Vec;
use segno_format::bits::lsb;
use segno_format::checkpoint::{nat_bits_blocks, nat_bits_cookie};
use segno_format::{Block, Geometry};

const COOKIE_BYTES: usize = 8;

/// The last blocks of a pack's segment, as units. `in_use` is the number of nids in a block of the NAT that
/// are not free; nid 0 is never free.
#[must_use]
pub fn nat_bits(geo: &Geometry, version: u64, crc: u32, in_use: impl Fn(u32) -> u32) -> Vec<Block> {
    let map_bytes = (geo.nat_blocks() / 8) as usize;
    let mut bytes = vec![0; nat_bits_blocks(geo) as usize * geo.block_size as usize];
    let (cookie, maps) = bytes.split_at_mut(COOKIE_BYTES);
    cookie.copy_from_slice(&nat_bits_cookie(version, crc).to_le_bytes());
    let (full, rest) = maps.split_at_mut(map_bytes.min(maps.len()));
    let empty = rest.get_mut(..map_bytes).unwrap_or_default();
    for block in 0..geo.nat_blocks() {
        let used = in_use(block);
        lsb::put(full, block as usize, used == geo.nat_per_block());
        lsb::put(empty, block as usize, used == 0);
    }
    units(&bytes)
}
