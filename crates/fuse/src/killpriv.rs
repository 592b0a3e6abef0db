//! Set-user-ID, set-group-ID and capabilities of a file end when its content changes. The kernel leaves the first two to
//! the server (HANDLE_KILLPRIV_V2) and keeps the mode it knows, so it is notified.
use crate::attr::errno;
use crate::server::{Done, Server};
use crate::wire::{WRITE_CACHE, WRITE_KILL_SUIDGID};
use segno_engine::{Error, SetAttr};
use segno_format::Ino;

const CAPABILITIES: &[u8] = b"security.capability";

impl Server {
    /// To be called before WRITE changes a file.
    pub(crate) fn before_write(&self, ino: Ino, flags: u32) -> Done {
        if flags & WRITE_CACHE != 0 {
            // Pages of a shared mapping do not tell whose they are, and no system call has removed anything before.
            self.drop_suid(ino)?;
            return self.drop_capabilities(ino);
        }
        if flags & WRITE_KILL_SUIDGID != 0 { self.drop_suid(ino) } else { Ok(()) }
    }

    /// To be called before a request without a flag for it changes a file. CAP_FSETID is not visible here, so only root
    /// counts as having it. The kernel has removed capabilities.
    pub(crate) fn before_change(&self, ino: Ino, uid: u32) -> Done {
        if uid == 0 { Ok(()) } else { self.drop_suid(ino) }
    }

    fn drop_suid(&self, ino: Ino) -> Done {
        if self.volume.getattr(ino).map_err(errno)?.mode & 0o6000 == 0 {
            return Ok(());
        }
        let set = SetAttr { kill_suidgid: true, ..SetAttr::default() };
        self.volume.setattr(ino, &set).map_err(errno)?;
        // Replies to changes of content carry no mode.
        self.notifier.attributes_changed(ino)
    }

    fn drop_capabilities(&self, ino: Ino) -> Done {
        match self.volume.getxattr(ino, CAPABILITIES) {
            Err(Error::NoData) => return Ok(()),
            found => found.map_err(errno)?,
        };
        self.volume.removexattr(ino, CAPABILITIES).map_err(errno)?;
        self.notifier.attributes_changed(ino)
    }
}
