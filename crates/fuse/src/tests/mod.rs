//! Tests of the protocol without a kernel, and of real mounts.
mod acl;
mod aio;
mod attributes;
mod authority;
mod compress;
mod counts;
mod direct;
mod flags;
mod fsync;
mod fuzz;
mod handles;
mod hang;
mod idmap;
mod names;
mod notify;
mod ownership;
mod policy;
mod protocol;
mod set_group_id;
mod suid;
mod sync;
mod unmount;
mod volume_ioctl;
mod writeback;

use crate::bdi;
use crate::block::{self, Backing, MountType};
use crate::init::Permissions;
use crate::mount::{self, Request};
use crate::mount_id::MountId;
use crate::options::Choice;
use crate::options::FuseOptions;
use crate::origin::Origin;
use crate::server::Server;
use crate::session::{Queues, Session, Transport};
use crate::wire::Opcode;
use rustix::mount::{UnmountFlags, unmount};
use segno_device::{BlockDevice, MemDevice};
use segno_engine::{MountOptions, Volume};
use segno_mkfs::{Member, MkfsOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

/// A fresh volume in memory.
fn volume() -> Arc<Volume> {
    volume_with(&MkfsOptions::default())
}

fn volume_on(device: Arc<dyn BlockDevice>) -> Arc<Volume> {
    format_and_mount(device, &MkfsOptions::default())
}

fn volume_with(options: &MkfsOptions) -> Arc<Volume> {
    format_and_mount(Arc::new(MemDevice::new(128 * 256)), options)
}

fn format_and_mount(device: Arc<dyn BlockDevice>, options: &MkfsOptions) -> Arc<Volume> {
    let member = Member { device: device.clone(), path: String::new(), zeroed: true };
    segno_mkfs::format(&[member], options).unwrap();
    Volume::mount(device, MountOptions::default()).unwrap()
}

/// A mount of this process, unmounted on drop.
struct Mount {
    server: Arc<Server>,
    session: Session,
    mount_type: MountType,
    dir: tempfile::TempDir,
}

impl Mount {
    /// Returns `None` and prints a message if this process cannot mount.
    fn new(choice: Choice, options: &[&str]) -> Option<Self> {
        Self::of(volume(), choice, options)
    }

    fn of(volume: Arc<Volume>, choice: Choice, options: &[&str]) -> Option<Self> {
        Self::served(Server::new(volume), choice, options, &Backing::Nothing("a test".into()))
    }

    fn served(server: Server, choice: Choice, options: &[&str], backing: &Backing) -> Option<Self> {
        let idmap = options.contains(&"default_permissions") && server.origin == Origin::Host { own: None };
        Self::served_with(server, choice, options, backing, Permissions { idmap, ..Permissions::default() })
    }

    fn served_with(
        server: Server,
        choice: Choice,
        options: &[&str],
        backing: &Backing,
        permissions: Permissions,
    ) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = options.iter().map(ToString::to_string).collect();
        let request = Request { dir: dir.path(), source: "test", options };
        let (mounted, mount_type) = match block::connect(&request, &backing.where_useful()) {
            Ok(done) => done,
            Err(e) => {
                eprintln!("NOT TESTED: no FUSE mount possible here: {e}");
                return None;
            }
        };
        let server = Arc::new(server.with_callers(Some(crate::callers::tests::here())));
        let writeback_cache = server.volume.has_cached_writes();
        let opts = FuseOptions { transport: choice, writeback_cache, ..FuseOptions::default() };
        match Session::start(mounted, server.clone(), &opts, permissions, Queues::prepare(&opts)) {
            Ok(session) => Some(Self { server, session, mount_type, dir }),
            Err(e) => {
                mount::detach_dead(dir.path()).unwrap();
                eprintln!("NOT TESTED: {e}");
                None
            }
        }
    }

    /// Number of requests of a kind.
    fn requests(&self, kind: Opcode) -> u64 {
        self.server.traffic.requests().find(|(op, _)| *op == kind).map_or(0, |(_, n)| n)
    }

    /// The directory with the limits of its page cache.
    fn bdi(&self) -> PathBuf {
        bdi::directory(MountId::at(self.path()).unwrap(), &self.mount_type)
    }

    /// Sets these limits, as `segno mount` does.
    fn tune(&self, writeback: bool, volume_bytes: u64) {
        bdi::tune(MountId::at(self.path()).unwrap(), &self.mount_type, writeback, volume_bytes);
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _gone_already = unmount(self.dir.path(), UnmountFlags::DETACH);
    }
}

/// Until exec a child holds copies of all descriptors of this process, including descriptors of other tests.
static CHILDREN: RwLock<()> = RwLock::new(());

/// Runs a program to its end.
fn run(command: &mut Command) -> io::Result<Output> {
    let _others_wait = CHILDREN.read();
    command.output()
}

/// For tests of the last close of a descriptor: no other test starts a child while the guard is held.
pub(crate) fn without_children() -> RwLockWriteGuard<'static, ()> {
    CHILDREN.write().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a program.
pub(crate) fn start(command: &mut Command) -> io::Result<Child> {
    let _others_wait = CHILDREN.read();
    command.spawn()
}

/// Unmounts what no process uses.
fn unmount_idle(dir: &Path) -> rustix::io::Result<()> {
    let _alone = without_children();
    unmount(dir, UnmountFlags::empty())
}

/// Runs a test on every transport that this machine supports.
fn each_transport(test: impl Fn(&Mount), options: &[&str]) {
    for choice in [Choice::Classic, Choice::IoUring] {
        if let Some(mount) = Mount::new(choice, options) {
            assert_eq!(
                matches!(mount.session.transport, Transport::IoUring { .. }),
                choice == Choice::IoUring
            );
            test(&mount);
        }
    }
}
