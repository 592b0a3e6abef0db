//! Files of this machine that the client of a store uses, for a program that drops all other rights.
use crate::wire::profile::Profile;
use crate::wire::url::Url;
use std::path::PathBuf;

/// Names of hosts, certificates, and the libraries that a C library loads to find hosts. Many systems have
/// links to the latter places.
const SYSTEM: [&str; 11] = [
    "/etc",
    "/usr",
    "/lib",
    "/lib64",
    "/var/lib/ca-certificates",
    "/nix/store",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/netconfig",
    "/run/connman",
];
/// Variables that name files, which a program may replace while a volume is in use.
const NAMED: [&str; 4] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];

/// Files and directories of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFiles {
    /// To be read, with everything below them.
    pub read: Vec<PathBuf>,
    /// To be written.
    pub written: Vec<PathBuf>,
    /// Whether it connects to a server.
    pub is_remote: bool,
}

impl Url {
    /// Files that the client of this store uses.
    #[must_use]
    pub fn host_files(&self) -> HostFiles {
        // The owner of a volume records the identity of its machine.
        let machine = PathBuf::from("/etc/machine-id");
        match self {
            Self::Directory(dir) => {
                HostFiles { read: vec![machine], written: vec![dir.into()], is_remote: false }
            }
            Self::S3 { .. } => {
                let profile = Profile::of_env(|name| std::env::var(name).ok());
                let named = NAMED.iter().filter_map(std::env::var_os).map(PathBuf::from);
                let files = named.chain([profile.credentials, profile.config]);
                let replaced = files.flat_map(|file| {
                    let above = file.parent().filter(|dir| dir.parent().is_some()).map(PathBuf::from);
                    [above, Some(file)]
                });
                let system = SYSTEM.iter().map(PathBuf::from);
                let read = system.chain(replaced.flatten()).collect();
                HostFiles { read, written: Vec::new(), is_remote: true }
            }
        }
    }
}
