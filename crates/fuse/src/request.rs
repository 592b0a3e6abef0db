//! A request: header, the structure of the operation, then names or data. Parsing accepts any bytes and never panics.
use crate::wire::{BatchForgetIn, ForgetIn, ForgetOne, InHeader, Opcode};
use rustix::io::Errno;
use zerocopy::FromBytes;

/// A request as received; its parts are parsed on demand.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its header.
    pub head: InHeader,
    /// The operation.
    pub opcode: Opcode,
    arg: &'a [u8],
    payload: &'a [u8],
}

/// A message that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// Shorter than a header: there is no request to reply to.
    Unreadable,
    /// To be answered with an error.
    Refused { unique: u64, errno: Errno },
}

impl<'a> Request<'a> {
    /// A request from its parts.
    pub(crate) fn new(head: InHeader, arg: &'a [u8], payload: &'a [u8]) -> Result<Self, Malformed> {
        match Opcode::from_wire(head.opcode) {
            Some(opcode) => Ok(Self { head, opcode, arg, payload }),
            None => Err(Malformed::Refused { unique: head.unique, errno: Errno::NOSYS }),
        }
    }

    /// A request from one contiguous message.
    pub(crate) fn from_message(message: &'a [u8]) -> Result<Self, Malformed> {
        let Ok((head, rest)) = InHeader::read_from_prefix(message) else { return Err(Malformed::Unreadable) };
        let whole = Self::new(head, rest, &[])?;
        let (arg, payload) = rest.split_at(whole.opcode.struct_len().min(rest.len()));
        Ok(Self { arg, payload, ..whole })
    }

    /// The structure of the operation.
    ///
    /// # Errors
    /// The message is shorter.
    pub fn arg<T: FromBytes>(&self) -> Result<T, Errno> {
        T::read_from_prefix(self.arg).map(|(t, _)| t).map_err(|_| Errno::INVAL)
    }

    /// The name after the structure.
    ///
    /// # Errors
    /// It does not end.
    pub fn name(&self) -> Result<&'a [u8], Errno> {
        split_name(self.payload).map(|(name, _)| name)
    }

    /// The two names after the structure.
    ///
    /// # Errors
    /// One of them does not end.
    pub fn names(&self) -> Result<(&'a [u8], &'a [u8]), Errno> {
        let (first, rest) = split_name(self.payload)?;
        Ok((first, split_name(rest)?.0))
    }

    /// A name and the data after it.
    pub(crate) fn name_and_data(&self, len: u32) -> Result<(&'a [u8], &'a [u8]), Errno> {
        let (name, rest) = split_name(self.payload)?;
        Ok((name, rest.get(..len as usize).ok_or(Errno::INVAL)?))
    }

    /// The first bytes after the structure.
    ///
    /// # Errors
    /// The message is shorter.
    pub fn data(&self, len: u32) -> Result<&'a [u8], Errno> {
        self.payload.get(..len as usize).ok_or(Errno::INVAL)
    }

    /// Nodes and the references to each that a FORGET or BATCH_FORGET gives back.
    ///
    /// # Errors
    /// The message is shorter.
    pub fn forgotten(&self) -> Result<impl Iterator<Item = (u64, u64)> + use<'a>, Errno> {
        let (one, count) = match self.opcode {
            Opcode::Forget => (Some((self.head.nodeid, self.arg::<ForgetIn>()?.nlookup)), 0),
            _ => (None, self.arg::<BatchForgetIn>()?.count as usize),
        };
        let each = self.payload.chunks_exact(size_of::<ForgetOne>()).take(count);
        let many = each.filter_map(|bytes| ForgetOne::read_from_bytes(bytes).ok());
        Ok(one.into_iter().chain(many.map(|f| (f.nodeid, f.nlookup))))
    }
}

/// Splits off a NUL-terminated name.
fn split_name(bytes: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    let end = bytes.iter().position(|&b| b == 0).ok_or(Errno::INVAL)?;
    let (name, rest) = bytes.split_at(end);
    Ok((name, rest.get(1..).unwrap_or_default()))
}
