//! Asynchronous reads.
use crate::aio::Request;
use crate::aligned::{self, Aligned};
use segno_format::Block;
use std::io;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Aligned memory for consecutive blocks that a device can write to directly. Allocated once and reused.
pub struct Buffer(Vec<Aligned>);

impl Buffer {
    /// Allocates memory for a number of blocks.
    #[must_use]
    pub fn new(blocks: usize) -> Self {
        Self(aligned::zeroed(blocks))
    }

    /// Makes it shorter, or longer again. Its memory stays, unless that is too small.
    pub fn resize(&mut self, blocks: usize) {
        self.0.resize_with(blocks, Aligned::new_zeroed);
    }

    /// Blocks that it has memory for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// The blocks.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        <[Block]>::ref_from_bytes(self.0.as_slice().as_bytes()).unwrap_or_default()
    }

    pub(crate) fn blocks_mut(&mut self) -> &mut [Block] {
        <[Block]>::mut_from_bytes(self.0.as_mut_slice().as_mut_bytes()).unwrap_or_default()
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_slice().as_mut_bytes()
    }
}

/// A read in flight. Dropping it waits for the read, as the device writes to its memory.
pub struct Reading(State);

enum State {
    Over(io::Result<Buffer>),
    UnderWay(Request),
}

impl Reading {
    /// Reads synchronously.
    pub fn at_once(mut into: Buffer, read: impl FnOnce(&mut [Block]) -> io::Result<()>) -> Self {
        Self(State::Over(read(into.blocks_mut()).map(|()| into)))
    }

    pub(crate) fn under_way(request: Request) -> Self {
        Self(State::UnderWay(request))
    }

    /// Waits for the read and returns the buffer.
    pub fn wait(self) -> io::Result<Buffer> {
        match self.0 {
            State::Over(done) => done,
            State::UnderWay(request) => request.wait(),
        }
    }
}
