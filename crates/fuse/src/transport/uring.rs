//! Requests through io_uring (Linux 6.14). The kernel has a queue for each CPU and puts a request into that of its
//! caller; a seat is a place in a queue: one thread, pinned to that CPU, with a ring and one entry. An entry is
//! available exactly while its thread is idle, so a thread that waits for the disk holds nobody up, and as the kernel
//! prefers the entry that was given back last, one client keeps one thread hot.
use super::home::Home;
use super::memory::{Buffer, PAGE};
use super::way::{Place, Way};
use crate::request::{Malformed, Request};
use crate::server::{Answer, Server};
use crate::wire::{InHeader, Opcode, OutHeader, RingEntry};
use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
/// Division of the header page: header in and out, the operation's structure, what is told about the entry; behind
/// that, of our own choice, the description of the two buffers.
const ARG_AT: usize = 128;
const ENTRY_AT: usize = 256;
const HEADER_LEN: usize = ENTRY_AT + size_of::<RingEntry>();
const BUFFERS_AT: usize = 512;
/// The file table of the ring has /dev/fuse only.
const DEVICE: types::Fixed = types::Fixed(0);
/// Where the 32-bit field `len` is in a submission, in words.
const SQE_LEN_WORD: usize = 6;
/// Bodies other than data to read are built here, as names and data to write come in the buffer that the reply needs.
const SMALL: usize = 256;
/// Somebody waits for a reply to a request that moved no more bytes than this. What is longer is read ahead or written
/// back, and the thread should be ready for the next.
const PROMPT: usize = 16 << 10;

/// See the module.
pub struct Seat {
    queue: u16,
    ring: IoUring<Entry128, cqueue::Entry>,
    /// A page for headers, then the payload.
    memory: Buffer,
    /// Names come in the buffer that the reply is built in, and move here first.
    names: Vec<u8>,
    /// The command that the kernel has: operation and commit id.
    command: (u32, u64),
    place: Place,
    home: Home,
}

/// What a completion means.
enum Turn {
    Request,
    Again,
    End,
}

impl Seat {
    /// A place in the queue of a CPU. Called by the thread that serves it.
    pub fn new(queue: u16, payload: usize, way: Arc<Way>) -> io::Result<Self> {
        let home = Home::on(queue);
        let ring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(2)?;
        let mut memory = Buffer::new(PAGE + payload)?;
        let at = memory.address().expose_provenance();
        let buffers = [at, HEADER_LEN, at + PAGE, payload];
        let place = memory.bytes().get_mut(BUFFERS_AT..BUFFERS_AT + size_of_val(&buffers));
        place.ok_or(io::ErrorKind::InvalidInput)?.copy_from_slice(buffers.as_bytes());
        let place = Place::new(way);
        Ok(Self { queue, ring, memory, names: Vec::new(), command: (REGISTER, 0), place, home })
    }

    /// Makes the place known to the kernel. What completes at once is a refusal: requests come only to who waits.
    pub fn register(&mut self, dev: &OwnedFd) -> io::Result<()> {
        self.ring.submitter().register_files(&[dev.as_raw_fd()])?;
        self.push()?;
        self.ring.submit()?;
        match self.ring.completion().next().map(|done| done.result()) {
            Some(result) => Err(io::Error::from_raw_os_error(-result)),
            None => Ok(()),
        }
    }

    /// Serves until the mount ends.
    pub fn serve(mut self, server: &Server) -> io::Result<()> {
        loop {
            match turn(self.wait()?)? {
                Turn::End => return Ok(()),
                Turn::Again => {}
                Turn::Request => {
                    let (commit_id, moved) = self.serve_one(server);
                    self.command = (COMMIT_AND_FETCH, commit_id);
                    if moved <= PROMPT {
                        self.push()?;
                        // What is not taken now is taken with the wait.
                        let _taken = self.place.make(|| self.ring.submit());
                        continue;
                    }
                    self.place.stand();
                }
            }
            self.push()?;
        }
    }

    /// Hands over what was pushed and waits for a completion.
    fn wait(&mut self) -> io::Result<i32> {
        if self.home.is_left() {
            // The caller need not wait until the thread is back.
            let _taken = self.ring.submit();
            self.home.enter();
        } else {
            self.home.stayed();
        }
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
        // SAFETY: an entry has the layout of the kernel's submission, 128 bytes; word 6 is `len`, which the crate has no
        // setter for.
        unsafe { (&raw mut entry).cast::<u32>().add(SQE_LEN_WORD).write(2) };
        // SAFETY: the entry names the descriptor in slot 0 and the two buffers in `memory`, which live as long as the
        // ring; nobody refers to their bytes until the completion.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::OutOfMemory.into())
    }

    /// Carries out the request that the entry holds and leaves the reply in its place. Returns the commit
    /// id and how many bytes were moved.
    fn serve_one(&mut self, server: &Server) -> (u64, usize) {
        let (head_page, payload) = self.memory.bytes().split_at_mut(PAGE);
        let (Ok((head, _)), Some(Ok((mut entry, _)))) = (
            InHeader::read_from_prefix(head_page),
            head_page.get(ENTRY_AT..).map(RingEntry::read_from_prefix),
        ) else {
            return (0, 0);
        };
        let arg = head_page.get(ARG_AT..ENTRY_AT).unwrap_or_default();
        let sent = entry.payload_sz as usize;
        let answer = if head.opcode == Opcode::Write as u32 {
            let mut small = [0; SMALL];
            let data = payload.get(..sent).unwrap_or_default();
            let answer = self.place.serve(|| answer(server, head, arg, data, &mut small));
            payload.iter_mut().zip(small).for_each(|(to, from)| *to = from);
            answer
        } else {
            self.names.clear();
            self.names.extend_from_slice(payload.get(..sent).unwrap_or_default());
            self.place.serve(|| answer(server, head, arg, &self.names, payload))
        };
        let (len, error) = match answer {
            Answer::Nothing => (0, 0),
            Answer::Body(len) => (len, 0),
            Answer::Refusal(errno) => (0, -errno.raw_os_error()),
        };
        entry.payload_sz = len as u32;
        let header = OutHeader { len: (size_of::<OutHeader>() + len) as u32, error, unique: head.unique };
        // The page is longer than both.
        let _fits = header.write_to_prefix(head_page);
        let _fits = head_page.get_mut(ENTRY_AT..).map(|place| entry.write_to_prefix(place));
        (entry.commit_id, sent + len)
    }
}

fn answer(server: &Server, head: InHeader, arg: &[u8], payload: &[u8], out: &mut [u8]) -> Answer {
    match Request::new(head, arg, payload) {
        Ok(request) => server.answer(&request, out),
        Err(Malformed::Refused { errno, .. }) => Answer::Refusal(errno),
        Err(Malformed::Unreadable) => Answer::Refusal(Errno::INVAL),
    }
}

fn turn(result: i32) -> io::Result<Turn> {
    if result >= 0 {
        return Ok(Turn::Request);
    }
    match Errno::from_raw_os_error(-result) {
        Errno::NOTCONN | Errno::CONNABORTED => Ok(Turn::End),
        Errno::AGAIN | Errno::INTR => Ok(Turn::Again),
        e => Err(e.into()),
    }
}
