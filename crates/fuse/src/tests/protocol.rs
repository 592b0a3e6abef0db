//! The protocol as bytes: messages in, replies out.
use super::volume;
use crate::server::Server;
use crate::transport::memory::Buffer;
use crate::transport::message::reply_to;
use crate::wire::*;
use proptest::prelude::*;
use zerocopy::{FromBytes, Immutable, IntoBytes};

const ENOENT: i32 = -2;
const EINVAL: i32 = -22;
const ENOSYS: i32 = -38;
const UNIQUE: u64 = 0x1122;

fn message(opcode: u32, nodeid: u64, parts: &[&[u8]]) -> Vec<u8> {
    message_of(0, opcode, nodeid, parts)
}

fn message_of(uid: u32, opcode: u32, nodeid: u64, parts: &[&[u8]]) -> Vec<u8> {
    message_from(InHeader { opcode, nodeid, uid, ..InHeader::default() }, parts)
}

fn message_from(head: InHeader, parts: &[&[u8]]) -> Vec<u8> {
    let len = size_of::<InHeader>() + parts.iter().map(|p| p.len()).sum::<usize>();
    let head = InHeader { len: len as u32, unique: UNIQUE, ..head };
    [&[head.as_bytes()], parts].concat().concat()
}

/// The error of a request by a user of a guest. Its kernel sends any thread number; this one is of a process here.
pub(super) fn ask_as_guest(server: &Server, uid: u32, opcode: Opcode, nodeid: u64, parts: &[&[u8]]) -> i32 {
    let pid = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
    let head = InHeader { opcode: opcode as u32, nodeid, uid, pid, ..InHeader::default() };
    ask(server, &message_from(head, parts)).unwrap().0
}

/// Error and body of the reply, if any.
fn ask(server: &Server, message: &[u8]) -> Option<(i32, Vec<u8>)> {
    let mut out = Buffer::new((1 << 20) + 4096).unwrap();
    let reply = reply_to(server, message, out.bytes())?;
    let (head, body) = OutHeader::read_from_prefix(reply).unwrap();
    assert_eq!((head.len as usize, head.unique), (reply.len(), UNIQUE));
    Some((head.error, body.to_vec()))
}

pub(super) fn call(
    server: &Server,
    op: Opcode,
    node: u64,
    arg: &(impl IntoBytes + Immutable + ?Sized),
    rest: &[u8],
) -> (i32, Vec<u8>) {
    ask(server, &message(op as u32, node, &[arg.as_bytes(), rest])).unwrap()
}

/// An ioctl on the root by a user; returns the error and the output.
pub(super) fn ask_ioctl(server: &Server, uid: u32, cmd: u32, input: &[u8]) -> (i32, Vec<u8>) {
    let (opcode, nodeid) = (Opcode::Ioctl as u32, ROOT);
    let len = (size_of::<InHeader>() + size_of::<IoctlIn>() + input.len()) as u32;
    let head = InHeader { len, opcode, unique: UNIQUE, nodeid, uid, ..InHeader::default() };
    let arg = IoctlIn { cmd, in_size: input.len() as u32, ..IoctlIn::default() };
    let message = [head.as_bytes(), arg.as_bytes(), input].concat();
    let (error, body) = ask(server, &message).unwrap();
    (error, body.get(size_of::<IoctlOut>()..).unwrap_or_default().to_vec())
}

/// LOOKUP of "dir" in the root, as Linux 6.18 sends it for uid 1000, and the reply to it.
#[test]
fn recorded_lookup() {
    let server = Server::new(volume());
    let recorded: &[u8] =
        b"\x2c\0\0\0\x01\0\0\0\x22\x11\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\xe8\x03\0\0\xe8\x03\0\0\
        \x2a\0\0\0\0\0\0\0dir\0";
    let (error, body) = ask(&server, recorded).unwrap();
    // A negative entry: node 0, valid for 2^31 seconds.
    assert_eq!((error, body.len()), (0, 128));
    assert_eq!(&body[..24], b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x80\0\0\0\0");
    let mkdir: &[u8] = b"\x34\0\0\0\x09\0\0\0\x22\x11\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\xe8\x03\0\0\xe8\x03\0\0\
        \x2a\0\0\0\0\0\0\0\xed\x01\0\0\x12\0\0\0dir\0";
    assert_eq!(ask(&server, mkdir).unwrap().0, 0);
    let (error, body) = ask(&server, recorded).unwrap();
    let entry = EntryOut::read_from_bytes(&body).unwrap();
    assert_eq!((error, entry.attr.mode, entry.attr.nlink), (0, 0o40755 & !0o022, 2));
    assert_eq!((entry.attr.uid, entry.attr.gid, entry.nodeid), (1000, 1000, entry.attr.ino));
}

#[test]
fn a_file_from_create_to_forget() {
    let server = Server::new(volume());
    let create = CreateIn { mode: 0o100_644, ..CreateIn::default() };
    let (error, body) = call(&server, Opcode::Create, ROOT, &create, b"f\0");
    assert_eq!((error, body.len()), (0, size_of::<EntryOut>() + size_of::<OpenOut>()));
    let node = EntryOut::read_from_prefix(&body).unwrap().0.nodeid;
    let write = WriteIn { offset: 1, size: 4, ..WriteIn::default() };
    let (error, body) = call(&server, Opcode::Write, node, &write, b"data");
    assert_eq!((error, WriteOut::read_from_bytes(&body).unwrap().size), (0, 4));
    let read = ReadIn { size: 100, ..ReadIn::default() };
    assert_eq!(call(&server, Opcode::Read, node, &read, b""), (0, b"\0data".to_vec()));
    let read = ReadIn { size: 4096, ..ReadIn::default() };
    let (_, listing) = call(&server, Opcode::ReadDir, ROOT, &read, b"");
    let names: Vec<&[u8]> = listing.chunks(32).map(|e| &e[24..25]).collect();
    assert_eq!(names, [b".", b".", b"f"]);
    assert_eq!(call(&server, Opcode::Unlink, ROOT, &(), b"f\0").0, 0);
    // The reply to CREATE holds a reference until FORGET, which has no reply.
    assert_eq!(call(&server, Opcode::GetAttr, node, &GetAttrIn::default(), b"").0, 0);
    let one = ForgetOne { nodeid: node, nlookup: 1 };
    let batch = BatchForgetIn { count: 1, dummy: 0 };
    let forget = message(Opcode::BatchForget as u32, 0, &[batch.as_bytes(), one.as_bytes()]);
    assert_eq!(ask(&server, &forget), None);
    assert_eq!(call(&server, Opcode::GetAttr, node, &GetAttrIn::default(), b"").0, ENOENT);
}

#[test]
fn link_does_not_make_a_stale_set_user_id_bit_valid() {
    let server = Server::new(volume());
    for (mode, name, valid) in [(0o100_755, "plain", true), (0o104_755, "suid", false)] {
        let create = CreateIn { mode, ..CreateIn::default() };
        let (_, body) = call(&server, Opcode::Create, ROOT, &create, format!("{name}\0").as_bytes());
        let oldnodeid = EntryOut::read_from_prefix(&body).unwrap().0.nodeid;
        let link = LinkIn { oldnodeid };
        let (error, body) = call(&server, Opcode::Link, ROOT, &link, format!("{name}2\0").as_bytes());
        let entry = EntryOut::read_from_bytes(&body).unwrap();
        assert_eq!((error, entry.attr.nlink, entry.attr_valid > 0), (0, 2, valid), "{name}");
    }
}

/// Includes modes of fallocate that Linux does not pass on yet. A guest has checked its root. Of a caller that /proc does not
/// show no capability is known.
#[test]
fn fallocate_clears_privileges_unless_the_caller_may_keep_them() {
    let by_root = [(Server::new(volume()).for_guest(), 0o106_775), (Server::new(volume()), 0o100_775)];
    for (server, left) in by_root {
        fallocate_leaves(&server, [(0, left), (1000, 0o100_775)]);
    }
}

fn fallocate_leaves(server: &Server, modes: [(u32, u32); 2]) {
    let create = CreateIn { mode: 0o106_775, ..CreateIn::default() };
    let (_, body) = call(server, Opcode::Create, ROOT, &create, b"f\0");
    let node = EntryOut::read_from_prefix(&body).unwrap().0.nodeid;
    let write = WriteIn { size: 65_536, ..WriteIn::default() };
    assert_eq!(call(server, Opcode::Write, node, &write, &[1; 65_536]).0, 0);
    let mode = || {
        let (_, body) = call(server, Opcode::GetAttr, node, &GetAttrIn::default(), b"");
        AttrOut::read_from_bytes(&body).unwrap().attr.mode
    };
    for how in [0, 1, 3, 0x10, 0x11, 8, 0x20] {
        for (uid, left) in modes {
            let set = SetAttrIn { valid: FattrValid::MODE.bits(), mode: 0o6775, ..SetAttrIn::default() };
            assert_eq!(call(server, Opcode::SetAttr, node, &set, b"").0, 0);
            let arg = FallocateIn { length: 4096, mode: how, ..FallocateIn::default() };
            let request = message_of(uid, Opcode::Fallocate as u32, node, &[arg.as_bytes()]);
            assert_eq!((ask(server, &request).unwrap().0, mode()), (0, left), "{how:#x} by {uid}");
        }
    }
}

#[test]
fn malformed_requests_are_refused() {
    let server = Server::new(volume());
    assert_eq!(ask(&server, b"short"), None);
    assert_eq!(ask(&server, &message(999, ROOT, &[])).unwrap().0, ENOSYS);
    assert_eq!(ask(&server, &message(Opcode::Lookup as u32, ROOT, &[b"no end"])).unwrap().0, EINVAL);
    assert_eq!(ask(&server, &message(Opcode::Rename as u32, ROOT, &[&[0; 8], b"one\0"])).unwrap().0, EINVAL);
    let write = WriteIn { size: 5, ..WriteIn::default() };
    assert_eq!(call(&server, Opcode::Write, ROOT, &write, b"less").0, EINVAL);
    assert_eq!(call(&server, Opcode::GetAttr, 1 << 40, &GetAttrIn::default(), b"").0, ENOENT);
}

/// No kernel sends it; on the volume a check would call it damage.
#[test]
fn a_second_of_nanoseconds_is_refused() {
    let server = Server::new(volume());
    for (valid, is_refused) in [
        (FattrValid::ATIME, true),
        (FattrValid::MTIME, true),
        (FattrValid::CTIME, true),
        (FattrValid::MODE, false),
    ] {
        let nsec = 1_000_000_000;
        let set = SetAttrIn {
            valid: valid.bits(),
            atimensec: nsec,
            mtimensec: nsec,
            ctimensec: nsec,
            ..SetAttrIn::default()
        };
        let error = call(&server, Opcode::SetAttr, ROOT, &set, b"").0;
        assert_eq!(error == EINVAL, is_refused, "{valid:?}: {error}");
    }
}

#[test]
fn a_listing_fits_the_buffer_size() {
    let server = Server::new(volume());
    for name in 0..50 {
        let name = format!("name-{name:03}\0");
        assert_eq!(call(&server, Opcode::Mknod, ROOT, &MknodIn::default(), name.as_bytes()).0, 0);
    }
    for opcode in [Opcode::ReadDir, Opcode::ReadDirPlus] {
        let (mut offset, mut seen) = (0, 0);
        loop {
            let read = ReadIn { size: 500, offset, ..ReadIn::default() };
            let (error, page) = call(&server, opcode, ROOT, &read, b"");
            assert!(error == 0 && page.len() <= 500);
            // All entries have the same size: names are padded to eight bytes.
            let Some(at) = page.len().checked_sub(size_of::<Dirent>() + 8) else { break };
            seen += 1;
            offset = Dirent::read_from_prefix(&page[at..]).unwrap().0.off;
        }
        assert!(seen > 3, "{opcode:?}: {seen} pages");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// No message makes a handler panic or stops the volume.
    #[test]
    fn any_bytes_are_answered(
        opcode in 0u32..60,
        node in 0u64..8,
        mut arg in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..120),
        name in "[a-c]{0,3}",
    ) {
        thread_local! { static SERVER: Server = Server::new(volume()); }
        arg.extend_from_slice(name.as_bytes());
        arg.push(0);
        SERVER.with(|server| {
            let _answer = ask(server, &message(opcode, node, &[&arg]));
            assert!(!server.volume.is_stopped(), "opcode {opcode} panicked");
        });
    }
}
