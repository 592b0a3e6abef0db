//! Collects the content of an answer within a bound.
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt};
use object_store::{Error, GetResult, GetResultPayload};

/// Bytes reserved before the first chunk arrives: enough for a data object with its checksums.
const RESERVED: usize = 9 << 20;

/// The content of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Bytes(Bytes),
    /// It is longer than allowed, or than announced.
    Long,
    /// This process has no memory for it.
    NoMemory,
}

/// Collects the content of an answer of up to `most` bytes. Of a longer one nothing is kept.
pub(crate) async fn content(found: GetResult, most: u64) -> Result<Content, Error> {
    let announced = found.range.end.saturating_sub(found.range.start);
    let (Ok(len), true) = (usize::try_from(announced), announced <= most) else { return Ok(Content::Long) };
    match found.payload {
        GetResultPayload::Stream(chunks) => collect(chunks, len, len.min(RESERVED)).await,
        // A file is read up to the end of the range.
        GetResultPayload::File(..) => Ok(Content::Bytes(found.bytes().await?)),
    }
}

/// Collects chunks of up to `most` bytes; memory for the first `reserved` is taken at once.
pub(crate) async fn collect<E>(
    mut chunks: impl Stream<Item = Result<Bytes, E>> + Unpin,
    most: usize,
    reserved: usize,
) -> Result<Content, E> {
    let mut all = Vec::new();
    if all.try_reserve_exact(reserved).is_err() {
        return Ok(Content::NoMemory);
    }
    while let Some(chunk) = chunks.try_next().await? {
        if chunk.len() > most - all.len() {
            return Ok(Content::Long);
        }
        if all.try_reserve(chunk.len()).is_err() {
            return Ok(Content::NoMemory);
        }
        all.extend_from_slice(&chunk);
    }
    Ok(Content::Bytes(all.into()))
}
