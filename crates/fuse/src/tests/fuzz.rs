//! Fuzz target: streams of requests to the server of a guest, the one that takes any bytes.
use crate::guest::{Buffers, GuestOptions, GuestServer};
use crate::wire::Opcode as Op;
use crate::wire::*;
use segno_check::CheckOptions;
use segno_device::{MemDevice, Snapshot};
use segno_engine::{MountOptions, Volume};
use segno_mkfs::{Member, MkfsOptions};
use segno_testkit::Rng;
use segno_testkit::fuzz::{Mutator, Outcome, Target};
use segno_testkit::memory::Counting;
use std::cell::RefCell;
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const HEAD: usize = size_of::<InHeader>();
const UNIQUE: u64 = 0x1122;
/// Bytes of a request's length, which precede it.
const FRAME: usize = 2;
const ROOM: usize = 70_000;
/// Blocks of the volume.
const BLOCKS: u64 = 32 * 512;

/// Requests, each with its length before it.
#[derive(Default)]
struct Stream(Vec<u8>);

impl Stream {
    /// A node from 2 on is that of an earlier reply, by number.
    fn send(mut self, opcode: Opcode, node: u64, arg: &[u8], rest: &[u8]) -> Self {
        let len = (HEAD + arg.len() + rest.len()) as u32;
        let head =
            InHeader { len, opcode: opcode as u32, unique: UNIQUE, nodeid: node, ..InHeader::default() };
        self.0.extend_from_slice(&(len as u16).to_le_bytes());
        [head.as_bytes(), arg, rest].iter().for_each(|part| self.0.extend_from_slice(part));
        self
    }

    fn begin() -> Self {
        let init = InitIn {
            major: MAJOR,
            minor: MINOR,
            max_readahead: 1 << 17,
            flags: u32::MAX,
            flags2: u32::MAX,
            unused: [0; 11],
        };
        Self::default().send(Opcode::Init, 0, init.as_bytes(), b"")
    }
}

fn files() -> Stream {
    let create = CreateIn { mode: 0o100_644, ..CreateIn::default() };
    let write = |offset, data: &[u8]| WriteIn { offset, size: data.len() as u32, ..WriteIn::default() };
    let read = |offset, size| ReadIn { offset, size, ..ReadIn::default() };
    let (low, far) = (write(100, &[7; 5000]), write(1 << 32, b"far"));
    let set = SetAttrIn {
        valid: u32::MAX,
        size: 9000,
        mode: 0o100_600,
        uid: 5,
        gid: 6,
        mtime: 7,
        ..SetAttrIn::default()
    };
    let range = |mode, offset, length| FallocateIn { mode, offset, length, ..FallocateIn::default() };
    let copy = CopyFileRangeIn { nodeid_out: 2, off_out: 20_000, len: 4096, ..CopyFileRangeIn::default() };
    Stream::begin()
        .send(Op::Create, ROOT, create.as_bytes(), b"file\0")
        .send(Op::Write, 2, low.as_bytes(), &[7; 5000])
        .send(Op::Write, 2, far.as_bytes(), b"far")
        .send(Op::Read, 2, read(0, 8192).as_bytes(), b"")
        .send(Op::Lseek, 2, LseekIn { offset: 10_000, whence: 3, ..LseekIn::default() }.as_bytes(), b"")
        .send(Op::CopyFileRange, 2, copy.as_bytes(), b"")
        .send(Op::Fallocate, 2, range(0, 0, 40_960).as_bytes(), b"")
        .send(Op::Fallocate, 2, range(3, 4096, 8192).as_bytes(), b"")
        .send(Op::Fallocate, 2, range(8, 4096, 4096).as_bytes(), b"")
        .send(Op::SetAttr, 2, set.as_bytes(), b"")
        .send(Op::Fsync, 2, FsyncIn::default().as_bytes(), b"")
        .send(Op::Statx, 2, StatxIn { sx_mask: u32::MAX, ..StatxIn::default() }.as_bytes(), b"")
        .send(Op::Release, 2, ReleaseIn::default().as_bytes(), b"")
}

fn names() -> Stream {
    let read = |offset, size| ReadIn { offset, size, ..ReadIn::default() };
    let xattr = SetXattrIn { size: 5, flags: 0, setxattr_flags: 1, padding: 0 };
    let (some, any) = (GetXattrIn { size: 0, padding: 0 }, GetXattrIn { size: 4096, padding: 0 });
    Stream::begin()
        .send(Op::Mkdir, ROOT, MkdirIn { mode: 0o755, umask: 0o22 }.as_bytes(), b"dir\0")
        .send(
            Op::Mknod,
            2,
            MknodIn { mode: 0o020_600, rdev: 259, ..MknodIn::default() }.as_bytes(),
            b"null\0",
        )
        .send(Op::Symlink, 2, b"", b"link\0target\0")
        .send(Op::ReadLink, 4, b"", b"")
        .send(Op::Link, ROOT, LinkIn { oldnodeid: 3 }.as_bytes(), b"again\0")
        .send(Op::Rename, 2, RenameIn { newdir: 1 }.as_bytes(), b"null\0moved\0")
        .send(Op::Rename2, ROOT, Rename2In { newdir: 2, flags: 2, padding: 0 }.as_bytes(), b"moved\0link\0")
        .send(Op::Lookup, 2, b"", b"link\0")
        .send(Op::ReadDir, ROOT, read(0, 4096).as_bytes(), b"")
        .send(Op::ReadDirPlus, 2, read(0, 4096).as_bytes(), b"")
        .send(Op::SetXattr, 2, xattr.as_bytes(), b"user.name\0value")
        .send(Op::GetXattr, 2, any.as_bytes(), b"user.name\0")
        .send(Op::ListXattr, 2, some.as_bytes(), b"")
        .send(Op::RemoveXattr, 2, b"", b"user.name\0")
        .send(Op::Unlink, 2, b"", b"link\0")
        .send(Op::Rmdir, ROOT, b"", b"dir\0")
        .send(Op::Forget, 3, ForgetIn { nlookup: 1 }.as_bytes(), b"")
}

fn others() -> Stream {
    let one = [ForgetOne { nodeid: 2, nlookup: 1 }, ForgetOne { nodeid: 9, nlookup: u64::MAX }];
    let ioctl = |cmd, in_size| IoctlIn { cmd, in_size, out_size: 4096, ..IoctlIn::default() };
    let tmp = CreateIn { mode: 0o100_600, ..CreateIn::default() };
    Stream::begin()
        .send(Op::TmpFile, ROOT, tmp.as_bytes(), b"\0")
        .send(Op::GetAttr, 2, GetAttrIn::default().as_bytes(), b"")
        .send(Op::Ioctl, 2, ioctl(0x8008_6601, 8).as_bytes(), &[0; 8])
        .send(Op::Ioctl, 2, ioctl(0x4008_6602, 8).as_bytes(), &[16, 0, 0, 0, 0, 0, 0, 0])
        .send(Op::Ioctl, ROOT, ioctl(0x801c_581f, 28).as_bytes(), &[0; 28])
        .send(Op::Access, ROOT, AccessIn { mask: 4, padding: 0 }.as_bytes(), b"")
        .send(Op::Open, 2, OpenIn { flags: 2, open_flags: 0 }.as_bytes(), b"")
        .send(Op::Flush, 2, FlushIn::default().as_bytes(), b"")
        .send(Op::StatFs, ROOT, b"", b"")
        .send(Op::SyncFs, ROOT, SyncFsIn { padding: 0 }.as_bytes(), b"")
        .send(Op::Interrupt, 0, InterruptIn { unique: 5 }.as_bytes(), b"")
        .send(Op::BatchForget, 0, BatchForgetIn { count: 2, dummy: 0 }.as_bytes(), one.as_bytes())
        .send(Op::Destroy, 0, b"", b"")
}

fn streams() -> Vec<Vec<u8>> {
    [files(), names(), others()].map(|stream| stream.0).to_vec()
}

/// The requests of a stream; the last one may be cut off.
fn requests(stream: &[u8]) -> Vec<&[u8]> {
    let (mut all, mut rest) = (Vec::new(), stream);
    while let Some((len, after)) = rest.split_first_chunk::<FRAME>() {
        let (message, next) = after.split_at(after.len().min(u16::from_le_bytes(*len).into()));
        all.push(message);
        rest = next;
    }
    all
}

/// Makes the lengths in nearly all headers right.
fn fixup(stream: &mut [u8], rng: &mut Rng) {
    let lens: Vec<usize> = requests(stream).iter().map(|r| r.len()).collect();
    let mut at = 0;
    for len in lens {
        at += FRAME;
        if len >= 4 && !rng.one_in(200) {
            stream[at..at + 4].copy_from_slice(&(len as u32).to_le_bytes());
        }
        at += len;
    }
}

/// Puts nodes of earlier replies in the place of their numbers.
fn known(message: &mut [u8], nodes: &[u64]) {
    let at_arg = match InHeader::read_from_prefix(message).map(|(head, _)| Opcode::from_wire(head.opcode)) {
        Ok(Some(Opcode::Link | Opcode::Rename | Opcode::Rename2 | Opcode::BatchForget)) => Some(HEAD),
        Ok(Some(Opcode::CopyFileRange | Opcode::CopyFileRange64)) => Some(HEAD + 16),
        _ => None,
    };
    for at in [Some(16), at_arg].into_iter().flatten() {
        let Some(field) = message.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<8>) else { continue };
        let node =
            usize::try_from(u64::from_le_bytes(*field)).ok().and_then(|n| nodes.get(n.checked_sub(2)?));
        if let Some(node) = node {
            *field = node.to_le_bytes();
        }
    }
}

thread_local! {
    static BUFFERS: RefCell<Buffers> = RefCell::new(Buffers::new().unwrap());
}

/// Every request has one reply of the form of the protocol, or none where that has none; the volume is clean at the end.
fn serve(empty: &Snapshot, stream: &[u8]) -> Outcome {
    let device = Arc::new(MemDevice::from_snapshot(empty));
    let options = MountOptions { background: false, cache_bytes: 8 << 20, ..MountOptions::default() };
    let volume = Volume::mount(device.clone(), options).map_err(|e| e.to_string())?;
    let server = GuestServer::new(volume.clone(), GuestOptions { threads: 1, ..GuestOptions::default() });
    let (mut nodes, mut passed) = (Vec::new(), true);
    for message in requests(stream) {
        let mut message = message.to_vec();
        known(&mut message, &nodes);
        passed &= BUFFERS.with_borrow_mut(|buffers| one(&server, buffers, &message, &mut nodes))?;
    }
    let unmounted = volume.unmount();
    unmounted.map_err(|e| format!("unmount: {e}"))?;
    let report =
        segno_check::check(&*device, &CheckOptions::default(), &mut |_| {}).map_err(|e| e.to_string())?;
    match report.problems.first() {
        Some(problem) => Err(format!("afterwards: {problem}")),
        None => Ok(passed),
    }
}

fn one(server: &GuestServer, buffers: &mut Buffers, message: &[u8], nodes: &mut Vec<u64>) -> Outcome {
    let Some(place) = buffers.request().get_mut(..message.len()) else { return Ok(false) };
    place.copy_from_slice(message);
    let head = InHeader::read_from_prefix(message).map(|(head, _)| head);
    let Ok(reply) = server.answer(buffers, message.len(), ROOM) else { return Ok(false) };
    let head = head.map_err(|_| "a message without a header was served")?;
    let opcode = Opcode::from_wire(head.opcode);
    let Some(reply) = reply else {
        let is_silent = opcode.is_some_and(|o| !o.has_reply());
        return if is_silent { Ok(true) } else { Err(format!("{opcode:?} has no reply")) };
    };
    let (out, body) = OutHeader::read_from_prefix(reply).map_err(|_| "a reply without a header")?;
    if out.len as usize != reply.len() || out.unique != head.unique || reply.len() > ROOM {
        return Err(format!("{opcode:?}: {out:?} is the head of a reply of {} bytes", reply.len()));
    }
    if !(-4095..=0).contains(&out.error) || (out.error != 0 && !body.is_empty()) {
        return Err(format!("{opcode:?}: error {} with {} bytes", out.error, body.len()));
    }
    use Opcode::{Create, Link, Lookup, Mkdir, Mknod, Symlink, TmpFile};
    if let (0, Some(Create | Link | Lookup | Mkdir | Mknod | Symlink | TmpFile)) = (out.error, opcode)
        && let Ok((entry, _)) = EntryOut::read_from_prefix(body)
    {
        nodes.push(entry.nodeid);
    }
    Ok(true)
}

#[test]
fn fuzz_fuse_requests() {
    let device = Arc::new(MemDevice::new(BLOCKS));
    let member = Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], &MkfsOptions::default()).unwrap();
    let empty = device.snapshot();
    let words: &[&[u8]] =
        &[b"\0", b".", b"..", b"/", b"trusted.segno.gc\0", b"user.a\0", b"system.posix_acl_access\0"];
    let mutator = Mutator {
        seeds: streams(),
        words,
        resized: 8,
        kept: FRAME + HEAD,
        fixup: &|stream, rng| fixup(stream, rng),
    };
    let draw = |rng: &mut Rng| mutator.draw(rng);
    let target = Target { name: "fuse", runs: 300, draw: &draw, run: &|i: &Vec<u8>| serve(&empty, i) };
    target.fuzz().unwrap_or_else(|e| panic!("{e}"));
}
