//! Asynchronous reads.
use crate::aio::Request;
use crate::aligned::Buffer;
use segno_format::Block;
use std::io;

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
