//! Notifications from the server to the kernel. Both transports write them to /dev/fuse, as io_uring carries only requests
//! and replies.
use crate::attr::node_of;
use crate::wire::{NOTIFY_INVAL_INODE, NotifyInvalInodeOut, OutHeader};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, write};
use segno_format::Ino;
use std::io;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;
use zerocopy::IntoBytes;

/// Sends notifications once a session has started; before that they are dropped.
#[derive(Debug, Default)]
pub(crate) struct Notifier {
    connection: OnceLock<Connection>,
}

#[derive(Debug)]
struct Connection {
    dev: Arc<OwnedFd>,
    /// To the thread that sends notifications that wait for replies.
    pages: Sender<NotifyInvalInodeOut>,
}

impl Notifier {
    /// Uses this connection for notifications. A server has only one session.
    pub(crate) fn connect(&self, dev: Arc<OwnedFd>) -> io::Result<()> {
        let (pages, refused) = mpsc::channel();
        let to = dev.clone();
        thread::Builder::new().name("fuse-invalidate".into()).spawn(move || {
            for body in refused {
                // Fails only after an unmount, when no pages are left.
                let _unmounted = send(&to, &body);
            }
        })?;
        // A server has one connection, so this is the first.
        let _already_set = self.connection.set(Connection { dev, pages });
        Ok(())
    }

    /// Makes the kernel fetch the attributes and ACLs of an inode again before it uses them.
    ///
    /// May be called while a request on the inode is served: with a negative offset `fuse_reverse_inval_inode`
    /// (fs/fuse/inode.c) only marks attributes and ACLs as stale and takes no page, inode or directory lock. It also
    /// discards attributes that replies to earlier requests have not delivered yet.
    pub(crate) fn attributes_changed(&self, ino: Ino) -> Result<(), Errno> {
        let body = NotifyInvalInodeOut { ino: node_of(ino), off: -1, len: 0 };
        self.connection.get().map_or(Ok(()), |connection| send(&connection.dev, &body))
    }

    /// Makes the kernel drop pages of a shared mapping that could not be written. The kernel waits for the reply to the
    /// WRITE first, so another thread sends this.
    pub(crate) fn content_refused(&self, ino: Ino, offset: u64, len: u64) {
        let (off, len) = (offset.cast_signed(), len.cast_signed());
        if let Some(connection) = self.connection.get() {
            // The thread outlives all senders.
            let _sent = connection.pages.send(NotifyInvalInodeOut { ino: node_of(ino), off, len });
        }
    }
}

/// An inode that the kernel does not cache (ENOENT) needs no notification.
fn send(dev: &OwnedFd, body: &NotifyInvalInodeOut) -> Result<(), Errno> {
    let len = (size_of::<OutHeader>() + size_of_val(body)) as u32;
    // A notification carries its code in place of the error and answers request 0.
    let header = OutHeader { len, error: NOTIFY_INVAL_INODE, unique: 0 };
    let message = [header.as_bytes(), body.as_bytes()].concat();
    loop {
        return match write(dev, &message) {
            Err(Errno::INTR) => continue,
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(e),
        };
    }
}
