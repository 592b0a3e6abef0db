//! Why something cannot be read.
use segno_codec::Algorithm;
use segno_format::{Corrupt, Unsupported};
use segno_layout::NoSuperblock;

/// Why something cannot be read; `E` is the error of the source.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error<E> {
    /// The source failed.
    #[error("{0}")]
    Source(E),
    /// There is no superblock.
    #[error(transparent)]
    NoSuperblock(#[from] NoSuperblock),
    /// The volume has features that are not supported.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// Something is damaged.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The volume may need recovery.
    #[error("the volume was not unmounted cleanly: mount it once, so that it is recovered")]
    NotClean,
    /// The volume is on more devices than the source.
    #[error("the volume is on several devices, and the source is one")]
    SeveralDevices,
    /// A file is compressed with an algorithm that is a feature of this crate, which was not built in.
    #[error("inode {ino} is compressed with {algorithm}, without which this reader was built")]
    NotBuilt {
        /// Number of the inode.
        ino: u32,
        /// Algorithm.
        algorithm: Algorithm,
    },
    /// A file, or the names of a directory, are encrypted.
    #[error("inode {0} is encrypted, which this reader does not support")]
    Encrypted(u32),
    /// A directory ignores case, so a name in it cannot be looked up.
    #[error("directory inode {0} ignores case, which this reader does not support in lookups")]
    IgnoresCase(u32),
    /// No entry of a directory has the name.
    #[error("no such file or directory")]
    NotFound,
    /// A directory is needed here.
    #[error("inode {0} is not a directory")]
    NotADirectory(u32),
    /// A regular file or symbolic link is needed here.
    #[error("inode {0} is neither a regular file nor a symbolic link")]
    NoData(u32),
}
