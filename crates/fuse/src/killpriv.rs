//! Clearing of set-user-ID, set-group-ID and capabilities when file content changes. With HANDLE_KILLPRIV_V2 the server
//! changes the mode; the kernel keeps the cached one, so the server invalidates it.
use crate::attr::errno;
use crate::server::{Done, Server};
use crate::wire::{InHeader, WRITE_CACHE, WRITE_KILL_SUIDGID};
use rustix::io::Errno;
use segno_engine::{Attr, Error, SetAttr};
use segno_format::Ino;

/// Set-user-ID and set-group-ID.
const SET_ID: u16 = 0o6000;
const CAPABILITIES: &[u8] = b"security.capability";

impl Server {
    /// Clears privileges before a WRITE.
    pub(crate) fn before_write(&self, head: &InHeader, ino: Ino, flags: u32) -> Done {
        if flags & WRITE_CACHE != 0 {
            // Cached pages have no user. The kernel writes them before it changes the mode, but not before it sets
            // capabilities: with a writeback cache these may be newer than the data, and write(2) has removed older ones.
            self.drop_set_id(ino, |_| false)?;
            return if self.volume.has_cached_writes() { Ok(()) } else { self.drop_capabilities(ino) };
        }
        if flags & WRITE_KILL_SUIDGID == 0 {
            return Ok(());
        }
        self.drop_set_id(ino, |attr| self.loses_set_group_id(head, attr))
    }

    /// Clears privileges before a change of content whose request has no flag for it. The kernel has removed capabilities
    /// already.
    pub(crate) fn before_change(&self, head: &InHeader, ino: Ino) -> Done {
        match self.set_id(ino)? {
            Some(_) if !self.keeps_set_id(head) => {
                self.drop_set_id(ino, |attr| self.loses_set_group_id(head, attr))
            }
            _ => Ok(()),
        }
    }

    /// Attributes, as the mount shows them, of an inode with set-user-ID or set-group-ID.
    fn set_id(&self, ino: Ino) -> Result<Option<Attr>, Errno> {
        let attr = self.volume.getattr(ino).map_err(errno)?;
        Ok((attr.mode & SET_ID != 0).then(|| self.ownership.shown(attr)))
    }

    /// Clears set-user-ID, and set-group-ID of files with group execution; of others if `loses_group` holds.
    fn drop_set_id(&self, ino: Ino, loses_group: impl FnOnce(&Attr) -> bool) -> Done {
        let Some(attr) = self.set_id(ino)? else { return Ok(()) };
        let set = SetAttr { kill_suidgid: true, kill_sgid: loses_group(&attr), ..SetAttr::default() };
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
