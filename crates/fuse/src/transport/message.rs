//! Requests and replies as contiguous messages.
use super::memory::PAGE;
use crate::file_system::{Answer, FileSystem, answer};
use crate::request::{Malformed, Request};
use crate::wire::OutHeader;
use zerocopy::IntoBytes;

/// Size of a reply's header.
pub(crate) const HEAD: usize = size_of::<OutHeader>();

/// Builds the reply to a message in `out`.
pub(crate) fn reply_to<'a>(fs: &dyn FileSystem, message: &[u8], out: &'a mut [u8]) -> Option<&'a [u8]> {
    let (unique, answer) = match Request::from_message(message) {
        Ok(request) => (request.head.unique, answer(fs, &request, body(out)?)),
        Err(Malformed::Refused { unique, errno }) => (unique, Answer::Refusal(errno)),
        Err(Malformed::Unreadable) => return None,
    };
    finish(unique, answer, out)
}

/// Where the body of a reply is built: from the second page on, so that data is page-aligned.
pub(crate) fn body(out: &mut [u8]) -> Option<&mut [u8]> {
    out.get_mut(PAGE..)
}

/// Puts the header before the body. Returns the reply, if there is one.
pub(crate) fn finish(unique: u64, answer: Answer, out: &mut [u8]) -> Option<&[u8]> {
    let (len, error) = match answer {
        Answer::Nothing => return None,
        Answer::Body(len) => (len, 0),
        Answer::Refusal(errno) => (0, -errno.raw_os_error()),
    };
    let header = OutHeader { len: (HEAD + len) as u32, error, unique };
    let whole = out.get_mut(PAGE - HEAD..PAGE + len)?;
    whole.get_mut(..HEAD)?.copy_from_slice(header.as_bytes());
    Some(whole)
}
