//! Fuzz target: messages of a monitor, with descriptors where the protocol has them.
use crate::Rig;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use segno_fuse::{GuestOptions, GuestServer};
use segno_testkit::fuzz::{Mutator, Outcome, Target};
use segno_virtiofs::{End, Export, Socket};
use std::io::{IoSlice, Read};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::thread;

/// Request, flags, bytes that follow.
const HEAD: usize = 12;
const VERSION: u32 = 1;
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;
const MEMORY: u64 = 1 << 20;
/// Requests that carry descriptors: memory, and events of rings.
const SET_MEM_TABLE: u32 = 5;
const EVENTS: [u32; 3] = [12, 13, 14];

fn message(request: u32, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let head = [request, VERSION | NEED_REPLY, body.len() as u32].map(u32::to_le_bytes);
    [&head.concat()[..], &body].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let longs = |longs: &[u64]| longs.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let begin = [
        message(3, &[]),
        message(1, &[]),
        message(2, &[&longs(&[1 << 32 | 1 << 30 | 1 << 29 | 1 << 28])]),
        message(15, &[]),
        message(16, &[&longs(&[1 | 1 << 3 | 1 << 9 | 1 << 13])]),
        message(17, &[]),
    ]
    .concat();
    let ring = |i: u32| {
        let at = 0x10_0000 + u64::from(i) * 0x4000;
        [
            message(8, &[&words(&[i, 128])]),
            message(9, &[&words(&[i, 0]), &longs(&[at, at + 0x2000, at + 0x1000, 0])]),
            message(10, &[&words(&[i, 0])]),
            message(13, &[&longs(&[i.into()])]),
            message(12, &[&longs(&[i.into()])]),
            message(18, &[&words(&[i, 1])]),
        ]
        .concat()
    };
    let memory = message(SET_MEM_TABLE, &[&words(&[1, 0]), &longs(&[0x10_0000, MEMORY, 0x10_0000, 0])]);
    let stop = [message(18, &[&words(&[1, 0])]), message(11, &[&words(&[1, 0])]), message(34, &[])].concat();
    let config = message(24, &[&words(&[0, 44, 1]), &[0; 44]]);
    vec![[&begin[..], &memory, &ring(0), &ring(1), &stop].concat(), [&begin[..], &config, &ring(1)].concat()]
}

/// Sends a message with its descriptors; false once the other side has closed.
fn send(socket: &UnixStream, message: &[u8]) -> bool {
    let request = message.first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
    let memory = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&memory, MEMORY).unwrap();
    // Never signalled.
    let (event, _other_end) = UnixStream::pair().unwrap();
    let fds = match request {
        SET_MEM_TABLE => vec![memory.as_fd()],
        _ if EVENTS.contains(&request) => vec![event.as_fd()],
        _ => Vec::new(),
    };
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&fds));
    }
    sendmsg(socket, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL).is_ok()
}

/// The messages of a stream; the last one may be cut off.
fn messages(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut all = Vec::new();
    while !stream.is_empty() {
        let len = stream.get(8..HEAD).map_or(0, |len| u32::from_le_bytes(len.try_into().unwrap()) as usize);
        let (message, rest) = stream.split_at(stream.len().min(HEAD.saturating_add(len)));
        all.push(message);
        stream = rest;
    }
    all
}

/// Sends messages in a new session. Returns its end and the replies.
fn session(rig: &Rig, stream: &[u8]) -> Result<(End, Vec<u8>), String> {
    let guest = GuestServer::new(rig.volume.clone(), GuestOptions { threads: 1, ..GuestOptions::default() });
    let socket = Socket::bind(&rig.socket()).map_err(|e| e.to_string())?;
    let export = Export::new(guest, socket, Some("scratch".parse().unwrap()));
    let running = thread::spawn(move || export.run());
    let mut client = UnixStream::connect(rig.socket()).map_err(|e| e.to_string())?;
    let _closed_early = messages(stream).into_iter().all(|message| send(&client, message));
    let _closed_already = client.shutdown(Shutdown::Write);
    let mut replies = Vec::new();
    // The other side may have closed with bytes that it did not read.
    let _reset = client.read_to_end(&mut replies);
    let end = running.join().map_err(|_| "the session panicked")?.map_err(|e| e.to_string())?;
    Ok((end, replies))
}

/// Checks that the session ends without a panic and that all replies are complete.
fn talk(rig: &Rig, stream: &[u8]) -> Outcome {
    let (end, replies) = session(rig, stream)?;
    match end {
        End::Failed(why) if why.contains("panic") => return Err(why),
        End::Stopped => return Err("nobody stopped it".into()),
        End::Failed(_) | End::Disconnected => {}
    }
    for reply in messages(&replies) {
        let flags = reply.get(4..8).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        if flags.is_none_or(|flags| flags & 7 != VERSION | REPLY) {
            return Err(format!("a reply that is none: {reply:02x?}"));
        }
    }
    Ok(!replies.is_empty())
}

#[test]
fn fuzz_messages() {
    let rig = Rig::new();
    let mutator = Mutator { seeds: seeds(), resized: 12, ..Mutator::default() };
    let run = |i: &Vec<u8>| talk(&rig, i);
    let target = Target { name: "messages", runs: 150, draw: &|rng| mutator.draw(rng), run: &run };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
    rig.assert_clean();
}

/// An access past the end of the file would end the server by a signal.
#[test]
fn memory_larger_than_its_file_ends_the_session() {
    let rig = Rig::new();
    let valid = seeds().swap_remove(0);
    // The address, which is the same number, and then the size.
    let at = 8 + valid.windows(8).position(|w| w == MEMORY.to_le_bytes()).unwrap();
    for (size, is_refused) in [(MEMORY, false), (MEMORY + 4096, true), (MEMORY << 20, true)] {
        let mut stream = valid.clone();
        stream[at..at + 8].copy_from_slice(&size.to_le_bytes());
        let (end, _) = session(&rig, &stream).unwrap();
        let is_named = matches!(&end, End::Failed(why) if why.contains("larger than the file"));
        assert_eq!(is_named, is_refused, "{size}: {end:?}");
    }
    rig.assert_clean();
}
