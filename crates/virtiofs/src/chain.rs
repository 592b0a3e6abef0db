//! A chain of descriptors: buffers with the request, then buffers for the reply.
use segno_fuse::MalformedRequest;
use std::fmt;
use std::ops::Deref;
use vhost_user_backend::VringMutex;
use virtio_queue::DescriptorChain;
use vm_memory::{
    Bytes, GuestAddress, GuestMemory, GuestMemoryAtomic, GuestMemoryError, GuestMemoryLoadGuard,
    GuestMemoryMmap, Permissions,
};

pub(crate) type Memory = GuestMemoryAtomic<GuestMemoryMmap>;
pub(crate) type Vring = VringMutex<Memory>;
pub(crate) type Chain = DescriptorChain<GuestMemoryLoadGuard<GuestMemoryMmap>>;

/// What a driver must not do.
#[derive(Debug)]
pub(crate) enum Malformed {
    /// The chain does not end within its table.
    Endless,
    /// A buffer without bytes.
    Empty,
    /// A buffer of the request behind one of the reply.
    Order,
    /// More bytes than any request has.
    TooLong,
    /// A buffer that is not in the guest's memory.
    Outside {
        addr: GuestAddress,
        len: u32,
    },
    /// More requests at a time than the ring has entries.
    TooMany,
    Memory(GuestMemoryError),
    Ring(virtio_queue::Error),
    Request(MalformedRequest),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endless => f.write_str("a chain of descriptors does not end within its table"),
            Self::Empty => f.write_str("a buffer has no bytes"),
            Self::Order => f.write_str("a buffer to be read follows one to be written"),
            Self::TooLong => f.write_str("a request is longer than the maximum"),
            Self::Outside { addr, len } => {
                write!(f, "a buffer of {len} bytes at {:#x} is not in the guest's memory", addr.0)
            }
            Self::TooMany => f.write_str("more requests are in flight than the ring has entries"),
            Self::Memory(e) => write!(f, "guest memory: {e}"),
            Self::Ring(e) => write!(f, "ring: {e}"),
            Self::Request(e) => e.fmt(f),
        }
    }
}

impl From<GuestMemoryError> for Malformed {
    fn from(e: GuestMemoryError) -> Self {
        Self::Memory(e)
    }
}

impl From<virtio_queue::Error> for Malformed {
    fn from(e: virtio_queue::Error) -> Self {
        Self::Ring(e)
    }
}

impl From<MalformedRequest> for Malformed {
    fn from(e: MalformedRequest) -> Self {
        Self::Request(e)
    }
}

/// Buffers for a reply.
#[derive(Debug, Default)]
pub(crate) struct Room {
    buffers: Vec<(GuestAddress, u32)>,
    /// Bytes in all of them.
    pub(crate) bytes: usize,
}

/// Copies the request into `into`. Returns its length, and the room for the reply, all of it in the guest's memory.
pub(crate) fn read<M>(chain: &DescriptorChain<M>, into: &mut [u8]) -> Result<(usize, Room), Malformed>
where
    M: Deref + Clone,
    M::Target: GuestMemory + Sized,
{
    let memory = chain.memory();
    let (mut len, mut room, mut is_whole) = (0, Room::default(), false);
    // The iterator ends early at an index or table that is out of range, and after as many descriptors as the table has.
    for descriptor in chain.clone() {
        let (addr, bytes) = (descriptor.addr(), descriptor.len());
        is_whole = !descriptor.has_next();
        if bytes == 0 {
            return Err(Malformed::Empty);
        }
        let access = if descriptor.is_write_only() { Permissions::Write } else { Permissions::Read };
        if !memory.check_range(addr, bytes as usize, access) {
            return Err(Malformed::Outside { addr, len: bytes });
        }
        if descriptor.is_write_only() {
            room.buffers.push((addr, bytes));
            room.bytes = room.bytes.saturating_add(bytes as usize);
            continue;
        }
        if room.bytes > 0 {
            return Err(Malformed::Order);
        }
        let end = len + bytes as usize;
        memory.read_slice(into.get_mut(len..end).ok_or(Malformed::TooLong)?, addr)?;
        len = end;
    }
    if is_whole { Ok((len, room)) } else { Err(Malformed::Endless) }
}

impl Room {
    /// Copies a reply into the buffers; it is at most as long as they are.
    pub(crate) fn write<M: GuestMemory>(&self, memory: &M, reply: &[u8]) -> Result<(), Malformed> {
        let mut rest = reply;
        for &(addr, len) in &self.buffers {
            let (now, later) = rest.split_at(rest.len().min(len as usize));
            memory.write_slice(now, addr)?;
            rest = later;
        }
        Ok(())
    }
}
