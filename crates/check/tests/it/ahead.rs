//! Read-ahead and proof change only the number of reads, not the report.
use crate::edit::Edit;
use crate::image::filled;
use segno_check::{CheckOptions, Pass, check};
use segno_device::{BlockDevice, Buffer, MemDevice, Reading};
use segno_format::Block;
use segno_testkit::CountDevice;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device that refuses some reads, so that a check takes another path.
struct ObstructingDevice<'a> {
    device: &'a MemDevice,
    /// Refuses to read ahead, so that the walk reads every inode.
    ahead: bool,
    /// Refuses the first read after the superblocks, so that the check cannot prove anything and explains.
    stumbles: AtomicBool,
}

impl<'a> ObstructingDevice<'a> {
    fn ahead(device: &'a MemDevice) -> Self {
        Self { device, ahead: true, stumbles: false.into() }
    }
    fn proof(device: &'a MemDevice) -> Self {
        Self { device, ahead: false, stumbles: true.into() }
    }
}

impl BlockDevice for ObstructingDevice<'_> {
    fn block_count(&self) -> u64 {
        self.device.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        if addr >= 2 && self.stumbles.swap(false, Ordering::Relaxed) {
            return Err(io::Error::other("not now"));
        }
        self.device.read(addr, into)
    }
    fn start_read(&self, addr: u64, into: Buffer) -> Reading {
        Reading::at_once(into, |blocks| {
            if self.ahead { Err(io::Error::other("not ahead")) } else { self.device.read(addr, blocks) }
        })
    }
    fn write(&self, _addr: u64, _blocks: &[&Block]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.write(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
    fn discard(&self, addr: u64, _count: u64) -> io::Result<()> {
        self.write(addr, &[])
    }
    fn read_only(&self) -> bool {
        true
    }
}

/// Describes any difference between a normal check and checks without read-ahead or without a proof.
pub fn compare(name: &str, device: &MemDevice) -> String {
    let run = |device: &dyn BlockDevice| {
        check(device, &CheckOptions::default(), &mut |_| {}).map_err(|e| e.to_string())
    };
    let found = run(device);
    [
        ("without reading ahead", ObstructingDevice::ahead(device)),
        ("without a proof", ObstructingDevice::proof(device)),
    ]
    .into_iter()
    .map(|(how, hindered)| (how, run(&hindered)))
    .filter(|(_, other)| *other != found)
    .map(|(how, other)| format!("{name}: {found:?}\nand {how} {other:?}\n"))
    .collect()
}

#[test]
fn nodes_are_read_in_runs_and_once() {
    let device = CountDevice::new(MemDevice::from_snapshot(filled()));
    let nodes = check(&device, &CheckOptions::default(), &mut |_| {}).unwrap().summary.nodes;
    let counts = device.counts();
    assert!(nodes > 700, "{nodes} nodes");
    assert!(counts.reads < nodes / 4, "{} reads for {nodes} nodes", counts.reads);
}

fn passes(device: &dyn BlockDevice) -> Vec<Pass> {
    let mut passes = Vec::new();
    check(device, &CheckOptions::default(), &mut |step| passes.push(step.pass)).unwrap();
    passes.dedup();
    passes
}

#[test]
fn passes_start_again_only_where_something_is_wrong() {
    use Pass::{Checkpoint, Nat, Nodes, Sit, Superblock, Totals, Walk};
    let edit = Edit::new(filled());
    assert_eq!(passes(&edit.dev), [Superblock, Checkpoint, Sit, Nat, Nodes, Walk, Totals]);
    edit.summary(edit.slot(edit.lookup("two"), 1), |entry| entry.version = 1);
    let expected =
        [Superblock, Checkpoint, Sit, Nat, Nodes, Walk, Superblock, Checkpoint, Sit, Nat, Walk, Totals];
    assert_eq!(passes(&edit.dev), expected);
}
