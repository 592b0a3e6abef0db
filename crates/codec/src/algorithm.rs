//! The algorithms of the format.
use core::fmt;

/// How the clusters of a file are compressed (`i_compress_algorithm`).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(u8)]
pub enum Algorithm {
    /// LZO1X.
    Lzo = 0,
    /// An LZ4 block without a frame.
    Lz4 = 1,
    /// One Zstandard frame.
    Zstd = 2,
    /// LZO1X with the kernel's runs of zeros.
    LzoRle = 3,
}

impl Algorithm {
    /// All of them, by their numbers.
    pub const ALL: [Self; 4] = [Self::Lzo, Self::Lz4, Self::Zstd, Self::LzoRle];

    /// The algorithm an inode names, if it is a known one.
    #[must_use]
    pub fn from_disk(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// The number that inodes store.
    #[must_use]
    pub fn to_disk(self) -> u8 {
        self as u8
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lzo => "lzo",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
            Self::LzoRle => "lzo-rle",
        })
    }
}
