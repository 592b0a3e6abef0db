//! Credentials of callers, as the broker reads them for its server: a process in a Landlock domain may not read the namespaces of
//! processes outside.
use crate::caller::Caller;
use crate::mount::receive;
use parking_lot::Mutex;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{SendFlags, send};
use rustix::thread::CapabilitySet;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A thread and a group.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, Immutable, IntoBytes, KnownLayout)]
struct Query {
    thread: u32,
    group: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, FromBytes, Immutable, IntoBytes, KnownLayout)]
struct Reply {
    capabilities: u64,
    /// 1 if the process was found.
    is_known: u32,
    /// 1 if it is in the group.
    is_member: u32,
}

/// Credentials of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credentials {
    /// As [`Caller`] has them.
    pub(crate) capabilities: CapabilitySet,
    /// Whether the group that was queried is one of its supplementary groups.
    pub(crate) is_member: bool,
}

/// The server's end of the socket.
#[derive(Debug)]
pub(crate) struct Callers(Mutex<OwnedFd>);

impl Callers {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Mutex::new(socket))
    }

    /// Credentials of a thread; `None` if /proc does not show it, or the broker is gone.
    pub(crate) fn of(&self, thread: u32, group: u32) -> Option<Credentials> {
        if thread == 0 {
            return None;
        }
        let socket = self.0.lock();
        send(&*socket, Query { thread, group }.as_bytes(), SendFlags::NOSIGNAL).ok()?;
        let mut bytes = [0; size_of::<Reply>()];
        let (n, _) = receive(&*socket, &mut bytes).ok()?;
        let reply = Reply::read_from_bytes(bytes.get(..n)?).ok()?;
        let capabilities = CapabilitySet::from_bits_retain(reply.capabilities);
        (reply.is_known == 1).then_some(Credentials { capabilities, is_member: reply.is_member == 1 })
    }
}

/// Answers until the server has ended, or sends something else than a query.
pub(crate) fn answer(server: &impl AsFd) {
    let mut bytes = [0; size_of::<Query>() + 1];
    while let Ok((n, _)) = receive(server.as_fd(), &mut bytes) {
        let Some(Ok(query)) = bytes.get(..n).map(Query::read_from_bytes) else { return };
        let reply = Caller::of(query.thread).map_or_else(Reply::default, |caller| Reply {
            capabilities: caller.capabilities().bits(),
            is_known: 1,
            is_member: caller.is_in(query.group).into(),
        });
        if send(server.as_fd(), reply.as_bytes(), SendFlags::NOSIGNAL).is_err() {
            return;
        }
    }
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
        assert_eq!(callers.of(own, other).unwrap().capabilities, capabilities(None).unwrap().effective);
        assert!(!callers.of(own, other).unwrap().is_member);
        for group in groups {
            assert!(caller.is_in(group.as_raw()) && callers.of(own, group.as_raw()).unwrap().is_member);
        }
        assert_eq!(callers.of(0, 0), None);
        assert_eq!(callers.of(u32::MAX, 0), None);
    }

    #[test]
    fn without_an_answer_a_caller_has_no_credentials() {
        for bytes in [&b""[..], b"x", &[0; 9], &[0; 64]] {
            let (ours, theirs) = pair().unwrap();
            let answers = thread::spawn(move || answer(&theirs));
            send(&ours, bytes, SendFlags::NOSIGNAL).unwrap();
            answers.join().unwrap();
            assert_eq!(Callers::new(ours).of(1, 0), None, "{bytes:?}");
        }
    }
}
