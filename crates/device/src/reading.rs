//! Reads that go on while their caller does something else.
use crate::aio::Request;
use crate::aligned::{self, Aligned};
use segno_format::Block;
use std::io;
use zerocopy::{FromBytes, IntoBytes};

/// Memory for consecutive blocks, where a device can write to without the page cache. Made once and used for one read after
/// the other.
pub struct Buffer(Vec<Aligned>);

impl Buffer {
    /// Room for so many blocks.
    #[must_use]
    pub fn new(blocks: usize) -> Self {
        Self(aligned::zeroed(blocks))
    }

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

/// Blocks on their way from a device. Dropping it waits for them, as the device writes to memory that belongs to it.
pub struct Reading(State);

enum State {
    Over(io::Result<Buffer>),
    UnderWay(Request),
}

impl Reading {
    /// A read that was made at once.
    pub fn at_once(mut into: Buffer, read: impl FnOnce(&mut [Block]) -> io::Result<()>) -> Self {
        Self(State::Over(read(into.blocks_mut()).map(|()| into)))
    }

    pub(crate) fn under_way(request: Request) -> Self {
        Self(State::UnderWay(request))
    }

    /// The buffer with the blocks in it.
    pub fn wait(self) -> io::Result<Buffer> {
        match self.0 {
            State::Over(done) => done,
            State::UnderWay(request) => request.wait(),
        }
    }
}
