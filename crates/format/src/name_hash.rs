//! The 32-bit hash stored in every directory entry (`f2fs_dentry_hash`).
//!
//! It is the TEA block cipher run over 16-byte chunks of the name, with the name as the key and the hash state as
//! the block that is encrypted. Bytes a chunk does not have are replaced by the count of bytes left, so names that
//! are prefixes of one another hash apart.

const CHUNK_LEN: usize = 16;
const TEA_DELTA: u32 = 0x9E37_79B9;
const TEA_ROUNDS: usize = 16;
const INITIAL_STATE: [u32; 2] = [0x6745_2301, 0xEFCD_AB89];

/// Hash of a name as it is stored in a dentry; `.` and `..` hash to 0.
///
/// In a casefolded directory it is that of the folded name, [`folded_name_hash`].
#[must_use]
pub fn name_hash(name: &[u8]) -> u32 {
    if is_dot_or_dotdot(name) { 0 } else { tea_hash(name) }
}

/// Hash of a name in a casefolded directory, from its folded form; of a name that has none, its bytes.
#[must_use]
pub fn folded_name_hash(name: &[u8], folded: &[u8]) -> u32 {
    // Asked of the name itself: one that merely folds to a dot is hashed like any other.
    if is_dot_or_dotdot(name) { 0 } else { tea_hash(folded) }
}

fn is_dot_or_dotdot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

fn tea_hash(name: &[u8]) -> u32 {
    let [mut b0, mut b1] = INITIAL_STATE;
    let mut rest = name;
    loop {
        let (chunk, tail) = rest.split_at(rest.len().min(CHUNK_LEN));
        let (x, y) = tea(b0, b1, key_of(chunk, rest.len()));
        b0 = b0.wrapping_add(x);
        b1 = b1.wrapping_add(y);
        if tail.is_empty() {
            return b0;
        }
        rest = tail;
    }
}

/// Packs up to 16 bytes into four words; `bytes_left` (this chunk included) fills what the chunk does not.
fn key_of(chunk: &[u8], bytes_left: usize) -> [u32; 4] {
    // Names are at most 255 bytes, so only the low byte can be non-zero.
    let pad = u32::from_le_bytes([bytes_left.to_le_bytes()[0]; 4]);
    let mut key = [pad; 4];
    for (word, group) in key.iter_mut().zip(chunk.chunks(4)) {
        for &byte in group {
            *word = (*word << 8).wrapping_add(u32::from(byte));
        }
    }
    key
}

fn tea(mut x: u32, mut y: u32, [k0, k1, k2, k3]: [u32; 4]) -> (u32, u32) {
    let mix = |v: u32, sum: u32, a: u32, b: u32| {
        (v << 4).wrapping_add(a) ^ v.wrapping_add(sum) ^ (v >> 5).wrapping_add(b)
    };
    let mut sum = 0u32;
    for _ in 0..TEA_ROUNDS {
        sum = sum.wrapping_add(TEA_DELTA);
        x = x.wrapping_add(mix(y, sum, k0, k1));
        y = y.wrapping_add(mix(x, sum, k2, k3));
    }
    (x, y)
}

#[cfg(test)]
mod tests {
    use super::name_hash;
    use proptest::prelude::*;

    /// Values read from volumes the Linux kernel populated.
    #[test]
    fn equals_the_kernels_hashes() {
        let y16 = "y".repeat(16);
        let z32 = "z".repeat(32);
        let n255 = "n".repeat(255);
        let mixed = "mixed".repeat(10);
        let vectors: &[(&[u8], u32)] = &[
            (b"a", 0x6D0E_A4C1),
            (b"b", 0xE9FB_8BD0),
            (b"ab", 0xD27D_8659),
            (b"abc", 0xB143_5EC5),
            (b"abcd", 0x5A24_112E),
            (b"A", 0x2802_69F2),
            (b"file", 0x53FC_F74E),
            (b"lost+found", 0x2DBF_9E80),
            (b"xxxxxxxx", 0x885C_089A),
            (b"hello.txt", 0x5107_C3F3),
            (b"README.md", 0x0E23_01B1),
            (b"file00000", 0x4BC4_BECC),
            (b"file05999", 0xCA83_FF01),
            (b"abcdefghijklmno", 0x9E7B_4277),
            (b"abcdefghijklmnop", 0xF4AC_8CB5),
            (b"abcdefghijklmnopq", 0x972A_82E7),
            (y16.as_bytes(), 0xA1FC_EC85),
            (z32.as_bytes(), 0xF806_4B19),
            (b"0123456789abcdef0123456789abcdef0", 0x6030_0318),
            (n255.as_bytes(), 0x0415_6E7C),
            ("\u{e9}t\u{e9}".as_bytes(), 0x2ED2_FEAD),
            ("日本語".as_bytes(), 0x164F_6BED),
            (&[0xFF, 0xFE, 0xFD], 0xD600_46D9),
            (b".", 0),
            (b"..", 0),
            (b"filename", 0x6EF9_C731),
            (b"strasse", 0xD6E5_379A),
            ("e\u{301}te\u{301}".as_bytes(), 0xDE4C_3E71),
            ("e\u{301}clair".as_bytes(), 0xA9BB_D91C),
            ("i\u{307}stanbul".as_bytes(), 0x6BE3_0F57),
            (b"\xCF\x83\xCE\xB9\xCC\x81\xCF\x83\xCF\x85\xCF\x86\xCE\xBF\xCF\x83", 0x17DE_5360),
            (mixed.as_bytes(), 0x4F69_54FE),
        ];
        for (name, hash) in vectors {
            assert_eq!(name_hash(name), *hash, "{}", name.escape_ascii());
        }
    }

    proptest! {
        /// The specification's padding, written bit by bit, for chunks of every length.
        #[test]
        fn agrees_with_the_definition(name in prop::collection::vec(any::<u8>(), 1..=255)) {
            prop_assume!(name != b"." && name != b"..");
            prop_assert_eq!(name_hash(&name), by_definition(&name));
        }
    }

    fn by_definition(name: &[u8]) -> u32 {
        let (mut b0, mut b1) = (0x6745_2301_u32, 0xEFCD_AB89_u32);
        let mut p = 0;
        loop {
            let left = name.len() - p;
            let pad = left as u32 * 0x0101_0101;
            let mut w = [pad; 4];
            for i in 0..left.min(16) {
                w[i / 4] = w[i / 4].wrapping_mul(256).wrapping_add(u32::from(name[p + i]));
            }
            let (mut x, mut y, mut s) = (b0, b1, 0u32);
            for _ in 0..16 {
                s = s.wrapping_add(0x9E37_79B9);
                x = x.wrapping_add(
                    (y << 4).wrapping_add(w[0]) ^ y.wrapping_add(s) ^ (y >> 5).wrapping_add(w[1]),
                );
                y = y.wrapping_add(
                    (x << 4).wrapping_add(w[2]) ^ x.wrapping_add(s) ^ (x >> 5).wrapping_add(w[3]),
                );
            }
            b0 = b0.wrapping_add(x);
            b1 = b1.wrapping_add(y);
            if left <= 16 {
                return b0;
            }
            p += 16;
        }
    }
}
