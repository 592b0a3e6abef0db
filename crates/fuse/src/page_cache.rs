//! How the kernel's page cache treats written data.
use crate::wire::InitFlags;
use std::fmt;

/// Mode of the kernel's page cache for regular files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCache {
    /// write(2) returns after the server has the data.
    WriteThrough,
    /// write(2) returns when the data is in the cache. The kernel sends it later, and keeps sizes and times until then.
    Writeback,
    /// Write-through, as the kernel does not offer writeback.
    NoWriteback,
}

impl PageCache {
    /// The mode that results from an option and the kernel's offer.
    pub(crate) fn agreed(writeback: bool, offered: InitFlags) -> Self {
        match (writeback, offered.contains(InitFlags::WRITEBACK_CACHE)) {
            (false, _) => Self::WriteThrough,
            (true, true) => Self::Writeback,
            (true, false) => Self::NoWriteback,
        }
    }
}

impl fmt::Display for PageCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WriteThrough => "write-through page cache: each write reaches the server before it returns",
            Self::Writeback => "writeback page cache: writes reach the server at fsync, close or writeback",
            Self::NoWriteback => "write-through page cache: this kernel does not offer writeback_cache",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_writeback_is_mounted_write_through() {
        let (with, without) = (InitFlags::WRITEBACK_CACHE, InitFlags::empty());
        assert_eq!(PageCache::agreed(true, with), PageCache::Writeback);
        assert_eq!(PageCache::agreed(true, without), PageCache::NoWriteback);
        assert_eq!(PageCache::agreed(false, with), PageCache::WriteThrough);
        let said = PageCache::NoWriteback.to_string();
        assert!(said.contains("write-through") && said.contains("does not offer"), "{said}");
    }
}
