//! A request that waits for the disk does not delay others.
use super::{Mount, volume_on};
use crate::options::Choice;
use segno_device::{BlockDevice, MemDevice};
use segno_format::Block;
use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A device whose flushes block while the valve is closed.
#[derive(Debug)]
struct BlockingDevice {
    memory: MemDevice,
    closed: Mutex<bool>,
    waiting: Mutex<usize>,
    changed: Condvar,
}

impl BlockingDevice {
    fn block(&self, closed: bool) {
        *self.closed.lock().unwrap() = closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        *self.waiting.lock().unwrap() += 1;
        let _open = self.changed.wait_while(self.closed.lock().unwrap(), |closed| *closed).unwrap();
        *self.waiting.lock().unwrap() -= 1;
    }
}

impl BlockDevice for BlockingDevice {
    fn block_count(&self) -> u64 {
        self.memory.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.memory.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.memory.write(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.memory.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.pass();
        self.memory.flush()
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.memory.discard(addr, count)
    }
    fn read_only(&self) -> bool {
        false
    }
}

#[test]
fn an_fsync_that_waits_for_the_disk_does_not_block_others() {
    const SYNCING: usize = 4;
    for choice in [Choice::Classic, Choice::IoUring] {
        let memory = MemDevice::new(128 * 256);
        let valve = Arc::new(BlockingDevice {
            memory,
            closed: Mutex::new(false),
            waiting: Mutex::new(0),
            changed: Condvar::new(),
        });
        let Some(mount) = Mount::of(volume_on(valve.clone()), choice, &[]) else { continue };
        let dir = mount.path();
        fs::write(dir.join("other"), [1; 4096]).unwrap();
        let files: Vec<File> =
            (0..SYNCING).map(|i| File::create(dir.join(format!("f{i}"))).unwrap()).collect();
        mount.server.volume.sync().unwrap();
        valve.block(true);
        std::thread::scope(|s| {
            let syncs: Vec<_> = files
                .into_iter()
                .map(|mut file| {
                    s.spawn(move || {
                        file.write_all(&[2; 4096]).unwrap();
                        file.sync_all().unwrap();
                    })
                })
                .collect();
            let received = || {
                let counts: Vec<_> = mount.server.traffic.requests().collect();
                counts.iter().find(|(op, _)| *op == crate::wire::Opcode::Fsync).map_or(0, |(_, n)| *n)
            };
            while received() < SYNCING as u64 || *valve.waiting.lock().unwrap() == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            // All fsyncs are in the server, and the disk has not completed any.
            fs::write(dir.join("new"), [3; 4096]).unwrap();
            assert_eq!(fs::read(dir.join("other")).unwrap(), [1; 4096]);
            assert_eq!(fs::metadata(dir.join("new")).unwrap().len(), 4096);
            fs::remove_file(dir.join("other")).unwrap();
            assert!(syncs.iter().all(|sync| !sync.is_finished()));
            valve.block(false);
        });
    }
}
