//! Claims a volume for a writer: probes conditional creation, then takes an epoch.
use crate::commit::Session;
use crate::names::Name;
use crate::records::{CacheOf, Holder, Volume};
use crate::remote::{Created, Remote};
use crate::stats::Cause;
use crate::{Result, StoreError};
use bytes::Bytes;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs;

/// Whether the store has conditional creation: it accepts the condition, and refuses to create a name twice.
pub(crate) async fn is_conditional(remote: &Remote) -> Result<bool> {
    let name = format!("probe/{}", hex(&random()?));
    let first = remote.create_at(&name, Bytes::from_static(b"first"), Cause::Open).await;
    let second = match first {
        Ok(Created::Ours) => remote.create_at(&name, Bytes::from_static(b"second"), Cause::Open).await,
        // The condition is the reason if the store accepts the same object without it.
        Err(refusal @ StoreError::Refused { .. }) => {
            remote.put_at(&name, Bytes::from_static(b"first"), Cause::Open).await.map_err(|_| refusal)?;
            remote.delete_at(&name, Cause::Open).await?;
            return Ok(false);
        }
        other => other,
    };
    remote.delete_at(&name, Cause::Open).await?;
    Ok(matches!(second?, Created::Other(found) if found == "first"))
}

impl Holder {
    /// This process.
    pub(crate) fn this(session: [u8; 16], cache: Option<CacheOf>) -> Self {
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
    fn is_gone(&self) -> bool {
        let this = Self::this([0; 16], None);
        if self.boot == this.boot {
            return has_ended(self.pid);
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
fn has_ended(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X'])),
        Err(e) => e.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Refuses an epoch without a seal whose holder may be alive, or may have left writes in a cache other than
/// this one.
pub(crate) async fn refuse_holder(remote: &Remote, epoch: u32, ours: Option<&CacheOf>) -> Result<()> {
    let Some(found) = holder(remote, epoch).await? else { return Ok(()) };
    let holder = found.describe();
    match &found.cache {
        // Its cache is locked here, so it has ended, and everything in it was uploaded.
        Some(cache) if ours.is_some_and(|ours| ours.id == cache.id) => Ok(()),
        _ if !found.is_gone() => Err(StoreError::Held { epoch, holder }),
        Some(cache) => Err(StoreError::TailElsewhere { holder, cache: cache.path.clone() }),
        None => Ok(()),
    }
}

/// The session of an epoch.
pub(crate) async fn session(remote: &Remote, epoch: u32) -> Result<Option<[u8; 16]>> {
    Ok(known_holder(remote, epoch).await?.map(|holder| holder.session))
}

/// The holder of an epoch. A truncated object belongs to no writer, as each writer reads its object back.
pub(crate) async fn known_holder(remote: &Remote, epoch: u32) -> Result<Option<Holder>> {
    match holder(remote, epoch).await {
        Err(StoreError::Corrupt { .. }) => Ok(None),
        other => other,
    }
}

async fn holder(remote: &Remote, epoch: u32) -> Result<Option<Holder>> {
    match remote.get(Name::Epoch(epoch), Cause::Open).await? {
        Some(bytes) => Holder::decode(epoch, &bytes).map(Some),
        None => Ok(None),
    }
}

/// Takes an epoch, unless another mount has it.
pub(crate) async fn take(
    remote: &Remote,
    volume: &Volume,
    epoch: u32,
    cache: Option<CacheOf>,
) -> Result<Session> {
    let id = random()?;
    let holder = Holder::this(id, cache);
    // The fence: of all writers that create this name one succeeds, and a seal of the epoch keeps out all
    // later commits of the writer that lost it.
    match remote.create(Name::Epoch(epoch), holder.encode(), Cause::Open).await? {
        Created::Ours => Ok(Session { volume: volume.id, id, epoch, marked: volume.marked }),
        Created::Other(bytes) => {
            let holder = Holder::decode(epoch, &bytes)?.describe();
            Err(StoreError::LostRace { epoch, holder })
        }
    }
}

/// Random bytes of the system.
pub(crate) fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // Up to 256 bytes arrive whole once the generator is seeded.
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(16) => Ok(bytes),
        other => Err(StoreError::Runtime(format!("no random numbers: {other:?}"))),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
