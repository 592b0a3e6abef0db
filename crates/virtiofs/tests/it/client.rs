//! A monitor with one guest: memory, rings, and a driver's accesses to them.
use std::path::Path;
use std::sync::atomic::Ordering;
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

pub const NEXT: u16 = 1;
pub const WRITABLE: u16 = 2;
pub const INDIRECT: u16 = 4;

pub const HIPRIO: usize = 0;
pub const REQUESTS: usize = 1;
/// Entries of each ring.
pub const SIZE: u16 = 128;

/// Where the guest's memory is, and the parts of it.
pub const MEMORY: u64 = 0x10_0000;
pub const MEMORY_LEN: u64 = 8 << 20;
const RING_LEN: u64 = 0x4000;
const AVAIL: u64 = 0x1000;
const USED: u64 = 0x2000;
pub const TABLE: u64 = MEMORY + 0x1_0000;
pub const REQUEST: u64 = MEMORY + 0x2_0000;
pub const REPLY: u64 = MEMORY + 0x40_0000;
/// Longest piece of a buffer.
const PIECE: usize = 0x8000;

#[derive(Clone, Copy, Debug, Default)]
pub struct Descriptor {
    pub addr: u64,
    pub len: u32,
    pub flags: u16,
    pub next: u16,
}

struct Ring {
    avail: u16,
    used: u16,
    kick: EventFd,
    call: EventFd,
}

pub struct Client {
    pub frontend: Frontend,
    pub memory: GuestMemoryMmap,
    rings: [Ring; 2],
    /// Chains are in an indirect table.
    pub indirect: bool,
}

impl Client {
    /// Connects, and sets up memory and rings.
    pub fn connect(socket: &Path) -> Self {
        let mut frontend = Frontend::connect(socket, 2).unwrap();
        let memory = memory();
        frontend.set_owner().unwrap();
        let features = frontend.get_features().unwrap();
        let protocol = frontend.get_protocol_features().unwrap();
        assert!(protocol.contains(VhostUserProtocolFeatures::MQ | VhostUserProtocolFeatures::REPLY_ACK));
        frontend.set_features(features).unwrap();
        frontend.set_protocol_features(protocol).unwrap();
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        assert!(frontend.get_queue_num().unwrap() >= 2);
        let ring =
            || Ring { avail: 0, used: 0, kick: EventFd::new(0).unwrap(), call: EventFd::new(0).unwrap() };
        let mut client = Self { frontend, memory, rings: [ring(), ring()], indirect: false };
        client.start();
        client
    }

    /// Passes memory and rings to the device, as after a reset of the guest.
    pub fn start(&mut self) {
        let region = self.memory.find_region(GuestAddress(MEMORY)).unwrap();
        let info = VhostUserMemoryRegionInfo::from_guest_region(region).unwrap();
        self.frontend.set_mem_table(&[info]).unwrap();
        for (i, ring) in self.rings.iter_mut().enumerate() {
            (ring.avail, ring.used) = (0, 0);
            self.memory.write_slice(&[0; RING_LEN as usize], GuestAddress(base(i))).unwrap();
            let host = |at| self.memory.get_host_address(GuestAddress(base(i) + at)).unwrap() as u64;
            let config = VringConfigData {
                queue_max_size: SIZE,
                queue_size: SIZE,
                flags: 0,
                desc_table_addr: host(0),
                used_ring_addr: host(USED),
                avail_ring_addr: host(AVAIL),
                log_addr: None,
            };
            self.frontend.set_vring_num(i, SIZE).unwrap();
            self.frontend.set_vring_addr(i, &config).unwrap();
            self.frontend.set_vring_base(i, 0).unwrap();
            self.frontend.set_vring_call(i, &ring.call).unwrap();
            self.frontend.set_vring_kick(i, &ring.kick).unwrap();
            self.frontend.set_vring_enable(i, true).unwrap();
        }
    }

    /// Stops the rings, as a monitor does when the guest resets.
    pub fn stop(&mut self) {
        for i in [HIPRIO, REQUESTS] {
            self.frontend.set_vring_enable(i, false).unwrap();
            self.frontend.get_vring_base(i).unwrap();
        }
    }

    /// Sends a request and waits for the reply.
    pub fn call(&mut self, request: &[u8]) -> Vec<u8> {
        self.call_on(REQUESTS, request, 0x10_1000)
    }

    /// Sends a request that has up to `room` bytes of reply.
    pub fn call_on(&mut self, queue: usize, request: &[u8], room: usize) -> Vec<u8> {
        self.memory.write_slice(request, GuestAddress(REQUEST)).unwrap();
        let chain = chain(request.len(), room);
        self.offer(queue, &chain);
        let len = self.wait(queue);
        let mut reply = vec![0; len as usize];
        self.memory.read_slice(&mut reply, GuestAddress(REPLY)).unwrap();
        reply
    }

    /// Puts a chain into the ring, from its first entry on.
    pub fn offer(&mut self, queue: usize, chain: &[Descriptor]) {
        if self.indirect {
            self.store(TABLE, chain);
            let len = (chain.len() * 16) as u32;
            self.store(base(queue), &[Descriptor { addr: TABLE, len, flags: INDIRECT, next: 0 }]);
        } else {
            self.store(base(queue), chain);
        }
        self.publish(queue, 0);
    }

    /// Writes a table of descriptors.
    pub fn store(&self, at: u64, table: &[Descriptor]) {
        for (i, d) in table.iter().enumerate() {
            let bytes: Vec<u8> = [&d.addr.to_le_bytes()[..], &d.len.to_le_bytes()]
                .into_iter()
                .chain([&d.flags.to_le_bytes()[..], &d.next.to_le_bytes()])
                .flatten()
                .copied()
                .collect();
            self.memory.write_slice(&bytes, GuestAddress(at + i as u64 * 16)).unwrap();
        }
    }

    /// The table of a ring.
    pub fn table(queue: usize) -> u64 {
        base(queue)
    }

    /// Makes the chain at an index available.
    pub fn publish(&mut self, queue: usize, head: u16) {
        let ring = &mut self.rings[queue];
        let slot = base(queue) + AVAIL + 4 + u64::from(ring.avail % SIZE) * 2;
        self.memory.write_obj(head.to_le(), GuestAddress(slot)).unwrap();
        ring.avail = ring.avail.wrapping_add(1);
        let next = ring.avail;
        self.set_avail(queue, next);
    }

    /// Sets the index of the next available entry, and kicks.
    pub fn set_avail(&mut self, queue: usize, index: u16) {
        let ring = &mut self.rings[queue];
        // The device signals when the next entry is used.
        let event = GuestAddress(base(queue) + AVAIL + 4 + u64::from(SIZE) * 2);
        self.memory.write_obj(ring.used.to_le(), event).unwrap();
        self.memory.store(index.to_le(), GuestAddress(base(queue) + AVAIL + 2), Ordering::Release).unwrap();
        ring.kick.write(1).unwrap();
    }

    /// Waits until the device has used an entry. Returns the length that it has written.
    pub fn wait(&mut self, queue: usize) -> u32 {
        let ring = &mut self.rings[queue];
        let index = GuestAddress(base(queue) + USED + 2);
        loop {
            let used: u16 = self.memory.load(index, Ordering::Acquire).unwrap();
            if u16::from_le(used) != ring.used {
                break;
            }
            ring.call.read().unwrap();
        }
        let slot = base(queue) + USED + 4 + u64::from(ring.used % SIZE) * 8;
        ring.used = ring.used.wrapping_add(1);
        u32::from_le(self.memory.read_obj(GuestAddress(slot + 4)).unwrap())
    }

    /// Bytes of the configuration space.
    pub fn config(&mut self, offset: u32, size: u32) -> Vec<u8> {
        let flags = VhostUserConfigFlags::WRITABLE;
        self.frontend.get_config(offset, size, flags, &vec![0; size as usize]).unwrap().1
    }
}

fn base(queue: usize) -> u64 {
    MEMORY + queue as u64 * RING_LEN
}

fn memory() -> GuestMemoryMmap {
    let file = tempfile::tempfile().unwrap();
    file.set_len(MEMORY_LEN).unwrap();
    let range = (GuestAddress(MEMORY), MEMORY_LEN as usize, Some(FileOffset::new(file, 0)));
    GuestMemoryMmap::from_ranges_with_files([range]).unwrap()
}

/// A chain as drivers make it: the header, the rest in pieces, then pieces for the reply.
pub fn chain(request: usize, room: usize) -> Vec<Descriptor> {
    let mut pieces = vec![(REQUEST, request.min(40), 0)];
    let mut add = |start: u64, from: usize, to: usize, flags| {
        for at in (from..to).step_by(PIECE) {
            pieces.push((start + at as u64, PIECE.min(to - at), flags));
        }
    };
    add(REQUEST, 40, request, 0);
    add(REPLY, 0, room.min(16), WRITABLE);
    add(REPLY, 16, room, WRITABLE);
    let last = pieces.len() - 1;
    let link = |(i, (addr, len, flags)): (usize, (u64, usize, u16))| {
        let flags = if i < last { flags | NEXT } else { flags };
        Descriptor { addr, len: len as u32, flags, next: i as u16 + 1 }
    };
    pieces.into_iter().enumerate().map(link).collect()
}
