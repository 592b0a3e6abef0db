//! The body of a reply, built in a buffer of the transport.
use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

/// A body under construction.
#[derive(Debug)]
pub struct Reply<'a> {
    buf: &'a mut [u8],
    len: usize,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(buf: &'a mut [u8]) -> Self {
        Self { buf, len: 0 }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes that still fit.
    pub(crate) fn free(&self) -> usize {
        self.buf.len().saturating_sub(self.len)
    }

    /// Appends a structure.
    ///
    /// # Errors
    /// The buffer is too small, which is an error of the request.
    pub fn put(&mut self, part: &(impl IntoBytes + Immutable + ?Sized)) -> Result<(), Errno> {
        let bytes = part.as_bytes();
        self.space(bytes.len()).ok_or(Errno::INVAL)?.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Lets `fill` write up to `max` bytes in place; it returns how many it wrote.
    ///
    /// # Errors
    /// That of `fill`.
    pub fn fill<E>(&mut self, max: usize, fill: impl FnOnce(&mut [u8]) -> Result<usize, E>) -> Result<(), E> {
        let free = self.buf.get_mut(self.len..).unwrap_or_default();
        let max = max.min(free.len());
        let n = fill(free.get_mut(..max).unwrap_or_default())?;
        self.len += n.min(max);
        Ok(())
    }

    /// The next `n` bytes; `None` if the buffer is too short.
    fn space(&mut self, n: usize) -> Option<&mut [u8]> {
        self.buf.get_mut(self.len..)?.get_mut(..n)
    }
}
