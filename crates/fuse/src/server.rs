//! The server of one mount: the state that its request handlers share.
use crate::attr::{AttrCaching, ino_of};
use crate::callers::Callers;
use crate::file_system::{Connection, FileSystem};
use crate::mount_id::MountId;
use crate::name_cache::NameCache;
use crate::notify::Notifier;
use crate::origin::Origin;
use crate::ownership::Ownership;
use crate::page_cache::PageCache;
use crate::probe::NoOpenProbe;
use crate::reply::Reply;
use crate::request::Request;
use crate::traffic::Traffic;
use crate::write_errors::WriteErrors;
use rustix::io::Errno;
use segno_engine::{Error, Shutdown, Volume};
use segno_format::{Features, Ino};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The result of a request; the reply's body is in the buffer.
pub(crate) type Done = Result<(), Errno>;

/// Serves the requests of one mount.
pub(crate) struct Server {
    pub(crate) volume: Arc<Volume>,
    pub(crate) notifier: Notifier,
    /// OPEN is answered with ENOSYS, after which the kernel does not send it again.
    pub(crate) no_open: bool,
    /// Inodes have a birth time.
    pub(crate) has_birth_time: bool,
    pub(crate) no_open_probe: NoOpenProbe,
    pub(crate) traffic: Traffic,
    /// Closes the volume on DESTROY, for which umount(2) waits.
    pub(crate) on_destroy: Option<Box<dyn Fn() + Send + Sync>>,
    pub(crate) origin: Origin,
    /// Credentials of processes of this machine; `None` for guests.
    pub(crate) callers: Option<Callers>,
    /// Unset for guests.
    pub(crate) mount_id: OnceLock<MountId>,
    /// Whether the volume may be shut down.
    permits_shutdown: bool,
    is_shut_down: AtomicBool,
    /// Owner and permissions that are shown.
    pub(crate) ownership: Ownership,
    pub(crate) attr_caching: AttrCaching,
    pub(crate) name_cache: NameCache,
    pub(crate) write_errors: WriteErrors,
    /// The value of [`crate::OPTIONS_XATTR`].
    pub(crate) in_force: String,
}

impl Server {
    pub(crate) fn new(volume: Arc<Volume>) -> Self {
        // Opening an encrypted file may fail, so OPEN must be served.
        let features = volume.superblock().features;
        let no_open = !features.contains(Features::ENCRYPT);
        Self {
            volume,
            notifier: Notifier::default(),
            no_open,
            has_birth_time: features.contains(Features::INODE_CRTIME),
            no_open_probe: NoOpenProbe::new(no_open),
            traffic: Traffic::default(),
            on_destroy: None,
            origin: Origin::host(),
            callers: None,
            mount_id: OnceLock::new(),
            permits_shutdown: false,
            is_shut_down: AtomicBool::new(false),
            ownership: Ownership::default(),
            attr_caching: AttrCaching::Notified,
            name_cache: NameCache::new(features),
            write_errors: WriteErrors::default(),
            in_force: String::new(),
        }
    }

    /// Serves a guest, which receives no notifications.
    pub(crate) fn for_guest(self) -> Self {
        Self { origin: Origin::Guest, attr_caching: AttrCaching::Unnotified, ..self }
    }

    /// Sets the source of credentials of callers.
    pub(crate) fn with_callers(self, callers: Option<Callers>) -> Self {
        Self { callers, ..self }
    }

    /// Permits to shut the volume down, for crash tests.
    pub(crate) fn permit_shutdown(self, permits_shutdown: bool) -> Self {
        Self { permits_shutdown, ..self }
    }

    /// Shows another owner or other permissions.
    pub(crate) fn show(self, ownership: Ownership) -> Self {
        Self { ownership, ..self }
    }

    /// Sets the value of [`crate::OPTIONS_XATTR`].
    pub(crate) fn with_options(self, in_force: String) -> Self {
        Self { in_force, ..self }
    }

    /// Stops the volume. From then on requests on files and names fail.
    pub(crate) fn shut_down(&self, how: Shutdown) -> Result<(), Error> {
        if !self.permits_shutdown {
            return Err(Error::NotSupported("shutdown needs the mount option shutdown"));
        }
        let done = self.volume.shut_down(how);
        self.is_shut_down.store(true, Ordering::Release);
        done
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.is_shut_down.load(Ordering::Acquire)
    }

    /// Sets the function that closes the volume before umount(2) returns, if the kernel waits for it.
    pub(crate) fn on_destroy(self, close: impl Fn() + Send + Sync + 'static) -> Self {
        Self { on_destroy: Some(Box::new(close)), ..self }
    }
}

impl FileSystem for Server {
    fn connect(&self, connection: &Connection) -> io::Result<()> {
        // A server has one session, so it was not set before.
        let _first = self.mount_id.set(connection.mount);
        if connection.page_cache == PageCache::Writeback {
            self.volume.set_cached_writes();
        }
        self.notifier.connect(connection.dev.clone())
    }

    fn bytes(&self) -> u64 {
        self.volume.statfs().blocks.saturating_mul(4096)
    }

    fn serve(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        self.dispatch(request, reply)
    }

    fn stop(&self) {
        self.volume.stop(&Error::Stopped);
    }

    fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}

/// The inode of a request.
pub(crate) fn node(r: &Request<'_>) -> Ino {
    ino_of(r.head.nodeid)
}
