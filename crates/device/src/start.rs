//! Starts writeback of a range of the host's page cache (`sync_file_range(2)`), which no safe wrapper offers.
#![allow(unsafe_code)]
use std::fs::File;
use std::os::fd::AsRawFd;

/// A hint; errors are reported by the next flush.
pub(crate) fn writing(file: &File, offset: u64, len: u64) {
    let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else { return };
    // SAFETY: the descriptor is open as long as `file` is borrowed, and no memory is passed.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
}
