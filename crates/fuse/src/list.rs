//! READDIR and READDIRPLUS.
use crate::attr::{entry_out, errno};
use crate::reply::Reply;
use crate::request::Request;
use crate::server::{Done, Server, node};
use crate::wire::{self, Dirent, EntryOut};
use segno_engine::{DirEntry, Error};

impl Server {
    pub(crate) fn readdir(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a: wire::ReadIn = r.arg()?;
        let mut page = Page::new(reply, &a);
        self.volume.readdir(node(r), a.offset, &mut |e| page.put(None, &e)).map_err(errno)
    }

    pub(crate) fn readdirplus(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let a: wire::ReadIn = r.arg()?;
        let mut page = Page::new(reply, &a);
        let mut failed = None;
        let name_valid = self.name_cache.valid_in_list(&self.volume, node(r));
        let mut each = |e: DirEntry<'_>| {
            // The kernel starts every listing with READDIRPLUS. Entries whose inode is not cached are returned without
            // attributes; the kernel then continues with READDIR unless the caller looks entries up.
            if a.offset == 0 && !self.volume.is_cached(e.ino) {
                return page.put(Some(&EntryOut::default()), &e);
            }
            match self.volume.getattr(e.ino) {
                Ok(attr) => {
                    let entry = entry_out(&self.ownership.shown(attr), name_valid(e.name), self.attr_caching);
                    let fits = page.put(Some(&entry), &e);
                    if fits && !matches!(e.name, b"." | b"..") {
                        self.volume.add_reference(e.ino);
                    }
                    fits
                }
                // Removed since the directory was read.
                Err(Error::NotFound) => true,
                Err(why) => {
                    failed = Some(why);
                    false
                }
            }
        };
        let done = self.volume.readdir(node(r), a.offset, &mut each);
        failed.map_or(done, Err).map_err(errno)
    }
}

/// One reply of directory entries, up to the size the caller has room for.
#[derive(Debug)]
pub struct Page<'a, 'b> {
    reply: &'a mut Reply<'b>,
    left: usize,
}

impl<'a, 'b> Page<'a, 'b> {
    /// An empty one, in the reply to this request.
    pub fn new(reply: &'a mut Reply<'b>, request: &wire::ReadIn) -> Self {
        let left = reply.free().min(request.size as usize);
        Self { reply, left }
    }

    /// Appends an entry, for READDIRPLUS with the reply to its lookup; false if it does not fit.
    pub fn put(&mut self, plus: Option<&EntryOut>, e: &DirEntry<'_>) -> bool {
        let name_room = e.name.len().next_multiple_of(8);
        let size = plus.map_or(0, |_| size_of::<EntryOut>()) + size_of::<Dirent>() + name_room;
        if size > self.left {
            return false;
        }
        let dirent = Dirent {
            ino: e.ino.0.into(),
            off: e.next,
            namelen: e.name.len() as u32,
            kind: e.kind.dirent_type().into(),
        };
        let padding = [0_u8; 8];
        let pad = padding.get(..name_room - e.name.len()).unwrap_or_default();
        let put = plus.map_or(Ok(()), |entry| self.reply.put(entry)).and_then(|()| {
            self.reply.put(&dirent)?;
            self.reply.put(e.name)?;
            self.reply.put(pad)
        });
        self.left -= size;
        put.is_ok()
    }
}
