//! A plain unmount fails only while the mount is in use, not because of requests that the kernel itself has
//! in flight.
use super::{Mount, unmount_idle, volume_on};
use crate::options::Choice;
use rustix::fs::{Advice, fadvise};
use segno_device::{BlockDevice, MemDevice};
use segno_engine::{MountOptions, Owner, Volume};
use segno_format::{Block, Ino};
use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LEN: usize = 8 << 20;

/// A device whose reads block while they are held.
#[derive(Debug)]
struct HeldReads {
    memory: MemDevice,
    /// Whether reads are held, and how many wait.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl HeldReads {
    fn hold(&self, held: bool) {
        self.state.lock().unwrap().0 = held;
        self.changed.notify_all();
    }

    fn wait_for_a_reader(&self) {
        drop(self.changed.wait_while(self.state.lock().unwrap(), |(_, waiting)| *waiting == 0).unwrap());
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        let mut state = self.changed.wait_while(state, |(held, _)| *held).unwrap();
        state.1 -= 1;
    }
}

impl BlockDevice for HeldReads {
    fn block_count(&self) -> u64 {
        self.memory.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.pass();
        self.memory.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.memory.write(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.memory.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.memory.flush()
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.memory.discard(addr, count)
    }
    fn read_only(&self) -> bool {
        false
    }
}

/// A volume with one large file that is not cached.
fn cold(device: &Arc<HeldReads>) -> Arc<Volume> {
    let volume = volume_on(device.clone());
    let owner = Owner { uid: 0, gid: 0, umask: 0 };
    let ino = volume.mknod(Ino::ROOT, b"f", 0o100_644, (0, 0), owner).unwrap().ino;
    volume.write(ino, 0, &vec![7; LEN]).unwrap();
    volume.unmount().unwrap();
    Volume::mount(device.clone(), MountOptions::default()).unwrap()
}

#[test]
fn readahead_in_flight_does_not_keep_a_mount_busy() {
    for choice in [Choice::Classic, Choice::IoUring] {
        let device = Arc::new(HeldReads {
            memory: MemDevice::new(128 * 256),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let Some(mount) = Mount::of(cold(&device), choice, &[]) else { continue };
        let file = File::open(mount.path().join("f")).unwrap();
        device.hold(true);
        fadvise(&file, 0, None, Advice::WillNeed).unwrap();
        device.wait_for_a_reader();
        drop(file);
        let (send, result) = mpsc::channel();
        let path = mount.path().to_owned();
        let unmounting = thread::spawn(move || send.send(unmount_idle(&path)).unwrap());
        // A busy mount is reported at once. Otherwise the unmount waits for the reads, which are released below.
        let early = result.recv_timeout(Duration::from_secs(1));
        device.hold(false);
        early.or_else(|_| result.recv()).unwrap().unwrap();
        unmounting.join().unwrap();
        mount.session.wait().unwrap();
    }
}
