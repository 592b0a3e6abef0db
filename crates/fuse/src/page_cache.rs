//! How the kernel's page cache treats written data.
use crate::wire::InitFlags;
use derive_more::Display;

/// Mode of the kernel's page cache for regular files.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq)]
pub enum PageCache {
    /// write(2) returns after the server has the data.
    #[display("write-through page cache: each write reaches the server before it returns")]
    WriteThrough,
    /// write(2) returns when the data is in the cache. The kernel sends it later, and keeps sizes and times until then.
    #[display("writeback page cache: writes reach the server at fsync, close or writeback")]
    Writeback,
    /// Write-through, as the kernel does not offer writeback.
    #[display("write-through page cache: this kernel does not offer writeback_cache")]
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
