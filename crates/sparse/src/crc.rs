//! CRC-32 of long repetitions without going through their bytes.
use crc32fast::Hasher;

/// Adds `count` words to a checksum. The work grows with the logarithm of the count.
pub(crate) fn add_words(hasher: &mut Hasher, word: u32, mut count: u64) {
    let mut power = Hasher::new();
    power.update(&word.to_le_bytes());
    while count > 0 {
        if count & 1 == 1 {
            hasher.combine(&power);
        }
        count >>= 1;
        let half = power.clone();
        power.combine(&half);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetition_equals_its_bytes() {
        for count in [0, 1, 2, 3, 1024, 4097] {
            let mut plain = Hasher::new();
            plain.update(b"before");
            let mut quick = plain.clone();
            plain.update(&0x0102_0304u32.to_le_bytes().repeat(count as usize));
            add_words(&mut quick, 0x0102_0304, count);
            assert_eq!(quick.finalize(), plain.finalize(), "{count} words");
        }
    }
}
