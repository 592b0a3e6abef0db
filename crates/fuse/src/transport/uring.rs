//! Requests through io_uring (Linux 6.14). The kernel has one queue per CPU and puts a request into the queue
//! of its caller's CPU. A worker serves one entry of a queue: a thread bound to that CPU, with a private
//! ring. The entry is available exactly while the thread is idle, so a thread that waits for the disk does
//! not delay other requests. The kernel prefers the entry returned last, so a single client is served by one
//! thread with warm caches.
use super::memory::{Buffer, PAGE};
use super::scheduling::{PROMPT, QueueThread, Scheduling};
use crate::file_system::{self, Answer, FileSystem};
use crate::request::{Malformed, Request};
use crate::wire::{InHeader, Opcode, OutHeader, RingEntry, WRITE_CACHE, WriteIn};
use io_uring::register::Restriction;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use zerocopy::{FromBytes, IntoBytes};

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
/// Layout of the header page: header in and out, the operation's structure, the state of the entry. The
/// description of the two buffers follows; its place is not given by the protocol.
const ARG_AT: usize = 128;
const ENTRY_AT: usize = 256;
const HEADER_LEN: usize = ENTRY_AT + size_of::<RingEntry>();
const BUFFERS_AT: usize = 512;
/// The only file in the ring's file table, /dev/fuse.
const DEVICE: types::Fixed = types::Fixed(0);
/// Index of the field `len` in a submission, in 32-bit words.
const SQE_LEN_WORD: usize = 6;
/// Size of the buffer for replies to WRITE, whose data occupies the payload buffer.
const SMALL: usize = 256;

/// One thread and its entry of a queue.
pub(crate) struct Worker {
    queue: u16,
    ring: IoUring<Entry128, cqueue::Entry>,
    /// A page for headers, then the payload.
    memory: Buffer,
    /// Copy of the request's names: the reply is built in the buffer they arrive in.
    names: Vec<u8>,
    /// The command to submit: operation and commit id.
    command: (u32, u64),
    thread: QueueThread,
    /// The last request had cached pages to write.
    writes_back: bool,
}

/// Meaning of a completion.
enum Completion {
    Request,
    Retry,
    End,
}

/// A ring that is not enabled yet, and that will accept only commands to its registered files: a filter of
/// system calls does not inspect the operations of a ring.
fn restricted() -> io::Result<IoUring<Entry128, cqueue::Entry>> {
    let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_r_disabled().build(2)?;
    ring.submitter().register_restrictions(&mut [
        Restriction::sqe_op(opcode::UringCmd80::CODE),
        Restriction::sqe_flags_allowed(squeue::Flags::FIXED_FILE.bits()),
        Restriction::sqe_flags_required(squeue::Flags::FIXED_FILE.bits()),
    ])?;
    Ok(ring)
}

/// Enables a ring to serve this connection.
fn enable(ring: &IoUring<Entry128, cqueue::Entry>, dev: &OwnedFd) -> io::Result<()> {
    let submitter = ring.submitter();
    submitter.register_files(&[dev.as_raw_fd()])?;
    submitter.register_enable_rings()
}

impl Worker {
    /// Makes an entry for the queue of a CPU. Called by the thread that serves it.
    pub(crate) fn new(queue: u16, payload: usize, scheduling: &Scheduling) -> io::Result<Self> {
        let thread = scheduling.of_queue(queue);
        let ring = restricted()?;
        let mut memory = Buffer::new(PAGE + payload)?;
        let at = memory.address().expose_provenance();
        let buffers = [at, HEADER_LEN, at + PAGE, payload];
        let place = memory.bytes().get_mut(BUFFERS_AT..BUFFERS_AT + size_of_val(&buffers));
        place.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(buffers.as_bytes());
        Ok(Self {
            queue,
            ring,
            memory,
            names: Vec::new(),
            command: (REGISTER, 0),
            thread,
            writes_back: false,
        })
    }

    /// Registers the entry with the kernel; `false` if the mount has ended already. Any other immediate completion is an
    /// error: requests arrive later only.
    pub(crate) fn register(&mut self, dev: &OwnedFd) -> io::Result<bool> {
        enable(&self.ring, dev)?;
        self.push()?;
        self.ring.submit()?;
        let Some(result) = self.ring.completion().next().map(|done| done.result()) else { return Ok(true) };
        match completion(result)? {
            Completion::End => Ok(false),
            Completion::Request | Completion::Retry => Err(io::Error::from_raw_os_error(-result)),
        }
    }

    /// Serves until the mount ends.
    pub(crate) fn serve(mut self, fs: &dyn FileSystem) -> io::Result<()> {
        loop {
            match completion(self.wait()?)? {
                Completion::End => return Ok(()),
                Completion::Retry => {}
                Completion::Request => {
                    let (commit_id, prompt) = self.serve_one(fs);
                    self.command = (COMMIT_AND_FETCH, commit_id);
                    if prompt {
                        self.push()?;
                        // An entry that is not submitted now is submitted with the wait.
                        let _submitted = self.thread.deliver(|| self.ring.submit());
                        continue;
                    }
                    self.thread.deliver_later();
                }
            }
            self.push()?;
        }
    }

    /// Submits the pushed entry and waits for a completion.
    fn wait(&mut self) -> io::Result<i32> {
        self.thread.before_wait(|| drop(self.ring.submit()));
        loop {
            match self.ring.submit_and_wait(1) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
            if let Some(done) = self.ring.completion().next() {
                return Ok(done.result());
            }
        }
    }

    fn push(&mut self) -> io::Result<()> {
        let (operation, commit_id) = self.command;
        let mut area = [0; 80];
        for (at, bytes) in [(8, commit_id.as_bytes()), (16, self.queue.as_bytes())] {
            area.get_mut(at..at + bytes.len()).into_iter().for_each(|place| place.copy_from_slice(bytes));
        }
        let buffers = self.memory.address().addr() + BUFFERS_AT;
        let mut entry =
            opcode::UringCmd80::new(DEVICE, operation).cmd(area).addr(Some(buffers as u64)).build();
        // SAFETY: an entry has the layout of the kernel's submission, 128 bytes; word 6 is `len`, for which the crate has no
        // setter.
        unsafe { (&raw mut entry).cast::<u32>().add(SQE_LEN_WORD).write(2) };
        // SAFETY: the entry names the descriptor in slot 0 and the two buffers in `memory`, which live as long as the
        // ring; nothing refers to their bytes until the completion.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    /// Serves the request in the entry and replaces it by the reply. Returns the commit id and whether a caller is taken to
    /// wait for the reply.
    fn serve_one(&mut self, fs: &dyn FileSystem) -> (u64, bool) {
        let (head_page, payload) = self.memory.bytes().split_at_mut(PAGE);
        let (Ok((head, _)), Some(Ok((mut entry, _)))) = (
            InHeader::read_from_prefix(head_page),
            head_page.get(ENTRY_AT..).map(RingEntry::read_from_prefix),
        ) else {
            return (0, true);
        };
        let arg = head_page.get(ARG_AT..ENTRY_AT).unwrap_or_default();
        let sent = entry.payload_sz as usize;
        let write = (head.opcode == Opcode::Write as u32).then_some(arg);
        // Of several WRITEs of cached pages in a row, a caller waits for no more than the last one.
        let writes_back = write.is_some_and(|arg| {
            WriteIn::read_from_prefix(arg).is_ok_and(|(write, _)| write.write_flags & WRITE_CACHE != 0)
        });
        let answer = if write.is_some() {
            let mut small = [0; SMALL];
            let data = payload.get(..sent).unwrap_or_default();
            let answer = self.thread.serve(&head, || answer(fs, head, arg, data, &mut small));
            payload.iter_mut().zip(small).for_each(|(to, from)| *to = from);
            answer
        } else {
            self.names.clear();
            self.names.extend_from_slice(payload.get(..sent).unwrap_or_default());
            self.thread.serve(&head, || answer(fs, head, arg, &self.names, payload))
        };
        let (len, error) = match answer {
            Answer::Nothing => (0, 0),
            Answer::Body(len) => (len, 0),
            Answer::Refusal(errno) => (0, -errno.raw_os_error()),
        };
        entry.payload_sz = len as u32;
        let header = OutHeader { len: (size_of::<OutHeader>() + len) as u32, error, unique: head.unique };
        // The page is longer than either.
        let _fits = header.write_to_prefix(head_page);
        let _fits = head_page.get_mut(ENTRY_AT..).map(|place| entry.write_to_prefix(place));
        let prompt = sent + len <= PROMPT && !(writes_back && self.writes_back);
        self.writes_back = writes_back;
        (entry.commit_id, prompt)
    }
}

fn answer(fs: &dyn FileSystem, head: InHeader, arg: &[u8], payload: &[u8], out: &mut [u8]) -> Answer {
    match Request::new(head, arg, payload) {
        Ok(request) => file_system::answer(fs, &request, out),
        Err(Malformed::Refused { errno, .. }) => Answer::Refusal(errno),
        Err(Malformed::Unreadable) => Answer::Refusal(Errno::INVAL),
    }
}

fn completion(result: i32) -> io::Result<Completion> {
    if result >= 0 {
        return Ok(Completion::Request);
    }
    match Errno::from_raw_os_error(-result) {
        Errno::NOTCONN | Errno::CONNABORTED => Ok(Completion::End),
        Errno::AGAIN | Errno::INTR => Ok(Completion::Retry),
        e => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::squeue::Flags;
    use std::fs::File;

    /// The result of one operation on a ring that was enabled for /dev/null.
    fn carried_out(operation: Entry128) -> Option<i32> {
        let Ok(mut ring) = restricted() else {
            eprintln!("NOT TESTED: no ring can be made here");
            return None;
        };
        enable(&ring, &File::open("/dev/null").unwrap().into()).unwrap();
        // SAFETY: the operations of this test name no memory.
        unsafe { ring.submission().push(&operation).unwrap() };
        ring.submit_and_wait(1).unwrap();
        Some(ring.completion().next().unwrap().result())
    }

    #[test]
    fn a_ring_carries_nothing_but_commands_to_its_connection() {
        let close = opcode::Close::new(types::Fd(0)).build();
        let command = opcode::UringCmd80::new(DEVICE, REGISTER).build();
        let other = opcode::UringCmd80::new(types::Fd(0), REGISTER).build();
        let denied = -Errno::ACCESS.raw_os_error();
        for (operation, result) in [
            (opcode::Nop::new().build().into(), denied),
            (close.into(), denied),
            (other, denied),
            (command.clone().flags(Flags::ASYNC), denied),
            // /dev/null takes any.
            (command, 0),
        ] {
            let Some(found) = carried_out(operation) else { return };
            assert_eq!(found, result);
        }
    }

    #[test]
    fn an_enabled_ring_cannot_be_changed() {
        let Ok(ring) = restricted() else { return eprintln!("NOT TESTED: no ring can be made here") };
        let null = File::open("/dev/null").unwrap();
        enable(&ring, &null.try_clone().unwrap().into()).unwrap();
        assert_eq!(
            ring.submitter().register_files_update(0, &[null.as_raw_fd()]).unwrap_err().kind(),
            io::ErrorKind::PermissionDenied
        );
        assert!(ring.submitter().unregister_files().is_err());
    }
}
