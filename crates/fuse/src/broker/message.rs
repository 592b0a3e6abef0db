//! Calls of a server to its broker, and the answers.
use crate::block::MountType;
use crate::mount_id::MountId;
use rustix::io::Errno;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

const CALL_BYTES: usize = 10;
/// Longest answer. Longer texts are cut.
pub(super) const ANSWER_MAX: usize = 8192;

/// A request of fixed length. The server chooses one number, the size of the volume, which selects one of two limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Make the mount; once.
    Mount,
    /// Set the limits of its page cache.
    Tune { writeback: bool, volume_bytes: u64 },
    /// End the mount even while it is in use, with `sync` after its dirty pages were sent.
    Detach { sync: bool },
    /// The mount has ended.
    Ended,
    /// End the mount unless it is in use.
    Unmount,
}

impl Call {
    pub(super) fn to_bytes(self) -> [u8; CALL_BYTES] {
        let (what, flag, number) = match self {
            Self::Mount => (0, false, 0),
            Self::Tune { writeback, volume_bytes } => (1, writeback, volume_bytes),
            Self::Detach { sync } => (2, sync, 0),
            Self::Ended => (3, false, 0),
            Self::Unmount => (4, false, 0),
        };
        let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
        [what, flag.into(), a, b, c, d, e, f, g, h]
    }

    /// The reverse of [`Self::to_bytes`]; `None` for any other bytes.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let &[what, flag, ref number @ ..] = bytes else { return None };
        let volume_bytes = u64::from_le_bytes(number.try_into().ok()?);
        let flag = flag == 1;
        let found = match what {
            0 => Self::Mount,
            1 => Self::Tune { writeback: flag, volume_bytes },
            2 => Self::Detach { sync: flag },
            3 => Self::Ended,
            4 => Self::Unmount,
            _ => return None,
        };
        (found.to_bytes() == bytes).then_some(found)
    }
}

/// Kinds of failure that a server distinguishes: the process has no right to mount, and the mount is in use.
/// All other failures are of the first kind.
const KINDS: [(u8, io::ErrorKind); 3] =
    [(1, io::ErrorKind::Other), (5, io::ErrorKind::PermissionDenied), (6, io::ErrorKind::ResourceBusy)];

/// An answer. The connection comes with [`Answer::Mounted`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// With one of [`KINDS`].
    Failed {
        kind: io::ErrorKind,
        why: String,
    },
    Mounted {
        id: MountId,
        mount_type: MountType,
    },
}

impl Answer {
    pub(super) fn of_failure(e: &io::Error) -> Self {
        let is_known =
            KINDS.iter().any(|(_, kind)| *kind == e.kind()) && Errno::from_io_error(e) != Some(Errno::ACCESS);
        Self::Failed { kind: if is_known { e.kind() } else { io::ErrorKind::Other }, why: e.to_string() }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = match self {
            Self::Done => vec![0],
            Self::Failed { kind, why } => {
                let code = KINDS.iter().find(|(_, known)| known == kind).map_or(1, |(code, _)| *code);
                [&[code], why.as_bytes()].concat()
            }
            Self::Mounted { id, mount_type } => {
                let (kind, text) = match mount_type {
                    MountType::Plain { why } => (2, why.as_bytes()),
                    MountType::Block { device } => (3, device.as_os_str().as_bytes()),
                };
                [&[kind], &id.to_bytes()[..], text].concat()
            }
        };
        bytes.truncate(ANSWER_MAX);
        bytes
    }

    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (kind, rest) = bytes.split_first()?;
        if *kind == 0 {
            return rest.is_empty().then_some(Self::Done);
        }
        if let Some(&(_, kind)) = KINDS.iter().find(|(code, _)| code == kind) {
            return Some(Self::Failed { kind, why: text(rest) });
        }
        let (id, name) = rest.split_at_checked(MountId::BYTES)?;
        let mount_type = match kind {
            2 => MountType::Plain { why: text(name) },
            3 => MountType::Block { device: PathBuf::from(std::ffi::OsStr::from_bytes(name)) },
            _ => return None,
        };
        Some(Self::Mounted { id: MountId::from_bytes(id)?, mount_type })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn messages_are_the_same_after_they_were_sent() {
        for call in [
            Call::Mount,
            Call::Tune { writeback: true, volume_bytes: u64::MAX - 1 },
            Call::Tune { writeback: false, volume_bytes: 0 },
            Call::Detach { sync: true },
            Call::Detach { sync: false },
            Call::Ended,
            Call::Unmount,
        ] {
            assert_eq!(Call::parse(&call.to_bytes()), Some(call));
        }
        let id = MountId::at(Path::new("/")).unwrap();
        for answer in [
            Answer::Done,
            Answer::Failed { kind: io::ErrorKind::Other, why: "no such device".into() },
            Answer::Mounted { id, mount_type: MountType::Plain { why: "requested".into() } },
            Answer::Mounted { id, mount_type: MountType::Block { device: "/dev/loop0".into() } },
        ] {
            assert_eq!(Answer::parse(&answer.to_bytes()), Some(answer));
        }
    }

    #[test]
    fn a_lack_of_rights_and_a_mount_in_use_are_told_from_other_failures() {
        use io::ErrorKind::{Other, PermissionDenied, ResourceBusy};
        let refusal = io::Error::new(PermissionDenied, "fusermount3: Operation not permitted");
        for (e, kind) in [
            (io::Error::from(Errno::PERM), PermissionDenied),
            (refusal, PermissionDenied),
            (io::Error::from(Errno::BUSY), ResourceBusy),
            (io::Error::from(Errno::ACCESS), Other),
            (io::Error::from(Errno::NOENT), Other),
            (io::Error::other("Operation not permitted"), Other),
        ] {
            let answer = Answer::of_failure(&e);
            assert_eq!(answer, Answer::Failed { kind, why: e.to_string() });
            assert_eq!(Answer::parse(&answer.to_bytes()), Some(answer));
        }
    }

    /// A server that was taken over may send anything.
    #[test]
    fn no_other_bytes_are_a_request() {
        let mut malformed: Vec<Vec<u8>> = (0..32).filter(|n| *n != CALL_BYTES).map(|n| vec![0; n]).collect();
        malformed.extend(
            [[5, 0], [0, 1], [2, 2], [3, 1], [4, 1], [255, 255]].map(|head| [&head[..], &[0; 8]].concat()),
        );
        malformed.push([&[0, 0][..], &[1; 8]].concat());
        for bytes in malformed {
            assert_eq!(Call::parse(&bytes), None, "{bytes:?}");
        }
        for bytes in [&[][..], &[0, 0], &[2; 16], &[4; 20]] {
            assert_eq!(Answer::parse(bytes), None, "{bytes:?}");
        }
        let long = Answer::Failed { kind: io::ErrorKind::Other, why: "x".repeat(2 * ANSWER_MAX) }.to_bytes();
        assert_eq!(long.len(), ANSWER_MAX);
    }
}
