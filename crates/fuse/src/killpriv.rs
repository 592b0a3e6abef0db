//! Clearing of set-user-ID, set-group-ID and capabilities when file content changes. With HANDLE_KILLPRIV_V2 the server
//! changes the mode; the kernel keeps the cached one, so the server invalidates it.
use crate::attr::errno;
use crate::server::{Done, Server};
use crate::wire::{WRITE_CACHE, WRITE_KILL_SUIDGID};
use segno_engine::{Error, SetAttr};
use segno_format::Ino;

const CAPABILITIES: &[u8] = b"security.capability";

impl Server {
    /// Clears privileges before a WRITE.
    pub(crate) fn before_write(&self, ino: Ino, flags: u32) -> Done {
        if flags & WRITE_CACHE != 0 {
            // Cached pages have no user. The kernel writes them before it changes the mode, but not before it sets
            // capabilities: with a writeback cache these may be newer than the data, and write(2) has removed older ones.
            self.drop_suid(ino)?;
            return if self.volume.has_cached_writes() { Ok(()) } else { self.drop_capabilities(ino) };
        }
        if flags & WRITE_KILL_SUIDGID != 0 { self.drop_suid(ino) } else { Ok(()) }
    }

    /// Clears privileges before a change of content whose request has no flag for it. CAP_FSETID is not visible here, so
    /// only root is taken to have it. The kernel has removed capabilities already.
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
