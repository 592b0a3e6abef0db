//! Ioctls on the whole volume, from any file or directory of it: the label, trimming, shutting down. What changes something
//! is for root and the server's user.
use crate::control::may_change;
use crate::server::Server;
use segno_engine::{Error, Result, Shutdown, TrimRange, Volume};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const FITRIM: u32 = 0xc018_5879;
/// XFS's number, which F2FS and ext4 have too. It is encoded as one that returns something, so its argument, how much to
/// write before, does not come with it.
const SHUTDOWN: u32 = 0x8004_587d;
const GETFSLABEL: u32 = 0x8100_9431;
const SETFSLABEL: u32 = 0x4100_9432;
/// Bytes of a label, a NUL among them.
const LABEL_MAX: usize = 256;

/// `struct fstrim_range`, in bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Range {
    start: u64,
    len: u64,
    min_len: u64,
}

/// Carries out an ioctl; `None` if it is none of these.
pub fn run(server: &Server, uid: u32, cmd: u32, input: &[u8]) -> Option<Result<Vec<u8>>> {
    let volume = &server.volume;
    if cmd == GETFSLABEL {
        return Some(Ok(label(volume)));
    }
    if ![FITRIM, SHUTDOWN, SETFSLABEL].contains(&cmd) {
        return None;
    }
    if !may_change(uid) {
        return Some(Err(Error::NotPermitted("only root and the server's user change the volume")));
    }
    Some(match cmd {
        FITRIM => trim(volume, input),
        SHUTDOWN => shut_down(server),
        _ => set_label(volume, input),
    })
}

fn trim(volume: &Volume, input: &[u8]) -> Result<Vec<u8>> {
    let (asked, _) =
        Range::read_from_prefix(input).map_err(|_| Error::Invalid("ioctl argument too short"))?;
    let Range { start, len, min_len } = asked;
    let len = volume.trim(TrimRange { start, len, min_len })?;
    Ok(Range { len, ..asked }.as_bytes().to_vec())
}

/// As if the power failed.
fn shut_down(server: &Server) -> Result<Vec<u8>> {
    if !server.takes_shutdown {
        return Err(Error::NotSupported("shutdown takes the mount option shutdown"));
    }
    server.shut_down(Shutdown::NoSync)?;
    // The number it returns means nothing.
    Ok(vec![0; size_of::<u32>()])
}

/// As many whole characters as fit.
fn label(volume: &Volume) -> Vec<u8> {
    let label = volume.label();
    let end = (0..LABEL_MAX).rev().find(|&at| label.is_char_boundary(at)).unwrap_or(0);
    let mut out = label.as_bytes().get(..end).unwrap_or_default().to_vec();
    out.resize(LABEL_MAX, 0);
    out
}

fn set_label(volume: &Volume, input: &[u8]) -> Result<Vec<u8>> {
    let end = input.iter().take(LABEL_MAX).position(|&b| b == 0);
    let bytes = end.and_then(|end| input.get(..end)).ok_or(Error::Invalid("the label has no end"))?;
    let label = std::str::from_utf8(bytes).map_err(|_| Error::Invalid("the label is not UTF-8"))?;
    volume.set_label(label).map(|()| Vec::new())
}
