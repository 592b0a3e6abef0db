//! A checkpoint block in memory that keeps the checksum of another one: chain and journal are bound to it.
use segno_format::checkpoint::RawCheckpoint;
use segno_format::set_word;

/// Four of the bytes of `alloc_type` that no log has.
const FREE: usize = 184;

/// Changes unused bytes so that the checksum, which is stored and returned, is this one.
pub(crate) fn seal_with_crc(block: &mut [u8], crc: u32) -> u32 {
    let mut with = |bytes: u32| {
        set_word(block, FREE, bytes);
        RawCheckpoint::seal(block)
    };
    // The checksum is linear in the bytes: each bit of them changes the same bits of it, whatever the others are.
    let base = with(0);
    let mut rows: Vec<(u32, u32)> = (0..u32::BITS).map(|i| (with(1 << i) ^ base, 1 << i)).collect();
    let (mut missing, mut bytes) = (crc ^ base, 0);
    for bit in (0..u32::BITS).rev().map(|i| 1u32 << i) {
        let Some(at) = rows.iter().position(|(change, _)| change & bit != 0) else { continue };
        let (change, of) = rows.swap_remove(at);
        rows.iter_mut().filter(|(c, _)| c & bit != 0).for_each(|row| *row = (row.0 ^ change, row.1 ^ of));
        if missing & bit != 0 {
            (missing, bytes) = (missing ^ change, bytes ^ of);
        }
    }
    with(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use segno_format::Block;

    #[test]
    fn any_checksum() {
        for (offset, wanted) in [(4092, 0), (4092, 0xdead_beef), (192, 1), (192, u32::MAX)] {
            let mut block = Block::zeroed();
            block.0.iter_mut().zip(0u32..).for_each(|(b, i)| *b = (i * i) as u8);
            block.view_mut::<RawCheckpoint>().checksum_offset.set(offset);
            seal_with_crc(&mut block.0, wanted);
            assert_eq!(RawCheckpoint::verify(&block, 0), Ok(wanted));
        }
    }
}
