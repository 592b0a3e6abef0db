//! Zstandard frames, decoded by the C library or in Rust.
use crate::CodecError;

#[cfg(not(feature = "compress"))]
pub(crate) use decompress_portable as decompress;

/// With the C library.
#[cfg(feature = "compress")]
pub(crate) fn decompress(cdata: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
    use zstd_safe::zstd_sys::ZSTD_ErrorCode;
    /// The library returns errors as negated codes.
    const fn code(error: ZSTD_ErrorCode) -> usize {
        (error as usize).wrapping_neg()
    }
    const TOO_LONG: usize = code(ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall);
    const TRUNCATED: usize = code(ZSTD_ErrorCode::ZSTD_error_srcSize_wrong);
    zstd_safe::decompress(out, cdata).map_err(|code| match code {
        TOO_LONG => CodecError::TooLong,
        TRUNCATED => CodecError::Truncated,
        _ => CodecError::Malformed { at: None, why: zstd_safe::get_error_name(code) },
    })
}

#[cfg(not(feature = "ruzstd"))]
pub(crate) fn decompress_portable(_: &[u8], _: &mut [u8]) -> Result<usize, CodecError> {
    Err(CodecError::NotBuilt(crate::Algorithm::Zstd))
}

/// In Rust. The kernel's decoder too refuses a window larger than the cluster.
#[cfg(feature = "ruzstd")]
pub(crate) fn decompress_portable(cdata: &[u8], out: &mut [u8]) -> Result<usize, CodecError> {
    use ruzstd::decoding::FrameDecoder;
    use ruzstd::decoding::errors::{
        BlockHeaderReadError as Header, DecodeBlockContentError as Content, DecompressBlockError as Block,
        FrameDecoderError as Frame,
    };
    /// The smallest window of the format.
    const WINDOW_MIN: usize = 1024;
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(out.len().next_power_of_two().max(WINDOW_MIN) as u64);
    decoder.decode_all(cdata, out).map_err(|error| match error {
        Frame::TargetTooSmall => CodecError::TooLong,
        Frame::FailedToReadBlockHeader(Header::ReadError(_))
        | Frame::FailedToReadBlockBody(
            Content::ReadError { .. } | Content::DecompressBlockError(Block::BlockContentReadError(_)),
        ) => CodecError::Truncated,
        Frame::WindowSizeTooBig { .. } => malformed("the window is larger than the cluster"),
        Frame::ReadFrameHeaderError(_) | Frame::FrameHeaderError(_) => malformed("not a Zstandard frame"),
        _ => malformed("not a block of Zstandard"),
    })
}

#[cfg(feature = "ruzstd")]
fn malformed(why: &'static str) -> CodecError {
    CodecError::Malformed { at: None, why }
}
