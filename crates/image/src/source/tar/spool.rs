//! An archive as a file that can be read anywhere: the data of a stream is kept once, in a nameless file.
use crate::{Error, Result};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BUFFER: usize = 1 << 18;

/// Where an archive is read from.
pub(crate) struct Spool {
    pub(crate) name: PathBuf,
    from: From,
    /// Bytes of the archive read so far.
    pub(crate) at: u64,
}

enum From {
    /// The archive itself.
    File(BufReader<Arc<File>>),
    /// A stream, the number of its bytes before they are unpacked, and the file that keeps data of it.
    Stream { reader: Box<dyn Read + Send>, stored: Arc<AtomicU64>, kept: Arc<File>, len: u64 },
}

/// Counts bytes that were read.
struct Counted {
    stream: Box<dyn Read + Send>,
    bytes: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.stream.read(into)?;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Spool {
    /// Opens an archive; compressed ones are unpacked on the way.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let failed = |e| Error::host("read", path, e);
        let mut file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_file() {
            let head = head(&mut file).map_err(failed)?;
            file.rewind().map_err(failed)?;
            if packing(&head).is_none() {
                let reader = BufReader::with_capacity(BUFFER, Arc::new(file));
                return Ok(Self { name: path.to_owned(), from: From::File(reader), at: 0 });
            }
        }
        Self::of_stream(path, Box::new(file))
    }

    /// Reads an archive from a stream.
    pub(crate) fn of_stream(name: impl Into<PathBuf>, mut stream: Box<dyn Read + Send>) -> Result<Self> {
        let name = name.into();
        let head = head(&mut stream).map_err(|e| Error::host("read", &name, e))?;
        let packing = packing(&head);
        let stored = Arc::new(AtomicU64::new(0));
        let stream = Box::new(io::Cursor::new(head).chain(stream));
        let stream = Box::new(Counted { stream, bytes: Arc::clone(&stored) });
        let reader: Box<dyn Read + Send> = match packing {
            Some(Packing::Gzip) => Box::new(flate2::read::MultiGzDecoder::new(stream)),
            Some(Packing::Other(tool)) => return Err(unpack_first(&name, tool)),
            None => stream,
        };
        let kept = tempfile::tempfile().map_err(|e| Error::host("make a temporary file for", &name, e))?;
        Ok(Self { name, from: From::Stream { reader, stored, kept: Arc::new(kept), len: 0 }, at: 0 })
    }

    /// Bytes of the archive as it is stored that were read so far.
    pub(crate) fn stored(&self) -> u64 {
        match &self.from {
            From::File(_) => self.at,
            From::Stream { stored, .. } => stored.load(Ordering::Relaxed),
        }
    }

    /// Fills a buffer; false at the end of the archive, and an error within it.
    pub(crate) fn fill(&mut self, into: &mut [u8]) -> Result<bool, String> {
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|r| !r.is_empty()) {
            let read = match &mut self.from {
                From::File(reader) => reader.read(rest),
                From::Stream { reader, .. } => reader.read(rest),
            };
            match read {
                Ok(0) if done == 0 => return Ok(false),
                Ok(0) => return Err("the archive ends in the middle of an entry".into()),
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.to_string()),
            }
        }
        self.at += done as u64;
        Ok(true)
    }

    /// Skips data that will be read later: the file with it, and where it begins there.
    pub(crate) fn keep(&mut self, len: u64) -> Result<(Arc<File>, u64), String> {
        let broken = "the archive ends before the data of this entry";
        let place = match &mut self.from {
            From::File(reader) => {
                let file = Arc::clone(reader.get_ref());
                let end = file.metadata().map_err(|e| e.to_string())?.len();
                if self.at.checked_add(len).is_none_or(|to| to > end) {
                    return Err(broken.into());
                }
                let skip = i64::try_from(len).map_err(|_| broken)?;
                reader.seek_relative(skip).map_err(|e| e.to_string())?;
                (file, self.at)
            }
            From::Stream { reader, kept, len: kept_len, .. } => {
                let copied = io::copy(&mut reader.take(len), &mut &**kept).map_err(|e| e.to_string())?;
                if copied != len {
                    return Err(broken.into());
                }
                let start = *kept_len;
                *kept_len += len;
                (Arc::clone(kept), start)
            }
        };
        self.at += len;
        Ok(place)
    }

    /// Skips data that is not needed.
    pub(crate) fn skip(&mut self, len: u64) -> Result<(), String> {
        if let From::Stream { reader, .. } = &mut self.from {
            let skipped = io::copy(&mut reader.take(len), &mut io::sink()).map_err(|e| e.to_string())?;
            self.at += skipped;
            return if skipped == len {
                Ok(())
            } else {
                Err("the archive ends in the middle of an entry".into())
            };
        }
        self.keep(len).map(drop)
    }
}

fn unpack_first(name: &Path, tool: &str) -> Error {
    let name = name.display();
    let how = format!("`{tool} -dc ARCHIVE | segno build - IMAGE`");
    Error::Options(format!("{name} is compressed with {tool}, which is not read: use {how}"))
}

/// How an archive is compressed.
enum Packing {
    Gzip,
    /// With this tool.
    Other(&'static str),
}

/// Tells it from the first bytes.
fn packing(head: &[u8]) -> Option<Packing> {
    match head {
        [0x1F, 0x8B, ..] => Some(Packing::Gzip),
        [0x28, 0xB5, 0x2F, 0xFD, ..] => Some(Packing::Other("zstd")),
        [0xFD, b'7', b'z', b'X', b'Z', 0] => Some(Packing::Other("xz")),
        _ => None,
    }
}

/// The first bytes of a file or a stream.
fn head(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    from.take(6).read_to_end(&mut head)?;
    Ok(head)
}
