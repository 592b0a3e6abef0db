//! The owner of an epoch: the object `epoch/E`, and whether its process may be alive.
use crate::ids::Epoch;
use crate::stats::Cause;
use crate::wire::codec::{Decoder, Encoder, bytes_of};
use crate::wire::names::Name;
use crate::wire::remote::Remote;
use crate::{Result, StoreError};
use bytes::Bytes;
use std::fs;

const OWNER: &[u8; 8] = b"SEGNOEP1";

/// The owner of an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub session: [u8; 16],
    pub host: String,
    /// Identity of the host's boot, and of the pid namespace in it.
    pub boot: String,
    pub pid: u32,
    /// Cache in which it acknowledges writes before they are in the store.
    pub cache: Option<CacheId>,
}

/// A cache on local disk with write-back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CacheId {
    pub id: [u8; 16],
    pub path: String,
}

impl Owner {
    pub(crate) fn encode(&self) -> Bytes {
        let mut e = Encoder::new(OWNER);
        e.raw(&self.session);
        e.text(&self.host);
        e.text(&self.boot);
        e.u32(self.pid);
        if let Some(cache) = &self.cache {
            e.raw(&cache.id);
            e.text(&cache.path);
        }
        bytes_of(e)
    }

    pub(crate) fn decode(epoch: Epoch, bytes: &[u8]) -> Result<Self> {
        let mut d = Decoder::new(Name::Epoch(epoch), OWNER, bytes)?;
        let (session, host, boot, pid) = (d.array()?, d.text()?, d.text()?, d.u32()?);
        let cache = if d.is_at_end() { None } else { Some(CacheId { id: d.array()?, path: d.text()? }) };
        d.end()?;
        Ok(Self { session, host, boot, pid, cache })
    }
}

impl Owner {
    /// This process.
    pub(crate) fn this(session: [u8; 16], cache: Option<CacheId>) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let uname = rustix::system::uname();
        let machine = read("/etc/machine-id");
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Self {
            session,
            host: format!("{} {}", uname.nodename().to_string_lossy(), machine.get(..8).unwrap_or_default()),
            boot: format!("{} {}", read("/proc/sys/kernel/random/boot_id"), namespace.display()),
            pid: std::process::id(),
            cache,
        }
    }

    /// Whether its process has certainly ended: the same host was booted since, or has no such process.
    pub(crate) fn has_ended(&self) -> bool {
        let this = Self::this([0; 16], None);
        if self.boot == this.boot {
            return is_ended(self.pid);
        }
        let boot = |of: &str| of.split(' ').next().map(str::to_owned);
        self.host == this.host && boot(&self.boot) != boot(&this.boot)
    }

    /// Whether it is process `pid` of this host.
    pub(crate) fn is_here(&self, pid: u32) -> bool {
        self.pid == pid && self.boot == Self::this([0; 16], None).boot
    }

    /// For messages.
    pub(crate) fn describe(&self) -> String {
        format!("process {} on {}", self.pid, self.host.split(' ').next().unwrap_or_default())
    }
}

/// A process that was killed may not have been reaped yet.
fn is_ended(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}

/// The session of an epoch.
pub(crate) async fn session(remote: &Remote, epoch: Epoch) -> Result<Option<[u8; 16]>> {
    Ok(known(remote, epoch).await?.map(|owner| owner.session))
}

/// The owner of an epoch. A truncated object belongs to no writer, as each writer reads its object back.
pub(crate) async fn known(remote: &Remote, epoch: Epoch) -> Result<Option<Owner>> {
    match get(remote, epoch).await {
        Err(StoreError::Corrupt { .. }) => Ok(None),
        other => other,
    }
}

/// The owner of an epoch, if it was taken.
pub(crate) async fn get(remote: &Remote, epoch: Epoch) -> Result<Option<Owner>> {
    match remote.get(Name::Epoch(epoch), Cause::Open).await? {
        Some(bytes) => Owner::decode(epoch, &bytes).map(Some),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_back_with_its_cache_and_without() {
        let cache = Some(CacheId { id: [4; 16], path: "/var/cache/segno".into() });
        for cache in [None, cache] {
            let owner = Owner { session: [1; 16], host: "h".into(), boot: "b".into(), pid: 7, cache };
            assert_eq!(Owner::decode(Epoch::new(3), &owner.encode()).unwrap(), owner);
        }
        let hostile =
            Owner { session: [1; 16], host: "h\u{1b}[2J\n".into(), boot: "b".into(), pid: 7, cache: None };
        assert_eq!(Owner::decode(Epoch::new(3), &hostile.encode()).unwrap().host, "h\u{fffd}[2J\u{fffd}");
    }
}
