//! Ioctls on the whole volume, accepted on any file or directory: label, trim, shutdown. Only root and the user of the
//! server process may change the volume.
use crate::control::may_change;
use crate::server::Server;
use segno_engine::{Error, Result, Shutdown, TrimRange, Volume};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const FITRIM: u32 = 0xc018_5879;
/// XFS's number, also used by F2FS and ext4. It is encoded as an ioctl that returns data, so FUSE does not pass its argument,
/// the amount to write before the shutdown.
const SHUTDOWN: u32 = 0x8004_587d;
const GETFSLABEL: u32 = 0x8100_9431;
const SETFSLABEL: u32 = 0x4100_9432;
/// Size of a label with its NUL byte.
const LABEL_MAX: usize = 256;

/// `struct fstrim_range`; all fields in bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Range {
    start: u64,
    len: u64,
    min_len: u64,
}

/// Executes an ioctl; `None` if it is not one of these.
pub(crate) fn run(server: &Server, uid: u32, cmd: u32, input: &[u8]) -> Option<Result<Vec<u8>>> {
    let volume = &server.volume;
    if cmd == GETFSLABEL {
        return Some(Ok(label(volume)));
    }
    if ![FITRIM, SHUTDOWN, SETFSLABEL].contains(&cmd) {
        return None;
    }
    if !may_change(uid) {
        return Some(Err(Error::NotPermitted("only root and the user of the server may change the volume")));
    }
    Some(match cmd {
        FITRIM => trim(volume, input),
        SHUTDOWN => shut_down(server),
        _ => set_label(volume, input),
    })
}

fn trim(volume: &Volume, input: &[u8]) -> Result<Vec<u8>> {
    let (range, _) =
        Range::read_from_prefix(input).map_err(|_| Error::Invalid("ioctl argument too short"))?;
    let Range { start, len, min_len } = range;
    let len = volume.trim(TrimRange { start, len, min_len })?;
    Ok(Range { len, ..range }.as_bytes().to_vec())
}

/// Stops without writing, like a power failure.
fn shut_down(server: &Server) -> Result<Vec<u8>> {
    if !server.permits_shutdown {
        return Err(Error::NotSupported("shutdown needs the mount option shutdown"));
    }
    server.shut_down(Shutdown::NoSync)?;
    // The returned number has no meaning.
    Ok(vec![0; size_of::<u32>()])
}

/// The label, truncated at a character boundary.
fn label(volume: &Volume) -> Vec<u8> {
    let label = volume.label();
    let end = (0..LABEL_MAX).rev().find(|&at| label.is_char_boundary(at)).unwrap_or(0);
    let mut out = label.as_bytes().get(..end).unwrap_or_default().to_vec();
    out.resize(LABEL_MAX, 0);
    out
}

fn set_label(volume: &Volume, input: &[u8]) -> Result<Vec<u8>> {
    let end = input.iter().take(LABEL_MAX).position(|&b| b == 0);
    let bytes =
        end.and_then(|end| input.get(..end)).ok_or(Error::Invalid("the label is not NUL-terminated"))?;
    let label = std::str::from_utf8(bytes).map_err(|_| Error::Invalid("the label is not UTF-8"))?;
    volume.set_label(label).map(|()| Vec::new())
}
