//! The ceiling: a file system that does no more than FUSE needs, behind the session of `segno mount`. Inodes and names are in memory alone;
//! contents are read from and written to the image of a volume, whose own contents it overwrites. It shows the highest rate that a server can reach.
//!
//! * `inode`: inodes and directories
//! * `image`: addresses, flushes, and the inodes between two mounts
//! * `names`, `contents`, `attributes`: the requests
mod attributes;
mod contents;
mod image;
mod inode;
mod names;

use anyhow::{Context, Result};
use image::{Image, Saved};
use inode::{Inode, Node};
use parking_lot::RwLock;
use rustix::io::Errno;
use segno_device::BlockDevice;
use segno_format::Ino;
use segno_fuse::protocol::{NoOpenProbe, Opcode, Reply, Request, ino_of};
use segno_fuse::{Connection, FileSystem, PageCache, Traffic};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

type Done = Result<(), Errno>;

/// A file system in memory with contents in an image.
pub struct Ceiling {
    image: Image,
    nodes: RwLock<HashMap<Ino, Arc<Node>>>,
    /// Numbers are not reused.
    next_ino: AtomicU32,
    traffic: Traffic,
    no_open_probe: NoOpenProbe,
    /// Written data may be in the kernel only.
    has_cached_writes: AtomicBool,
    is_stopped: AtomicBool,
}

impl Ceiling {
    /// Opens the file system that an earlier mount saved on the device, or an empty one.
    pub fn open(device: Arc<dyn BlockDevice>) -> Result<Self> {
        let (image, saved) = Image::open(device).context("cannot read the ceiling's image")?;
        let Saved { next_ino, inodes, .. } = saved;
        let nodes = inodes.into_iter().map(|(ino, inode)| (Ino(ino), Arc::new(Node::new(Ino(ino), inode))));
        let nodes: HashMap<Ino, Arc<Node>> = nodes.collect();
        Ok(Self {
            image,
            nodes: RwLock::new(nodes),
            next_ino: AtomicU32::new(next_ino),
            traffic: Traffic::default(),
            no_open_probe: NoOpenProbe::new(true),
            has_cached_writes: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
        })
    }

    /// Keeps the inodes for the next mount. Called when the mount has ended.
    pub fn save(&self) -> Result<()> {
        let nodes = self.nodes.read();
        let all = nodes.values().map(|node| (node.ino.0, node.inode.read().clone()));
        let inodes: Vec<(u32, Inode)> = all.filter(|(_, inode)| inode.nlink > 0).collect();
        let next_ino = self.next_ino.load(Ordering::Relaxed);
        self.image.save(next_ino, inodes).context("cannot keep the ceiling's inodes")
    }

    fn node(&self, ino: Ino) -> Result<Arc<Node>, Errno> {
        self.nodes.read().get(&ino).cloned().ok_or(Errno::STALE)
    }

    /// The inode of a request.
    fn of(&self, r: &Request<'_>) -> Result<Arc<Node>, Errno> {
        self.node(ino_of(r.head.nodeid))
    }
}

impl FileSystem for Ceiling {
    fn connect(&self, connection: &Connection) -> io::Result<()> {
        self.has_cached_writes.store(connection.page_cache == PageCache::Writeback, Ordering::Relaxed);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.image.bytes()
    }

    fn serve(&self, r: &Request<'_>, reply: &mut Reply<'_>) -> Done {
        if self.is_stopped.load(Ordering::Relaxed) {
            return Err(Errno::IO);
        }
        match r.opcode {
            Opcode::Lookup => self.lookup(r, reply),
            Opcode::GetAttr => self.getattr(r, reply),
            Opcode::SetAttr => self.setattr(r, reply),
            Opcode::ReadLink => self.readlink(r, reply),
            Opcode::Symlink | Opcode::Mknod | Opcode::Mkdir | Opcode::Create => self.make(r, reply),
            Opcode::Link => self.link(r, reply),
            Opcode::Unlink | Opcode::Rmdir => self.remove(r),
            Opcode::Rename | Opcode::Rename2 => self.rename(r),
            Opcode::Forget | Opcode::BatchForget => self.forget(r),
            Opcode::Read => self.read(r, reply),
            Opcode::Write => self.write(r, reply),
            Opcode::Fsync | Opcode::FsyncDir => self.fsync(r),
            Opcode::SyncFs => self.image.commit(),
            Opcode::Fallocate => self.fallocate(r),
            Opcode::Lseek => self.lseek(r, reply),
            Opcode::CopyFileRange | Opcode::CopyFileRange64 => self.copy_range(r, reply),
            Opcode::ReadDir | Opcode::ReadDirPlus => self.list(r, reply),
            Opcode::StatFs => self.statfs(reply),
            Opcode::GetXattr => self.getxattr(r, reply),
            Opcode::ListXattr => segno_fuse::protocol::xattr(reply, r, &[]),
            Opcode::SetXattr | Opcode::RemoveXattr | Opcode::TmpFile => Err(Errno::OPNOTSUPP),
            Opcode::Ioctl => Err(Errno::NOTTY),
            Opcode::Release | Opcode::ReleaseDir | Opcode::Interrupt | Opcode::Destroy => Ok(()),
            // Replies of Segno to a volume without encryption and birth times, after which the kernel does not send these again.
            Opcode::Open | Opcode::OpenDir | Opcode::Flush | Opcode::Access | Opcode::Statx => {
                Err(Errno::NOSYS)
            }
            Opcode::Init => Err(Errno::INVAL),
        }
    }

    fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    fn traffic(&self) -> &Traffic {
        &self.traffic
    }
}
