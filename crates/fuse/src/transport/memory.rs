//! Page-aligned buffers whose memory is allocated on first use.
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::{NonNull, null_mut};

/// Alignment and granularity of buffers.
pub(crate) const PAGE: usize = 4096;

/// A private mapping owned by this value. With a ring the kernel reads and writes the bytes between a submission and its
/// completion, while the owner holds no reference to them.
#[derive(Debug)]
pub(crate) struct Buffer {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is owned by the value, like the contents of a `Box`.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Maps at least `len` bytes of zeros, at least one page.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(PAGE);
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that is there.
        let at = unsafe { mmap_anonymous(null_mut(), len, prot, flags)? };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, len })
    }

    pub(crate) fn address(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `at` is the start of `len` initialised bytes that live as long as `self`, which is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new`, and nothing refers to it any more.
        let _unmapped = unsafe { munmap(self.at.as_ptr().cast(), self.len) };
    }
}
