//! The two bit orders of the format. Reads past the end give `false`; writes past the end are ignored.

/// SIT valid maps and the SIT/NAT version bitmaps: most significant bit first.
pub mod msb {
    /// Bit `i` of the map.
    #[must_use]
    pub fn test(map: &[u8], i: usize) -> bool {
        map.get(i / 8).is_some_and(|b| b & (0x80 >> (i % 8)) != 0)
    }

    /// Sets or clears bit `i`.
    pub fn put(map: &mut [u8], i: usize, on: bool) {
        if let Some(b) = map.get_mut(i / 8) {
            let mask = 0x80 >> (i % 8);
            if on { *b |= mask } else { *b &= !mask }
        }
    }
}

/// Dentry bitmaps, nat_bits and `s_errors`: least significant bit first.
pub mod lsb {
    /// Bit `i` of the map.
    #[must_use]
    pub fn test(map: &[u8], i: usize) -> bool {
        map.get(i / 8).is_some_and(|b| b & (1 << (i % 8)) != 0)
    }

    /// Sets or clears bit `i`.
    pub fn put(map: &mut [u8], i: usize, on: bool) {
        if let Some(b) = map.get_mut(i / 8) {
            let mask = 1 << (i % 8);
            if on { *b |= mask } else { *b &= !mask }
        }
    }
}

/// Number of set bits.
#[must_use]
pub fn popcount(map: &[u8]) -> u32 {
    map.iter().map(|b| b.count_ones()).sum()
}
