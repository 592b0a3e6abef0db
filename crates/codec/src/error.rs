//! Why compressed data cannot be decoded.
use crate::algorithm::Algorithm;
use core::fmt;

/// Why compressed data could not be decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The decoder is a feature that was not built in.
    #[error("{0} is not built in")]
    NotBuilt(Algorithm),
    /// The data stops in the middle of the stream.
    #[error("compressed data ends before its stream does")]
    Truncated,
    /// The stream holds more than the output has room for.
    #[error("compressed data decodes to more than one cluster")]
    TooLong,
    /// The stream holds less than the output has room for.
    #[error("compressed data decodes to {len} bytes, the cluster has {expected}")]
    TooShort {
        /// Bytes the stream decodes to.
        len: usize,
        /// Bytes it has to decode to.
        expected: usize,
    },
    /// The data is not a stream of its algorithm.
    #[error("malformed compressed data{}: {why}", Offset(*at))]
    Malformed {
        /// Offset in the compressed data at which the error was noticed, if the decoder reports it.
        at: Option<usize>,
        /// The rule that is broken.
        why: &'static str,
    },
}

struct Offset(Option<usize>);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |at| write!(f, " before byte {at}"))
    }
}
