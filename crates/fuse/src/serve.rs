//! Lifecycle of a mount: mount, serve, shut down. umount(8) and a request of the serving program both end
//! with a clean checkpoint. Signals are handled by the program.
use crate::block::MountType;
use crate::broker::Broker;
use crate::file_system::FileSystem;
use crate::init::Permissions;
use crate::options::FuseOptions;
use crate::origin::Origin;
use crate::page_cache::PageCache;
use crate::server::Server;
use crate::session::{Queues, Session, Transport};
use segno_engine::Volume;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// Properties of a mount that has started.
#[derive(Clone, Debug)]
pub struct Started {
    /// The transport in use.
    pub transport: Transport,
    /// The type of the mount.
    pub mount_type: MountType,
    /// Mode of the kernel's page cache.
    pub page_cache: PageCache,
}

/// Time that requests in flight have before a server that detached its mount ends without serving them.
const GRACE: Duration = Duration::from_secs(2);

/// Why a mount ends, or may end.
enum End {
    Served(io::Result<()>),
    Detach,
    /// Unmount unless it is in use, and send the result here.
    Unmount(mpsc::Sender<io::Result<()>>),
}

/// A mount that is served.
#[derive(Debug)]
pub struct Serving {
    /// Its properties.
    pub started: Started,
    broker: Broker,
    ends: mpsc::Receiver<End>,
}

/// Ends a mount for which another thread waits.
#[derive(Clone, Debug)]
pub struct Unmounter(mpsc::Sender<End>);

impl Unmounter {
    /// Unmounts even while the mount is in use: requests for files that are still open fail from then on.
    pub fn detach(&self) {
        // The receiver is gone only when the mount has ended anyway.
        let _ended = self.0.send(End::Detach);
    }

    /// Unmounts; the thread that waits closes the volume then.
    ///
    /// # Errors
    /// `ResourceBusy`: the mount is in use, and stays.
    pub fn unmount(&self) -> io::Result<()> {
        let (answer, answered) = mpsc::channel();
        // Both fail only when the mount has ended anyway.
        if self.0.send(End::Unmount(answer)).is_err() {
            return Ok(());
        }
        answered.recv().unwrap_or(Ok(()))
    }
}

impl Serving {
    /// Mounts a volume by the broker. Requests are served when this returns. If umount(2) waits for the server, `close` is called before it
    /// returns.
    pub fn start(
        volume: Arc<Volume>,
        mut broker: Broker,
        opts: &FuseOptions,
        queues: Queues,
        close: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<(Self, Unmounter)> {
        let server = Server::new(volume)
            .on_destroy(close)
            .permit_shutdown(opts.shutdown)
            .show(opts.ownership)
            .with_options(opts.in_force.clone())
            .with_callers(broker.callers());
        Self::of(Arc::new(server), broker, opts, queues)
    }

    /// Mounts any file system by the broker. Requests are served when this returns.
    pub fn of(
        fs: Arc<dyn FileSystem>,
        broker: Broker,
        opts: &FuseOptions,
        queues: Queues,
    ) -> io::Result<(Self, Unmounter)> {
        let (ended, ends) = mpsc::channel();
        let (session, mount_type) = match start(fs, &broker, opts, queues) {
            Ok(done) => done,
            Err(e) => {
                broker.end();
                return Err(e);
            }
        };
        let started =
            Started { transport: session.transport.clone(), mount_type, page_cache: session.page_cache };
        let unmounter = Unmounter(ended.clone());
        thread::Builder::new().name("session".into()).spawn(move || {
            // The receiver is gone only when the mount was detached.
            let _detached = ended.send(End::Served(session.wait()));
        })?;
        Ok((Self { started, broker, ends }, unmounter))
    }

    /// Waits for the end of the mount. Unless it was unmounted, or umount(2) has waited for `close`, the volume is still open when this returns:
    /// the caller closes it.
    pub fn wait(self) -> io::Result<()> {
        let served = loop {
            match self.ends.recv() {
                Ok(End::Served(result)) => break result.inspect_err(|_| self.broker.detach(false)),
                Ok(End::Unmount(answer)) => {
                    // Fails if the caller has stopped waiting.
                    let _unheard = answer.send(self.broker.unmount());
                }
                Ok(End::Detach) => {
                    self.broker.detach(self.started.page_cache == PageCache::Writeback);
                    break match self.ends.recv_timeout(GRACE) {
                        Ok(End::Served(result)) => result,
                        Ok(End::Detach | End::Unmount(_)) | Err(_) => Ok(()),
                    };
                }
                Err(_) => break Err(io::Error::other("the session thread ended unexpectedly")),
            }
        };
        self.broker.end();
        served
    }
}

/// Mounts and starts the session; unmounts again on failure.
fn start(
    fs: Arc<dyn FileSystem>,
    broker: &Broker,
    opts: &FuseOptions,
    queues: Queues,
) -> io::Result<(Session, MountType)> {
    let (mounted, mount_type) = broker.connect()?;
    // All mounts have `default_permissions`. If the server's user counts, the kernel must name the caller of
    // each request.
    let idmap = Origin::host() == Origin::Host { own: None };
    let permissions = Permissions { acl: opts.acl, idmap };
    let volume_bytes = fs.bytes();
    let session = Session::start(mounted, fs, opts, permissions, queues);
    let session = session.inspect_err(|_| broker.detach(false))?;
    broker.tune(session.page_cache, volume_bytes);
    Ok((session, mount_type))
}
