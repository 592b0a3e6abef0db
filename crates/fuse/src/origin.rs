//! Where requests come from.
use std::fs::read_link;
use std::path::Path;

/// The user namespace in which the machine starts has this name.
const INITIAL_NAMESPACE: &str = "user:[4026531837]";

/// Where the requests of a mount come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Processes of this machine.
    Host {
        /// The user of the server, unless the server is root's: then capabilities decide.
        own: Option<u32>,
    },
    /// The kernel of a guest. Its users and processes are not known to this machine.
    Guest,
}

impl Origin {
    /// Processes of this machine, served by this process.
    pub(crate) fn host() -> Self {
        let user = rustix::process::geteuid();
        let is_initial =
            read_link("/proc/self/ns/user").map_or(true, |name| name == Path::new(INITIAL_NAMESPACE));
        let of_root = user.is_root() && is_initial;
        Self::Host { own: (!of_root).then(|| user.as_raw()) }
    }
}
