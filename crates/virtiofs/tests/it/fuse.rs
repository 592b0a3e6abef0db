//! Messages of the FUSE protocol as bytes.

pub const ROOT: u64 = 1;
pub const EPERM: i32 = -1;
pub const ESTALE: i32 = -116;
pub const EIO: i32 = -5;
pub const ENOSYS: i32 = -38;
/// Length of a header, and of a reply's header.
pub const HEAD: usize = 40;
pub const REPLY_HEAD: usize = 16;

pub const LOOKUP: u32 = 1;
pub const FORGET: u32 = 2;
pub const GETATTR: u32 = 3;
pub const MKNOD: u32 = 8;
pub const UNLINK: u32 = 10;
pub const LINK: u32 = 13;
pub const READ: u32 = 15;
pub const WRITE: u32 = 16;
pub const STATFS: u32 = 17;
pub const FSYNC: u32 = 20;
pub const SETXATTR: u32 = 21;
pub const INIT: u32 = 26;
pub const CREATE: u32 = 35;
pub const DESTROY: u32 = 38;
pub const IOCTL: u32 = 39;
pub const SYNCFS: u32 = 50;

/// A request: code, node, then the structure of the operation, names and data.
pub fn request(opcode: u32, node: u64, parts: &[&[u8]]) -> Vec<u8> {
    let rest = parts.concat();
    let mut out = Vec::new();
    out.extend(((HEAD + rest.len()) as u32).to_le_bytes());
    out.extend(opcode.to_le_bytes());
    out.extend(7_u64.to_le_bytes());
    out.extend(node.to_le_bytes());
    // User, group, process, lengths of extensions.
    out.extend([0_u8; 16]);
    out.extend(rest);
    out
}

pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

pub fn init() -> Vec<u8> {
    init_of(38)
}

/// INIT of a minor version of the protocol.
pub fn init_of(minor: u32) -> Vec<u8> {
    // All features; then the second word of flags and eleven spare words.
    request(INIT, 0, &[&words(&[7, minor, 1 << 17, u32::MAX]), &words(&[u32::MAX; 1]), &[0; 44]])
}

pub fn create(name: &str, mode: u32) -> Vec<u8> {
    request(CREATE, ROOT, &[&words(&[0, mode, 0, 0]), name.as_bytes(), &[0]])
}

pub fn mknod(name: &str, mode: u32) -> Vec<u8> {
    request(MKNOD, ROOT, &[&words(&[mode, 0, 0, 0]), name.as_bytes(), &[0]])
}

/// The structure of READ and WRITE.
fn span(offset: u64, size: u32) -> Vec<u8> {
    [&0_u64.to_le_bytes()[..], &offset.to_le_bytes(), &words(&[size, 0, 0, 0, 0, 0])].concat()
}

pub fn write(node: u64, offset: u64, data: &[u8]) -> Vec<u8> {
    request(WRITE, node, &[&span(offset, data.len() as u32), data])
}

pub fn read(node: u64, offset: u64, size: u32) -> Vec<u8> {
    request(READ, node, &[&span(offset, size)])
}

pub fn named(opcode: u32, name: &str) -> Vec<u8> {
    request(opcode, ROOT, &[name.as_bytes(), &[0]])
}

/// Sets an extended attribute of the root.
pub fn set_attribute(name: &str, value: &[u8]) -> Vec<u8> {
    request(SETXATTR, ROOT, &[&words(&[value.len() as u32, 0, 0, 0]), name.as_bytes(), &[0], value])
}

/// An ioctl on the root with an argument of zeros.
pub fn ioctl(cmd: u32) -> Vec<u8> {
    const ARGUMENT: usize = 256;
    request(IOCTL, ROOT, &[&words(&[0, 0, 0, cmd, 0, 0, ARGUMENT as u32, ARGUMENT as u32]), &[0; ARGUMENT]])
}

pub fn forget(node: u64, count: u64) -> Vec<u8> {
    request(FORGET, node, &[&count.to_le_bytes()])
}

pub fn getattr(node: u64) -> Vec<u8> {
    request(GETATTR, node, &[&[0; 16]])
}

/// Error and body of a reply.
pub fn parse(reply: &[u8]) -> (i32, &[u8]) {
    let word = |at: usize| u32::from_le_bytes(reply[at..at + 4].try_into().unwrap());
    assert_eq!(word(0) as usize, reply.len());
    (word(4).cast_signed(), &reply[REPLY_HEAD..])
}

/// The body of a reply without error.
#[track_caller]
pub fn body(reply: &[u8]) -> &[u8] {
    let (error, body) = parse(reply);
    assert_eq!(error, 0);
    body
}

/// The node of an entry.
#[track_caller]
pub fn node(reply: &[u8]) -> u64 {
    u64::from_le_bytes(body(reply)[..8].try_into().unwrap())
}

/// Seconds for which the attributes of an entry are valid.
#[track_caller]
pub fn attr_valid(reply: &[u8]) -> u64 {
    u64::from_le_bytes(body(reply)[24..32].try_into().unwrap())
}
