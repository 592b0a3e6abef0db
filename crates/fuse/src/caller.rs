//! Credentials of the process that issued a request. FUSE passes a user, a group and a thread number; /proc has the rest. The
//! number is not reused meanwhile: the kernel keeps a caller, even one that is killed, until it has the reply.
use rustix::thread::CapabilitySet;
use std::fs::{read_link, read_to_string};
use std::iter;
use std::sync::LazyLock;

/// Credentials of a process of this machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Effective capabilities in the user namespace of the server; none if the process is in another one.
    capabilities: CapabilitySet,
    /// The user that counts for files (`fsuid`).
    user: u32,
    /// The group that counts for files (`fsgid`), and supplementary groups.
    groups: Vec<u32>,
}

impl Caller {
    /// The process with this thread number; `None` if /proc does not show it. The kernel sends 0 for a process outside the
    /// PID namespace of the server.
    pub(crate) fn of(thread: u32) -> Option<Self> {
        if thread == 0 || !*SHOWS_OWN_NAMESPACE {
            return None;
        }
        let mut caller = parse(&read_to_string(format!("/proc/{thread}/status")).ok()?)?;
        // A process has all capabilities in a user namespace that it has made.
        let namespace = |process: &str| read_link(format!("/proc/{process}/ns/user")).ok();
        let theirs = namespace(&thread.to_string());
        if theirs.is_none() || theirs != namespace("self") {
            caller.capabilities = CapabilitySet::empty();
        }
        Some(caller)
    }

    pub(crate) fn capabilities(&self) -> CapabilitySet {
        self.capabilities
    }

    pub(crate) fn user(&self) -> u32 {
        self.user
    }

    pub(crate) fn is_in(&self, group: u32) -> bool {
        self.groups.contains(&group)
    }
}

/// Whether /proc has the process numbers of the server's PID namespace. In /proc of an outer namespace the
/// number of a caller belongs to another process.
static SHOWS_OWN_NAMESPACE: LazyLock<bool> =
    LazyLock::new(|| read_to_string("/proc/self/status").is_ok_and(|status| shows_own_namespace(&status)));

fn shows_own_namespace(own_status: &str) -> bool {
    field(own_status, "NSpid:").is_some_and(|numbers| numbers.split_whitespace().count() == 1)
}

fn parse(status: &str) -> Option<Caller> {
    let bits = u64::from_str_radix(field(status, "CapEff:")?, 16).ok()?;
    // Real, effective, saved, and for files.
    let for_files = |name| field(status, name)?.split_whitespace().nth(3);
    let groups = iter::once(for_files("Gid:")?).chain(field(status, "Groups:")?.split_whitespace());
    Some(Caller {
        capabilities: CapabilitySet::from_bits_retain(bits),
        user: for_files("Uid:")?.parse().ok()?,
        groups: groups.map(str::parse).collect::<Result<_, _>>().ok()?,
    })
}

fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::start;
    use rustix::thread::{capabilities, gettid};
    use std::process::{Command, Stdio};

    #[test]
    fn a_status_has_capabilities_and_groups() {
        let status = "Name:\tcat\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t4 27 1000 \nNSpid:\t77\n\
                      CapEff:\t0000000000200008\n";
        let caller = parse(status).unwrap();
        assert_eq!(caller.capabilities(), CapabilitySet::SYS_ADMIN | CapabilitySet::FOWNER);
        assert_eq!([4, 27, 1000, 8, 5].map(|group| caller.is_in(group)), [true, true, true, true, false]);
        assert_eq!(caller.user(), 4);
        let ids = "Uid:\t1\t1\t1\t1\nGid:\t1\t1\t1\t1\n";
        assert_eq!(parse(&format!("{ids}Groups:\t\nCapEff:\t0\n")).unwrap().groups, [1]);
        for broken in ["", "Groups:\t\n", "Groups:\tx\nCapEff:\t0\n", "Groups:\t\nCapEff:\tnone\n"] {
            assert_eq!(parse(&format!("{ids}{broken}")), None, "{broken:?}");
        }
        assert_eq!(parse("Uid:\t1\t1\t1\nGid:\t1\t1\t1\t1\nGroups:\t\nCapEff:\t0\n"), None);
    }

    #[test]
    fn a_process_of_an_outer_namespace_is_not_mistaken_for_the_caller() {
        assert!(shows_own_namespace("Pid:\t7\nNSpid:\t7\n"));
        assert!(!shows_own_namespace("Pid:\t1234\nNSpid:\t1234\t7\n"));
        assert!(!shows_own_namespace("Pid:\t7\n"));
    }

    #[test]
    fn this_thread_is_found_and_a_process_outside_is_not() {
        assert_eq!(Caller::of(0), None);
        let Some(own) = Caller::of(gettid().as_raw_nonzero().get().cast_unsigned()) else {
            return eprintln!("NOT TESTED: /proc is of another PID namespace");
        };
        assert_eq!(own.capabilities, capabilities(None).unwrap().effective);
    }

    /// `unshare -U -r` gives the process all capabilities in its own user namespace.
    #[test]
    fn capabilities_in_another_user_namespace_do_not_count() {
        let mut command = Command::new("unshare");
        let mut child = match start(command.args(["-U", "-r", "cat"]).stdin(Stdio::piped())) {
            Ok(child) => child,
            Err(e) => return eprintln!("NOT TESTED: unshare: {e}"),
        };
        let pid = child.id();
        while read_to_string(format!("/proc/{pid}/comm")).unwrap().trim() != "cat" {
            if child.try_wait().unwrap().is_some() {
                return eprintln!("NOT TESTED: no user namespace can be made here");
            }
            std::thread::yield_now();
        }
        let status = read_to_string(format!("/proc/{pid}/status")).unwrap();
        assert!(parse(&status).unwrap().capabilities().contains(CapabilitySet::SYS_ADMIN));
        assert!(Caller::of(pid).unwrap().capabilities().is_empty());
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
