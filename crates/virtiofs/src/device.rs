//! The device as presented to the monitor: features, rings, configuration. One thread of the vhost-user crate
//! takes requests from all rings; the pool's threads serve them and put the replies into the rings in any
//! order.
use crate::chain::{self, Chain, Malformed, Memory, Vring};
use crate::config::{REQUEST_QUEUES, Tag};
use crate::pool::{Job, Pool};
use segno_fuse::{Buffers, GuestServer};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use vhost::vhost_user::message::{VhostUserProtocolFeatures as Protocol, VhostUserVirtioFeatures};
use vhost_user_backend::{VhostUserBackend, VringT};
use virtio_queue::{QueueOwnedT, QueueT};
use vm_memory::{
    GuestAddressSpace, GuestMemoryAtomic, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap,
};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier};

/// One queue for FORGET and others of high priority, then those for requests.
pub(crate) const QUEUES: usize = 1 + REQUEST_QUEUES as usize;
/// Entries of a ring: enough for the 256 pages of the longest request.
const RING_MAX: usize = 1024;
/// Feature bits of virtio.
const RING_INDIRECT_DESC: u64 = 1 << 28;
const RING_EVENT_IDX: u64 = 1 << 29;
const VERSION_1: u64 = 1 << 32;

/// Why an export ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The monitor closed its connection.
    Disconnected,
    /// [`Stopper::stop`] was called.
    Stopped,
    /// The guest or its monitor broke a rule, or a resource was missing.
    Failed(String),
}

/// The device, shared by all threads.
pub(crate) struct Device {
    pub(crate) guest: GuestServer,
    pub(crate) pool: Pool,
    pub(crate) memory: Memory,
    tag: Option<Tag>,
    end: Sender<End>,
}

impl Device {
    pub(crate) fn new(guest: GuestServer, tag: Option<Tag>, end: Sender<End>) -> Self {
        Self {
            guest,
            pool: Pool::new(QUEUES),
            memory: GuestMemoryAtomic::new(GuestMemoryMmap::new()),
            tag,
            end,
        }
    }

    /// Ends the session.
    fn fail(&self, queue: usize, why: &Malformed) {
        self.pool.close();
        // The receiver is gone only after the session.
        let _ended = self.end.send(End::Failed(format!("queue {queue}: {why}")));
    }

    /// Takes all requests from a ring.
    fn take_requests(&self, queue: usize, vring: &Vring) -> Result<(), Malformed> {
        loop {
            {
                let mut state = vring.get_mut();
                if !state.get_queue().ready() || !state.is_enabled() {
                    return Ok(());
                }
                state.disable_notification()?;
            }
            while !self.pool.is_closed() {
                let Some(chain) = self.next_chain(vring)? else { break };
                let limit = vring.get_ref().get_queue().size().into();
                self.pool.push(Job { queue, chain, vring: vring.clone() }, limit)?;
            }
            if self.pool.is_closed() || !vring.get_mut().enable_notification()? {
                return Ok(());
            }
        }
    }

    fn next_chain(&self, vring: &Vring) -> Result<Option<Chain>, Malformed> {
        let memory = self.memory.memory();
        let mut state = vring.get_mut();
        let queue = state.get_queue_mut();
        if !queue.ready() || queue.avail_idx(&*memory, Ordering::Acquire)?.0 == queue.next_avail() {
            return Ok(None);
        }
        // An entry that cannot be read would be available forever.
        queue
            .iter(memory)?
            .next()
            .map(Some)
            .ok_or(Malformed::Ring(virtio_queue::Error::InvalidAvailRingIndex))
    }

    /// Serves requests until the session ends.
    pub(crate) fn work(&self, buffers: &mut Buffers) {
        while let Some(job) = self.pool.take() {
            let queue = job.queue;
            let served = self.serve(job, buffers);
            self.pool.complete(queue);
            if let Err(why) = served {
                self.fail(queue, &why);
            }
        }
    }

    fn serve(&self, job: Job, buffers: &mut Buffers) -> Result<(), Malformed> {
        let Job { chain, vring, .. } = job;
        let (len, room) = chain::read(&chain, buffers.request())?;
        let reply = self.guest.answer(buffers, len, room.bytes)?.unwrap_or_default();
        room.write(chain.memory(), reply)?;
        let mut state = vring.get_mut();
        // No reply is longer than 2 MiB.
        state.add_used(chain.head_index(), reply.len() as u32)?;
        if state.needs_notification()? {
            // Fails only if the monitor has closed its end, which ends the session.
            let _signalled = state.signal_used_queue();
        }
        Ok(())
    }
}

/// Whether a region lies entirely within the file that it maps. Devices, for example persistent memory, have
/// no length.
fn is_in_file(region: &GuestRegionMmap) -> bool {
    let Some(place) = region.file_offset() else { return false };
    let end = place.start().checked_add(region.len());
    place.file().metadata().is_ok_and(|meta| !meta.is_file() || end.is_some_and(|end| end <= meta.len()))
}

impl VhostUserBackend for Device {
    type Bitmap = ();
    type Vring = Vring;

    fn num_queues(&self) -> usize {
        QUEUES
    }

    fn max_queue_size(&self) -> usize {
        RING_MAX
    }

    fn features(&self) -> u64 {
        let protocol = VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits();
        VERSION_1 | RING_INDIRECT_DESC | RING_EVENT_IDX | protocol
    }

    fn protocol_features(&self) -> Protocol {
        let mut features = Protocol::MQ | Protocol::REPLY_ACK | Protocol::RESET_DEVICE;
        features.set(Protocol::CONFIG, self.tag.is_some());
        features
    }

    fn reset_device(&self) {
        self.pool.wait_until_idle(|_| true);
        self.guest.forget_all();
    }

    fn set_event_idx(&self, _: bool) {
        // The rings know.
    }

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        self.tag.map(|tag| tag.config(offset, size)).unwrap_or_default()
    }

    fn set_config(&self, _: u32, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::PermissionDenied.into())
    }

    fn update_memory(&self, _: Memory) -> io::Result<()> {
        // `self.memory` is the same object. An access past the end of a file would be a SIGBUS.
        if self.memory.memory().iter().all(is_in_file) {
            return Ok(());
        }
        self.pool.close();
        if let Ok(memory) = self.memory.lock() {
            memory.replace(GuestMemoryMmap::new());
        }
        let why = "the guest's memory is larger than the file that the monitor passed for it";
        // The receiver is gone only after the session.
        let _ended = self.end.send(End::Failed(format!("vhost-user: {why}")));
        Err(io::Error::other(why))
    }

    fn exit_event(&self, _: usize) -> Option<(EventConsumer, EventNotifier)> {
        new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC).ok()
    }

    fn stop_vring(&self, queue: u32) -> io::Result<()> {
        self.pool.wait_until_idle(|i| i == queue as usize);
        Ok(())
    }

    fn handle_event(&self, event: u16, _: EventSet, vrings: &[Vring], _: usize) -> io::Result<()> {
        let queue = usize::from(event);
        if let Some(Err(why)) = vrings.get(queue).map(|vring| self.take_requests(queue, vring)) {
            self.fail(queue, &why);
        }
        // An error would end the thread and leave the guest waiting.
        Ok(())
    }
}
