//! Ioctls on the whole volume, accepted on any file or directory: label, trim, shutdown.
use super::{Changes, Ioctl, Run, reads};
use crate::authority::Who;
use segno_engine::{Error, Result, Shutdown, TrimRange, Volume};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const FITRIM: u32 = 0xc018_5879;
/// XFS's number, also used by F2FS and ext4. It is encoded as an ioctl that returns data, so FUSE does not pass its argument,
/// the amount to write before the shutdown.
pub(crate) const SHUTDOWN: u32 = 0x8004_587d;
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

const fn changes(cmd: u32, run: Run) -> Ioctl {
    Ioctl { cmd, who: Who::Administrator, changes: Changes::Volume, run }
}

pub(crate) const TABLE: &[Ioctl] = &[
    reads(GETFSLABEL, |s, _, _| Ok(label(&s.volume))),
    changes(SETFSLABEL, |s, _, input| set_label(&s.volume, input)),
    changes(FITRIM, |s, _, input| trim(&s.volume, input)),
    // Stops without writing, like a power failure. It changes nothing on the volume: as in Linux, a mount that became read-only
    // stops too. The returned number has no meaning.
    Ioctl {
        cmd: SHUTDOWN,
        who: Who::Administrator,
        changes: Changes::Nothing,
        run: |s, _, _| s.shut_down(Shutdown::NoSync).map(|()| vec![0; size_of::<u32>()]),
    },
];

fn trim(volume: &Volume, input: &[u8]) -> Result<Vec<u8>> {
    let (range, _) =
        Range::read_from_prefix(input).map_err(|_| Error::Invalid("ioctl argument too short"))?;
    let Range { start, len, min_len } = range;
    let len = volume.trim(TrimRange { start, len, min_len })?;
    Ok(Range { len, ..range }.as_bytes().to_vec())
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
