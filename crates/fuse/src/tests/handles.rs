//! File handles (`name_to_handle_at`, `open_by_handle_at`) stay valid when the kernel evicts the inode and across mounts.
//! They become stale with the removal of the inode.
use super::{Mount, unmount_idle, volume_on};
use crate::options::Choice;
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::fs::OFlags;
use segno_device::MemDevice;
use segno_engine::{MountOptions, Volume};
use segno_format::Ino;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const BLOCKS: u64 = 128 * 256;
/// 64 bits of inode number, 32 of generation.
const INO64_GEN: i32 = 0x81;

/// `struct file_handle` with the content of a FUSE handle.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Handle {
    bytes: u32,
    kind: i32,
    node_high: u32,
    node_low: u32,
    generation: u32,
    room: [u32; 8],
}

impl Handle {
    fn of(path: &Path) -> Self {
        let path = CString::new(path.as_os_str().as_bytes()).unwrap();
        let mut handle = Self { bytes: 44, ..Self::default() };
        let mut mount_id = 0;
        // SAFETY: the kernel writes the mount id and up to `bytes` bytes of the handle.
        let done = unsafe {
            libc::name_to_handle_at(
                libc::AT_FDCWD,
                path.as_ptr(),
                (&raw mut handle).cast(),
                &raw mut mount_id,
                0,
            )
        };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
        assert_eq!((handle.bytes, handle.kind), (12, INO64_GEN));
        handle
    }

    fn fabricated(node: u64, generation: u32) -> Self {
        let (node_high, node_low) = ((node >> 32) as u32, node as u32);
        Self { bytes: 12, kind: INO64_GEN, node_high, node_low, generation, ..Self::default() }
    }

    fn open(&self, root: &File, flags: OFlags) -> io::Result<File> {
        let (mut handle, flags) = (*self, flags.bits() as i32 | libc::O_CLOEXEC);
        // SAFETY: the kernel reads the handle during the call.
        let fd = unsafe { libc::open_by_handle_at(root.as_raw_fd(), (&raw mut handle).cast(), flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nothing else.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
    }
}

fn assert_stale(opened: io::Result<File>) {
    assert_eq!(opened.unwrap_err().raw_os_error(), Some(libc::ESTALE));
}

/// A device that is mounted repeatedly.
struct Rig {
    device: Arc<MemDevice>,
    choice: Choice,
    mount: Option<Mount>,
}

impl Rig {
    fn new(choice: Choice) -> Option<Self> {
        let device = Arc::new(MemDevice::new(BLOCKS));
        let mount = Mount::of(volume_on(device.clone()), choice, &[])?;
        Some(Self { device, choice, mount: Some(mount) })
    }

    fn mount(&self) -> &Mount {
        self.mount.as_ref().unwrap()
    }

    fn root(&self) -> File {
        File::open(self.mount().path()).unwrap()
    }

    fn remount(&mut self) {
        self.end();
        let volume = Volume::mount(self.device.clone(), MountOptions::default()).unwrap();
        self.mount = Mount::of(volume, self.choice, &[]);
    }

    /// Ends the mount and closes the volume.
    fn end(&mut self) {
        let mount = self.mount.take().unwrap();
        unmount_idle(mount.path()).unwrap();
        mount.session.wait().unwrap();
        mount.server.volume.unmount().unwrap();
    }
}

fn each(test: impl Fn(Rig)) {
    [Choice::Classic, Choice::IoUring].into_iter().filter_map(Rig::new).for_each(test);
}

const DIRS: [&str; 3] = ["a", "a/b", "a/b/c"];
const FILES: [&str; 3] = ["top", "a/b/middle", "a/b/c/deep"];

fn populate(root: &Path) -> Vec<(PathBuf, Handle)> {
    DIRS.iter().for_each(|d| fs::create_dir(root.join(d)).unwrap());
    FILES.iter().for_each(|f| fs::write(root.join(f), f).unwrap());
    // The deepest first, so that no handle is resolved from an ancestor opened before.
    let names = FILES.iter().chain(&DIRS).rev();
    names.map(|name| (PathBuf::from(name), Handle::of(&root.join(name)))).collect()
}

/// Opens everything by handle and compares content and, for directories, the reconnected path.
fn assert_opens(rig: &Rig, handles: &[(PathBuf, Handle)]) {
    let root = rig.root();
    for (name, handle) in handles {
        let mut file =
            handle.open(&root, OFlags::RDONLY).unwrap_or_else(|e| panic!("{}: {e}", name.display()));
        if file.metadata().unwrap().is_dir() {
            let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
            assert_eq!(path, rig.mount().path().join(name));
        } else {
            let mut content = String::new();
            file.read_to_string(&mut content).unwrap();
            assert_eq!(Path::new(&content), name);
        }
    }
}

#[test]
fn handles_survive_eviction_and_remount() {
    each(|mut rig| {
        let handles = populate(rig.mount().path());
        assert_opens(&rig, &handles);
        fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
        assert_opens(&rig, &handles);
        rig.remount();
        assert_opens(&rig, &handles);
        for (name, handle) in &handles {
            assert_eq!(Handle::of(&rig.mount().path().join(name)), *handle);
        }
        rig.end();
    });
}

#[test]
fn handles_become_stale_with_their_inode() {
    each(|mut rig| {
        let handles = populate(rig.mount().path());
        let handle = |name: &str| handles.iter().find(|(n, _)| n == Path::new(name)).unwrap().1;
        fs::remove_file(rig.mount().path().join("top")).unwrap();
        fs::remove_file(rig.mount().path().join("a/b/c/deep")).unwrap();
        fs::remove_dir(rig.mount().path().join("a/b/c")).unwrap();
        // Another inode with the number of a removed one.
        let old = handle("a/b/middle");
        let other = Handle { generation: old.generation ^ 1, ..old };
        rig.remount();
        let root = rig.root();
        ["top", "a/b/c/deep", "a/b/c"]
            .iter()
            .for_each(|n| assert_stale(handle(n).open(&root, OFlags::RDONLY)));
        assert_stale(other.open(&root, OFlags::RDONLY));
        old.open(&root, OFlags::RDONLY).unwrap();
        drop(root);
        rig.end();
    });
}

#[test]
fn the_handle_of_an_unlinked_file_becomes_stale_with_its_last_close() {
    each(|mut rig| {
        let path = rig.mount().path().join("f");
        fs::write(&path, "x").unwrap();
        let (handle, open, root) = (Handle::of(&path), File::open(&path).unwrap(), rig.root());
        fs::remove_file(&path).unwrap();
        drop(open);
        let orphans =
            || rig.mount().server.volume.report().into_iter().find(|(n, _)| *n == "orphans").unwrap().1;
        let late = Instant::now() + Duration::from_secs(10);
        while orphans() > 0 && Instant::now() < late {
            std::thread::yield_now();
        }
        assert_stale(handle.open(&root, OFlags::RDONLY));
        drop(root);
        rig.end();
    });
}

/// Users choose the numbers in handles. None may be reported as corruption or open an internal inode.
#[test]
fn fabricated_handles_open_nothing_and_damage_nothing() {
    each(|mut rig| {
        let path = rig.mount().path().join("large");
        // Has direct and indirect nodes and an attribute node in addition to its inode.
        fs::write(&path, vec![7; 12 << 20]).unwrap();
        rustix::fs::setxattr(&path, "user.large", &[1; 3000], rustix::fs::XattrFlags::empty()).unwrap();
        let real = Handle::of(&path);
        rig.remount();
        let root = rig.root();
        let end = u64::from(rig.mount().server.volume.superblock().geo.max_nid());
        let beyond = [end, u64::from(u32::MAX), 1 << 32, (1 << 32) + 1, u64::MAX];
        // All numbers in use are below this.
        for node in (2..end.min(2048)).chain(beyond) {
            let opened = Handle::fabricated(node, real.generation).open(&root, OFlags::PATH);
            if node == u64::from(real.node_low) { drop(opened.unwrap()) } else { assert_stale(opened) }
        }
        assert_stale(Handle::fabricated(Ino::ROOT.0.into(), 0).open(&root, OFlags::PATH));
        Handle::fabricated(1, 0).open(&root, OFlags::PATH).unwrap();
        drop(root);
        assert!(fs::write(rig.mount().path().join("after"), "x").is_ok());
        rig.end();
        let report = segno_check::check(&*rig.device, &segno_check::CheckOptions::default(), &mut |_| {});
        assert!(report.unwrap().problems.is_empty());
    });
}
