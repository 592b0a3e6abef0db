//! On which CPU and with which policy threads serve requests. A wakeup of an idle CPU takes longer than a small request,
//! in a virtual machine several times as long, so that most of the gain of a fast server is decided here:
//!
//! * a thread delivers a short reply at `SCHED_IDLE`, so that its caller continues on the CPU that both share
//! * threads of io_uring are bound to the CPU of their queue, except while they wait for a device
//! * threads on /dev/fuse are bound to the CPU of their caller while there is only one
//! * all have short time slices, so that a wakeup does not wait until another process has used up its slice
//!
//! Each part ends by itself where it would lose: slow deliveries pause the first, on which the third depends, and a wait
//! unbinds a thread. Nothing here changes what a request does; every call to the kernel may fail.
mod affinity;
mod colocation;
mod sched_idle;
mod slice;

use crate::wire::{InHeader, Opcode};
use affinity::Affinity;
use colocation::Colocation;
pub use sched_idle::permit_sched_idle;
use sched_idle::{IdlePolicy, ReplyThread};
use std::sync::Arc;

/// Largest transfer whose caller is taken to wait for the reply. Longer ones are readahead or writeback, after which the
/// thread should be ready for the next request.
pub(super) const PROMPT: usize = 16 << 10;

/// State shared by the threads of a session.
#[derive(Debug)]
pub(crate) struct Scheduling {
    policy: Arc<IdlePolicy>,
    colocation: Arc<Colocation>,
}

impl Scheduling {
    /// `idle`: threads may deliver replies at `SCHED_IDLE` if they can.
    pub(crate) fn new(idle: bool) -> Self {
        let policy = Arc::new(IdlePolicy::new(idle));
        Self { colocation: Arc::new(Colocation::new(policy.clone())), policy }
    }

    /// For the calling thread, which serves the queue of a CPU.
    pub(super) fn of_queue(&self, cpu: u16) -> QueueThread {
        // Without it requests are served, too, only later.
        let _shorter = slice::shorten();
        QueueThread { affinity: Affinity::new(cpu), replies: ReplyThread::new(self.policy.clone()) }
    }

    /// For the calling thread, one of those on /dev/fuse. It must not end before the others do.
    pub(super) fn of_device(&self) -> DeviceThread {
        let _shorter = slice::shorten();
        self.colocation.join();
        DeviceThread { colocation: self.colocation.clone(), replies: ReplyThread::new(self.policy.clone()) }
    }
}

/// A thread that serves the queue of a CPU.
#[derive(Debug)]
pub(super) struct QueueThread {
    affinity: Affinity,
    replies: ReplyThread,
}

impl QueueThread {
    /// Serves a request.
    pub(super) fn serve<R>(&self, head: &InHeader, request: impl FnOnce() -> R) -> R {
        // At SCHED_IDLE it would wait for every other thread once more when the device has answered.
        if is_sync(head) {
            self.replies.restore();
        }
        self.replies.serve(request)
    }

    /// Delivers a reply for which a caller waits.
    pub(super) fn deliver<R>(&self, submit: impl FnOnce() -> R) -> R {
        self.replies.deliver(submit)
    }

    /// The next reply is delivered with the next wait, as no caller waits for it.
    pub(super) fn deliver_later(&self) {
        self.replies.restore();
    }

    /// Prepares the wait for the next request. `submit` sends a pending reply before the thread migrates.
    pub(super) fn before_wait(&mut self, submit: impl FnOnce()) {
        if self.affinity.is_unbound() {
            submit();
            self.affinity.rebind();
        } else {
            self.affinity.count_request();
        }
    }
}

/// A thread on /dev/fuse.
#[derive(Debug)]
pub(super) struct DeviceThread {
    colocation: Arc<Colocation>,
    replies: ReplyThread,
}

impl DeviceThread {
    /// Serves a request.
    pub(super) fn serve<R>(&self, head: &InHeader, request: impl FnOnce() -> R) -> R {
        self.colocation.count(head);
        if !self.colocation.is_bound() {
            self.replies.restore();
        }
        self.replies.serve(request)
    }

    /// Delivers the reply to a request, which have some bytes together.
    pub(super) fn deliver<R>(&self, bytes: usize, send: impl FnOnce() -> R) -> R {
        if self.colocation.is_bound() && bytes <= PROMPT { self.replies.deliver(send) } else { send() }
    }
}

fn is_sync(head: &InHeader) -> bool {
    Opcode::from_wire(head.opcode).is_some_and(Opcode::is_sync)
}
