//! The life of a mount: mount, serve, shut down. Signals and umount(8) both end with a clean checkpoint.
use crate::block::MountType;
use crate::broker::Broker;
use crate::init::Permissions;
use crate::options::FuseOptions;
use crate::origin::Origin;
use crate::page_cache::PageCache;
use crate::server::Server;
use crate::session::{Queues, Session, Transport};
use segno_engine::Volume;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// A mount that has started.
#[derive(Clone, Debug)]
pub struct Started {
    /// The transport in use.
    pub transport: Transport,
    /// The type of the mount.
    pub mount_type: MountType,
    /// Mode of the kernel's page cache.
    pub page_cache: PageCache,
}

/// Time that requests in flight have after a signal before the server exits without serving them.
const GRACE: Duration = Duration::from_secs(2);

/// Why a mount ends.
enum End {
    Served(io::Result<()>),
    Signal,
}

/// Mounts by the broker, calls `ready` once requests are served, and serves until an unmount or a signal. If umount(2) waits for the
/// server, `close` is called before it returns. Otherwise the volume is still open when this returns: the caller closes
/// it and exits.
pub fn serve(
    volume: Arc<Volume>,
    mut broker: Broker,
    opts: &FuseOptions,
    queues: Queues,
    close: impl Fn() + Send + Sync + 'static,
    ready: impl FnOnce(&Started),
) -> io::Result<()> {
    let (ended, end) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let server = Server::new(volume)
        .on_destroy(close)
        .permit_shutdown(opts.shutdown)
        .show(opts.ownership)
        .with_options(opts.in_force.clone());
    let (session, mount_type) = start(server.with_callers(broker.callers()), &broker, opts, queues)?;
    let page_cache = session.page_cache;
    let started = Started { transport: session.transport.clone(), mount_type, page_cache };
    let signalled = ended.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().next().is_some() {
            // The receiver is gone only when the mount has ended anyway.
            let _ = signalled.send(End::Signal);
        }
    })?;
    thread::Builder::new().name("session".into()).spawn(move || {
        // The receiver is gone only when a signal has ended the mount.
        let _ = ended.send(End::Served(session.wait()));
    })?;
    ready(&started);
    match end.recv() {
        Ok(End::Served(Err(e))) => {
            broker.unmount(false);
            Err(e)
        }
        Ok(End::Served(Ok(()))) => {
            broker.end();
            Ok(())
        }
        Ok(End::Signal) => {
            broker.unmount(page_cache == PageCache::Writeback);
            match end.recv_timeout(GRACE) {
                Ok(End::Served(result)) => result,
                Ok(End::Signal) | Err(_) => Ok(()),
            }
        }
        Err(_) => Err(io::Error::other("the session thread ended unexpectedly")),
    }
}

/// Mounts and starts the session; unmounts again on failure.
fn start(
    server: Server,
    broker: &Broker,
    opts: &FuseOptions,
    queues: Queues,
) -> io::Result<(Session, MountType)> {
    let (mounted, mount_type) = broker.connect()?;
    // All mounts have `default_permissions`. Where the server's user counts, the kernel has to say who calls.
    let idmap = server.origin == Origin::Host { own: None };
    let permissions = Permissions { acl: opts.acl, idmap };
    let volume_bytes = server.volume.statfs().blocks.saturating_mul(4096);
    let session = Session::start(mounted, Arc::new(server), opts, permissions, queues);
    let session = session.inspect_err(|_| broker.unmount(false))?;
    broker.tune(session.page_cache, volume_bytes);
    Ok((session, mount_type))
}
