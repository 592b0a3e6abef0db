//! Has the page cache begin to write a range, which no safe wrapper offers.
#![allow(unsafe_code)]
use std::fs::File;
use std::os::fd::AsRawFd;

/// A hint: whether it is followed, and what becomes of the pages, the next flush tells.
pub(crate) fn writing(file: &File, offset: u64, len: u64) {
    let (Ok(offset), Ok(len)) = (offset.try_into(), len.try_into()) else { return };
    // SAFETY: the descriptor is open as long as `file` is borrowed, and no memory is passed.
    unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
}
