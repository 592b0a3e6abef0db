//! Credentials of callers, as the broker reads them for its server: a process in a Landlock domain may not read the namespaces of
//! processes outside.
use crate::caller::Caller;
use crate::mount::receive;
use parking_lot::Mutex;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{SendFlags, send};
use rustix::thread::CapabilitySet;
use segno_device::Mount;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Request for the credentials of a thread.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
struct Query {
    thread: u32,
    /// Whether it is in this group.
    group: u32,
    /// Device number of the file system if the FUSE request does not name the user, otherwise 0.
    device: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
struct Reply {
    capabilities: u64,
    user: u32,
    /// 1 if the process was found.
    is_known: u32,
    /// 1 if the file system uses the same numbers of users and groups.
    is_unmapped: u32,
    /// 1 if it is in the group.
    is_member: u32,
}

/// Credentials of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// As in [`Caller`].
    pub(crate) capabilities: CapabilitySet,
    /// The user that counts for files; `None` if the request may come through a mount that shows other
    /// numbers.
    pub(crate) user: Option<u32>,
    /// Whether the group of the query is one of its groups; false if `user` is `None`.
    pub(crate) is_member: bool,
}

/// The server's end of the socket.
#[derive(Debug)]
pub(crate) struct Callers(Mutex<OwnedFd>);

impl Callers {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Mutex::new(socket))
    }

    /// Credentials of a thread; `None` if /proc does not show it, or the broker is gone. With a device number
    /// `user` is set only if that file system has no idmapped mount in the namespace of the thread.
    pub(crate) fn of(&self, thread: u32, group: u32, device: Option<u64>) -> Option<Credentials> {
        if thread == 0 {
            return None;
        }
        let socket = self.0.lock();
        send(&*socket, Query { thread, group, device: device.unwrap_or(0) }.as_bytes(), SendFlags::NOSIGNAL)
            .ok()?;
        let mut bytes = [0; size_of::<Reply>()];
        let (n, _) = receive(&*socket, &mut bytes).ok()?;
        let reply = Reply::read_from_bytes(bytes.get(..n)?).ok()?;
        let capabilities = CapabilitySet::from_bits_retain(reply.capabilities);
        (reply.is_known == 1).then_some(Credentials {
            capabilities,
            user: (reply.is_unmapped == 1).then_some(reply.user),
            is_member: reply.is_unmapped == 1 && reply.is_member == 1,
        })
    }
}

/// Answers until the server has ended, or sends something else than a query.
pub(crate) fn answer(server: &impl AsFd) {
    let mut bytes = [0; size_of::<Query>() + 1];
    while let Ok((n, _)) = receive(server.as_fd(), &mut bytes) {
        let Some(Ok(query)) = bytes.get(..n).map(Query::read_from_bytes) else { return };
        let reply = Caller::of(query.thread).map_or_else(Reply::default, |caller| {
            let is_unmapped = query.device == 0 || sees_no_idmapped(query.thread, query.device);
            Reply {
                capabilities: caller.capabilities().bits(),
                user: caller.user(),
                is_known: 1,
                is_unmapped: is_unmapped.into(),
                is_member: caller.is_in(query.group).into(),
            }
        });
        if send(server.as_fd(), reply.as_bytes(), SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
}

/// Whether a file system has no idmapped mount in the mount namespace of a thread. The kernel does not report
/// through which mount a request came.
fn sees_no_idmapped(thread: u32, device: u64) -> bool {
    let is_idmapped = |mount: &Mount| mount.device == device && mount.is_idmapped;
    Mount::all_of(thread).is_ok_and(|mounts| !mounts.iter().any(is_idmapped))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::broker::pair;
    use rustix::thread::{capabilities, gettid};
    use std::thread;

    /// Answers from a thread of this process.
    pub(crate) fn here() -> Callers {
        let (ours, theirs) = pair().unwrap();
        thread::spawn(move || answer(&theirs));
        Callers::new(ours)
    }

    #[test]
    fn this_thread_is_known_by_its_capabilities_and_groups() {
        let (callers, own) = (here(), gettid().as_raw_nonzero().get().cast_unsigned());
        let Some(caller) = Caller::of(own) else {
            return eprintln!("NOT TESTED: /proc is of another PID namespace");
        };
        let groups = rustix::process::getgroups().unwrap();
        let other = (1000..).find(|n| groups.iter().all(|group| group.as_raw() != *n)).unwrap();
        assert_eq!(callers.of(own, other, None).unwrap().capabilities, capabilities(None).unwrap().effective);
        assert!(!callers.of(own, other, None).unwrap().is_member);
        for group in groups {
            assert!(caller.is_in(group.as_raw()) && callers.of(own, group.as_raw(), None).unwrap().is_member);
        }
        assert_eq!(callers.of(0, 0, None), None);
        assert_eq!(callers.of(u32::MAX, 0, None), None);
    }

    #[test]
    fn without_an_answer_a_caller_has_no_credentials() {
        for bytes in [&b""[..], b"x", &[0; 9], &[0; 64]] {
            let (ours, theirs) = pair().unwrap();
            let answers = thread::spawn(move || answer(&theirs));
            send(&ours, bytes, SendFlags::NOSIGNAL).unwrap();
            answers.join().unwrap();
            assert_eq!(Callers::new(ours).of(1, 0, None), None, "{bytes:?}");
        }
    }
}
