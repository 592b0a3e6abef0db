//! Page-aligned buffers that do not take memory before they are used.
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::ptr::{NonNull, null_mut};

/// Page size of the buffers' division.
pub const PAGE: usize = 4096;

/// A mapping that belongs to this value alone, but for the kernel: with a ring it writes to the bytes, and reads them,
/// between a submission and its completion. The owner holds no reference to the bytes then.
#[derive(Debug)]
pub struct Buffer {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is owned by the value, like the contents of a `Box`.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Zeros, at least `len` bytes, not zero.
    pub fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(PAGE);
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches nothing that is there.
        let at = unsafe { mmap_anonymous(null_mut(), len, prot, flags)? };
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { at, len })
    }

    pub fn address(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    pub fn bytes(&mut self) -> &mut [u8] {
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
