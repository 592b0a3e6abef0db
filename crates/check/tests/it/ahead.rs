//! What is read ahead changes how much is read at once, and nothing else.
use crate::image::filled;
use segno_check::{CheckOptions, check};
use segno_device::{BlockDevice, Buffer, MemDevice, Reading};
use segno_format::Block;
use segno_testkit::CountDevice;
use std::io;

/// Refuses to read ahead.
struct NoAhead<'a>(&'a MemDevice);

impl BlockDevice for NoAhead<'_> {
    fn block_count(&self) -> u64 {
        self.0.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        self.0.read(addr, into)
    }
    fn start_read(&self, _addr: u64, into: Buffer) -> Reading {
        Reading::at_once(into, |_| Err(io::Error::other("not ahead")))
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

/// What is wrong if a check that cannot read ahead, and so judges every block in the walk, reports something else.
pub fn compare(name: &str, dev: &MemDevice) -> String {
    let alone = check(&NoAhead(dev), &CheckOptions::default(), &mut |_| {}).map_err(|e| e.to_string());
    let ahead = check(dev, &CheckOptions::default(), &mut |_| {}).map_err(|e| e.to_string());
    if alone == ahead {
        String::new()
    } else {
        format!("{name}: {ahead:?}\nand without reading ahead {alone:?}\n")
    }
}

#[test]
fn nodes_are_read_in_runs_and_once() {
    let device = CountDevice::new(MemDevice::from_snapshot(filled()));
    let nodes = check(&device, &CheckOptions::default(), &mut |_| {}).unwrap().summary.nodes;
    let counts = device.counts();
    assert!(nodes > 700, "{nodes} nodes");
    assert!(counts.reads < nodes / 4, "{} reads for {nodes} nodes", counts.reads);
}
