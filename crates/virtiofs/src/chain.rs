//! A chain of descriptors: buffers with the request, then buffers for the reply.
use segno_fuse::MalformedRequest;
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

/// A violation of the protocol by the driver.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("a chain of descriptors does not end within its table")]
    Endless,
    #[error("a buffer has no bytes")]
    Empty,
    #[error("a buffer to be read follows one to be written")]
    Order,
    #[error("a request is longer than the maximum")]
    TooLong,
    #[error("a buffer of {len} bytes at {:#x} is not in the guest's memory", addr.0)]
    Outside { addr: GuestAddress, len: u32 },
    #[error("more requests are in flight than the ring has entries")]
    TooMany,
    #[error("guest memory: {0}")]
    Memory(#[from] GuestMemoryError),
    #[error("ring: {0}")]
    Ring(#[from] virtio_queue::Error),
    #[error(transparent)]
    Request(#[from] MalformedRequest),
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
    // The iterator ends early at an index or table that is out of range, and after as many descriptors as the
    // table has.
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
