//! Anything that is read and written at a position after a seek, as a device.
use crate::{BlockDevice, bounds};
use parking_lot::Mutex;
use segno_format::{BLOCK_SIZE, Block};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use zerocopy::IntoBytes;

/// A device on the bytes of a stream, of which one thread at a time reads or writes. A last block that is not
/// whole is left out.
///
/// A flush is the stream's [`Write::flush`]. It makes writes durable if the stream's flush does.
pub struct StreamDevice<T> {
    stream: Mutex<T>,
    start: u64,
    block_count: u64,
    /// How it is written; `None` for reading only.
    writer: Option<Writer<T>>,
}

struct Writer<T> {
    write_all: fn(&mut T, &[u8]) -> io::Result<()>,
    flush: fn(&mut T) -> io::Result<()>,
}

impl<T: Read + Seek> StreamDevice<T> {
    /// A device for reading and writing, on the bytes of this range; an end beyond that of the stream is cut off.
    pub fn new(stream: T, bytes: Range<u64>) -> io::Result<Self>
    where
        T: Write,
    {
        let writer = Writer { write_all: T::write_all, flush: T::flush };
        Ok(Self { writer: Some(writer), ..Self::read_only(stream, bytes)? })
    }

    /// A device for reading, on the bytes of this range.
    pub fn read_only(mut stream: T, bytes: Range<u64>) -> io::Result<Self> {
        let len = stream.seek(SeekFrom::End(0))?.min(bytes.end).saturating_sub(bytes.start);
        let block_count = len / BLOCK_SIZE as u64;
        Ok(Self { stream: Mutex::new(stream), start: bytes.start, block_count, writer: None })
    }

    fn seek(&self, stream: &mut T, addr: u64) -> io::Result<()> {
        let at = self.start.saturating_add(addr.saturating_mul(BLOCK_SIZE as u64));
        stream.seek(SeekFrom::Start(at)).map(drop)
    }

    fn writer(&self) -> io::Result<&Writer<T>> {
        self.writer.as_ref().ok_or_else(|| io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

impl<T: Read + Seek + Send> BlockDevice for StreamDevice<T> {
    fn block_count(&self) -> u64 {
        self.block_count
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        bounds::check(self.block_count, addr, into.len() as u64)?;
        let mut stream = self.stream.lock();
        self.seek(&mut stream, addr)?;
        stream.read_exact(into.as_mut_bytes())
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        bounds::check(self.block_count, addr, blocks.len() as u64)?;
        let writer = self.writer()?;
        let mut stream = self.stream.lock();
        self.seek(&mut stream, addr)?;
        blocks.iter().try_for_each(|block| (writer.write_all)(&mut stream, block.as_bytes()))
    }

    fn flush(&self) -> io::Result<()> {
        match &self.writer {
            Some(writer) => (writer.flush)(&mut self.stream.lock()),
            None => Ok(()),
        }
    }

    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        bounds::check(self.block_count, addr, count)?;
        self.writer().map(drop)
    }

    fn read_only(&self) -> bool {
        self.writer.is_none()
    }
}
