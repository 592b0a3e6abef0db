//! Requests on attributes, and on the whole file system.
use super::inode::{Content, now};
use super::{Ceiling, Done};
use rustix::io::Errno;
use segno_fuse::STATS_XATTR;
use segno_fuse::protocol::{AttrCaching, FattrValid, Reply, Request, SetAttrIn, StatFsOut, attr_out, xattr};
use serde_json::{Map, Value};

impl Ceiling {
    pub(super) fn getattr(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        reply.put(&attr_out(&self.of(r)?.attr(), AttrCaching::Notified))
    }

    pub(super) fn setattr(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        let (a, node) = (r.arg::<SetAttrIn>()?, self.of(r)?);
        let valid = FattrValid::from_bits_retain(a.valid);
        let mut inode = node.inode.write();
        if valid.contains(FattrValid::SIZE) {
            self.resize(&mut inode, a.size)?;
        }
        if valid.contains(FattrValid::MODE) {
            inode.mode = inode.mode & !0o7777 | a.mode as u16 & 0o7777;
        }
        if valid.contains(FattrValid::UID) {
            inode.uid = a.uid;
        }
        if valid.contains(FattrValid::GID) {
            inode.gid = a.gid;
        }
        inode.ctime = now();
        if valid.contains(FattrValid::MTIME_NOW) || valid.contains(FattrValid::SIZE) {
            inode.mtime = inode.ctime;
        } else if valid.contains(FattrValid::MTIME) {
            inode.mtime = (a.mtime.cast_signed(), a.mtimensec);
        }
        node.changed();
        reply.put(&attr_out(&inode.attr(node.ino), AttrCaching::Notified))
    }

    pub(super) fn readlink(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        match &self.of(r)?.inode.read().content {
            Content::Link(target) => reply.put(target.as_slice()),
            _ => Err(Errno::INVAL),
        }
    }

    /// There are no attributes but the counters, by the name that Segno's have.
    pub(super) fn getxattr(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        if r.name()? != STATS_XATTR.as_bytes() {
            return Err(Errno::NODATA);
        }
        let mut counters: Map<String, Value> =
            self.traffic.report().into_iter().map(|(name, value)| (name, value.into())).collect();
        counters.insert("flushes".into(), self.image.flushes().into());
        xattr(reply, r, Value::Object(counters).to_string().as_bytes())
    }

    pub(super) fn statfs(&self, reply: &mut Reply<'_>) -> Done {
        let free = self.image.free_blocks();
        reply.put(&StatFsOut {
            blocks: self.image.blocks(),
            bfree: free,
            bavail: free,
            files: u32::MAX.into(),
            ffree: u32::MAX.into(),
            bsize: 4096,
            namelen: 255,
            frsize: 4096,
            ..StatFsOut::default()
        })
    }
}
