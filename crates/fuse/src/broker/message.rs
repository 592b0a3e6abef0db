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
    /// End the mount, with `sync` after its dirty pages were sent.
    Unmount { sync: bool },
    /// The mount has ended.
    Ended,
}

impl Call {
    pub(super) fn to_bytes(self) -> [u8; CALL_BYTES] {
        let (what, flag, number) = match self {
            Self::Mount => (0, false, 0),
            Self::Tune { writeback, volume_bytes } => (1, writeback, volume_bytes),
            Self::Unmount { sync } => (2, sync, 0),
            Self::Ended => (3, false, 0),
        };
        let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
        [what, flag.into(), a, b, c, d, e, f, g, h]
    }

    /// The reverse of [`Self::to_bytes`]; `None` for all else.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let &[what, flag, ref number @ ..] = bytes else { return None };
        let volume_bytes = u64::from_le_bytes(number.try_into().ok()?);
        let flag = flag == 1;
        let found = match what {
            0 => Self::Mount,
            1 => Self::Tune { writeback: flag, volume_bytes },
            2 => Self::Unmount { sync: flag },
            3 => Self::Ended,
            _ => return None,
        };
        (found.to_bytes() == bytes).then_some(found)
    }
}

/// An answer. The connection comes with [`Answer::Mounted`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    Failed(String),
    /// The process has no right to mount.
    NotPermitted(String),
    Mounted {
        id: MountId,
        mount_type: MountType,
    },
}

impl Answer {
    pub(super) fn of_failure(e: &io::Error) -> Self {
        let is_refusal =
            e.kind() == io::ErrorKind::PermissionDenied && Errno::from_io_error(e) != Some(Errno::ACCESS);
        if is_refusal { Self::NotPermitted(e.to_string()) } else { Self::Failed(e.to_string()) }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = match self {
            Self::Done => vec![0],
            Self::Failed(why) => [&[1], why.as_bytes()].concat(),
            Self::NotPermitted(why) => [&[5], why.as_bytes()].concat(),
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
        match kind {
            1 => return Some(Self::Failed(text(rest))),
            5 => return Some(Self::NotPermitted(text(rest))),
            _ => {}
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
            Call::Unmount { sync: true },
            Call::Unmount { sync: false },
            Call::Ended,
        ] {
            assert_eq!(Call::parse(&call.to_bytes()), Some(call));
        }
        let id = MountId::at(Path::new("/")).unwrap();
        for answer in [
            Answer::Done,
            Answer::Failed("no such device".into()),
            Answer::Mounted { id, mount_type: MountType::Plain { why: "requested".into() } },
            Answer::Mounted { id, mount_type: MountType::Block { device: "/dev/loop0".into() } },
        ] {
            assert_eq!(Answer::parse(&answer.to_bytes()), Some(answer));
        }
    }

    #[test]
    fn a_lack_of_rights_is_told_from_other_failures() {
        let refusal = io::Error::new(io::ErrorKind::PermissionDenied, "fusermount3: Operation not permitted");
        for (e, is_refusal) in [
            (io::Error::from(Errno::PERM), true),
            (refusal, true),
            (io::Error::from(Errno::ACCESS), false),
            (io::Error::other("Operation not permitted"), false),
        ] {
            let answer = Answer::of_failure(&e);
            let said =
                if is_refusal { Answer::NotPermitted(e.to_string()) } else { Answer::Failed(e.to_string()) };
            assert_eq!(answer, said);
            assert_eq!(Answer::parse(&answer.to_bytes()), Some(said));
        }
    }

    /// A server that was taken over may send anything.
    #[test]
    fn no_other_bytes_are_a_request() {
        let mut malformed: Vec<Vec<u8>> = (0..32).filter(|n| *n != CALL_BYTES).map(|n| vec![0; n]).collect();
        malformed
            .extend([[4, 0], [0, 1], [2, 2], [3, 1], [255, 255]].map(|head| [&head[..], &[0; 8]].concat()));
        malformed.push([&[0, 0][..], &[1; 8]].concat());
        for bytes in malformed {
            assert_eq!(Call::parse(&bytes), None, "{bytes:?}");
        }
        for bytes in [&[][..], &[0, 0], &[2; 16], &[4; 20]] {
            assert_eq!(Answer::parse(bytes), None, "{bytes:?}");
        }
        let long = Answer::Failed("x".repeat(2 * ANSWER_MAX)).to_bytes();
        assert_eq!(long.len(), ANSWER_MAX);
    }
}
