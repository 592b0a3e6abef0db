//! Device numbers as stored in the first slots of a device inode.

/// Major and minor from the first two slot words.
#[must_use]
pub fn decode(word0: u32, word1: u32) -> (u32, u32) {
    if word0 != 0 {
        (word0 >> 8 & 0xff, word0 & 0xff)
    } else {
        ((word1 & 0xf_ff00) >> 8, (word1 & 0xff) | (word1 >> 12 & 0xf_ff00))
    }
}

/// The first two slot words of a device number: 12 bits of major, 20 of minor.
#[must_use]
pub fn encode(major: u32, minor: u32) -> (u32, u32) {
    if major < 256 && minor < 256 {
        (major << 8 | minor, 0)
    } else {
        (0, (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn vectors() {
        let cases = [
            (5, 1, 0x501, 0),
            (8, 17, 0x811, 0),
            (259, 300, 0, 0x11_032c),
            (300, 70_000, 0, 0x1111_2c70),
            (0, 256, 0, 0x10_0000),
            (4095, 1_048_575, 0, 0xffff_ffff),
        ];
        for (major, minor, w0, w1) in cases {
            assert_eq!(super::encode(major, minor), (w0, w1), "{major}:{minor}");
            assert_eq!(super::decode(w0, w1), (major, minor), "{w0:#x} {w1:#x}");
        }
    }
}
