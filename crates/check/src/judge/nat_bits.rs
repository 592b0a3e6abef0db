//! nat_bits: which NAT blocks are full and which are empty, as of a clean unmount.
use crate::CheckError;
use crate::evidence::Volume;
use crate::report::{Kind, Rules, Sink};
use segno_format::bits::lsb;
use segno_format::checkpoint::{CpFlags, nat_bits_blocks, nat_bits_cookie};
use segno_format::geometry::NAT_PER_BLOCK;
use segno_format::{BLOCKS_PER_SEG, Structure, Unit};

const COOKIE_BYTES: usize = 8;

/// Checks the bits against the number of addresses in each NAT block, if the pack has nat_bits and their
/// cookie matches; otherwise they are not used.
pub(crate) fn check(volume: &Volume<'_>, stored_in_use: &[u16], sink: &mut Sink) -> Result<(), CheckError> {
    let Volume { reader, geo, pack, .. } = volume;
    let blocks = nat_bits_blocks(geo);
    if !pack.flags.contains(CpFlags::NAT_BITS) || blocks > BLOCKS_PER_SEG {
        return Ok(());
    }
    let start = pack.start.offset(BLOCKS_PER_SEG - blocks);
    let bytes: Vec<u8> = reader.blocks(start, blocks)?.iter().flat_map(|b| b.0).collect();
    let cookie = bytes.first_chunk::<COOKIE_BYTES>().map_or(0, |b| u64::from_le_bytes(*b));
    if cookie != nat_bits_cookie(pack.cp().checkpoint_ver.get(), pack.crc) {
        return Ok(());
    }
    let mut rules = Rules::new(Kind::NatBits, Structure::Checkpoint, Unit::Block, start.0);
    let len = pack.blocks.len() as u64;
    let fits = len + u64::from(blocks) <= BLOCKS_PER_SEG.into();
    rules.require(fits, "pack runs into its nat_bits", len, blocks);
    sink.add_broken(None, rules);
    if !fits {
        return Ok(());
    }
    let half = geo.nat_blocks() as usize / 8;
    let full = bytes.get(COOKIE_BYTES..).unwrap_or_default();
    let empty = full.get(half..).unwrap_or_default();
    for (b, &addresses) in (0..geo.nat_blocks()).zip(stored_in_use) {
        // Nid 0 has no address and yet is never free.
        let in_use = u32::from(addresses) + u32::from(b == 0);
        let at = geo.nat_addr(b, pack.nat_copy(b)).0;
        let mut rules = Rules::new(Kind::NatBits, Structure::NatBlock, Unit::Block, at);
        rules.equal("full bit of nat_bits", lsb::test(full, b as usize), in_use == NAT_PER_BLOCK);
        rules.equal("empty bit of nat_bits", lsb::test(empty, b as usize), in_use == 0);
        sink.add_broken(None, rules);
    }
    Ok(())
}
