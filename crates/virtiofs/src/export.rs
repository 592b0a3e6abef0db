//! The life of an export: one monitor connects, is served, and leaves.
use crate::config::Tag;
use crate::device::{Device, End};
use crate::socket::Socket;
use segno_fuse::{Buffers, GuestServer};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use vhost::vhost_user::{Error as VhostUserError, Listener};
use vhost_user_backend::{Error, ShutdownHandle, VhostUserDaemon};

/// Ends an export from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Sender<End>);

impl Stopper {
    /// Ends the export after the requests that are being served.
    pub fn stop(&self) {
        // The receiver is gone only after the session.
        let _ended = self.0.send(End::Stopped);
    }
}

/// A volume to be served to one monitor.
pub struct Export {
    device: Arc<Device>,
    socket: Arc<Socket>,
    end: Sender<End>,
    ended: Receiver<End>,
}

impl Export {
    /// An export at a socket. Monitors that request the device's configuration get the tag.
    pub fn new(guest: GuestServer, socket: Socket, tag: Option<Tag>) -> Self {
        let (end, ended) = mpsc::channel();
        let device = Arc::new(Device::new(guest, tag, end.clone()));
        Self { device, socket: Arc::new(socket), end, ended }
    }

    /// A handle that ends the export.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.end.clone())
    }

    /// Waits for a monitor and serves it until it leaves. No request is being served when this returns; the volume is
    /// still open.
    pub fn run(self) -> io::Result<End> {
        let workers = start_workers(&self.device, &self.end)?;
        let connection = Arc::new(OnceLock::new());
        let session = {
            let (device, socket, end) = (self.device.clone(), self.socket.clone(), self.end.clone());
            let (mut listener, connection) = (Listener::from(socket.listener()?), connection.clone());
            thread::Builder::new().name("vhost-user".into()).spawn(move || {
                // The receiver is gone only after the session.
                let _ended = end.send(serve(&device, &socket, &mut listener, &connection));
            })?
        };
        let end = self.ended.recv().unwrap_or(End::Disconnected);
        self.device.pool.close();
        // Ends the wait for a monitor, or the connection to it.
        self.socket.refuse();
        if let Some(connection) = connection.get() {
            connection.shutdown();
        }
        for thread in workers.into_iter().chain([session]) {
            // A panic has been reported.
            let _panicked = thread.join();
        }
        Ok(end)
    }
}

fn start_workers(device: &Arc<Device>, end: &Sender<End>) -> io::Result<Vec<JoinHandle<()>>> {
    let start = |i| {
        let (device, end) = (device.clone(), end.clone());
        let mut buffers = Buffers::new()?;
        thread::Builder::new().name(format!("virtiofs-{i}")).spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| device.work(&mut buffers))).is_err() {
                device.pool.close();
                // The receiver is gone only after the session.
                let _ended = end.send(End::Failed("a server thread panicked".into()));
            }
        })
    };
    (0..device.guest.threads()).map(start).collect()
}

/// Serves the messages of one monitor.
fn serve(
    device: &Arc<Device>,
    socket: &Socket,
    listener: &mut Listener,
    connection: &OnceLock<ShutdownHandle>,
) -> End {
    let daemon = VhostUserDaemon::new("vhost-user".into(), device.clone(), device.memory.clone());
    let served = daemon.and_then(|mut daemon| {
        daemon.start(listener)?;
        socket.refuse();
        if let Some(handle) = daemon.shutdown_handle() {
            // One daemon is served, so it was not set before.
            let _first = connection.set(handle.clone());
            // The session may have ended before it could use the handle.
            if device.pool.is_closed() {
                handle.shutdown();
            }
        }
        let served = daemon.wait();
        // The end of the daemon waits for its thread, which may be taking requests.
        device.pool.close();
        served
    });
    match served {
        Ok(()) => End::Disconnected,
        Err(Error::HandleRequest(VhostUserError::Disconnected | VhostUserError::PartialMessage)) => {
            End::Disconnected
        }
        Err(e) => End::Failed(format!("vhost-user: {e}")),
    }
}
