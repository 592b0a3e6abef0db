//! An export over its socket, without a virtual machine: the tests are the monitor and the guest's driver.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

mod client;
mod fuse;
mod malformed;
mod messages;
mod random;
mod session;

use client::Client;
use segno_check::{CheckOptions, check};
use segno_device::{FileDevice, OpenOptions};
use segno_engine::{MountOptions, Volume};
use segno_fuse::{GuestOptions, GuestServer};
use segno_mkfs::{Member, MkfsOptions};
use segno_virtiofs::{End, Export, Socket, Stopper};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// A volume in a file.
struct Rig {
    dir: tempfile::TempDir,
    device: Arc<FileDevice>,
    volume: Arc<Volume>,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let device = Arc::new(FileDevice::open(&image, OpenOptions::default()).unwrap());
        let member = Member { device: device.clone(), path: String::new(), zeroed: true };
        segno_mkfs::format(&[member], &MkfsOptions::default()).unwrap();
        let volume = Volume::mount(device.clone(), MountOptions::default()).unwrap();
        Self { dir, device, volume }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// Starts an export, and connects to it.
    fn export(&self) -> (Running, Client) {
        self.export_with(GuestOptions::default())
    }

    fn export_with(&self, options: GuestOptions) -> (Running, Client) {
        let guest = GuestServer::new(self.volume.clone(), options);
        let socket = Socket::bind(&self.socket()).unwrap();
        let export = Export::new(guest, socket, Some("scratch".parse().unwrap()));
        let stopper = export.stopper();
        let thread = thread::spawn(move || export.run().unwrap());
        (Running { thread, stopper }, Client::connect(&self.socket()))
    }

    /// Unmounts, and lets two checkers judge.
    fn assert_clean(self) {
        self.volume.unmount().unwrap();
        let report = check(&*self.device, &CheckOptions::default(), &mut |_| {}).unwrap();
        let found: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
        let image = self.dir.path().join("image");
        segno_testkit::f2fs_tools::assert_clean("after the unmount", &image);
    }
}

/// An export in a thread.
struct Running {
    thread: JoinHandle<End>,
    stopper: Stopper,
}

impl Running {
    fn end(self) -> End {
        self.thread.join().unwrap()
    }

    /// Why the session was cut off.
    #[track_caller]
    fn failure(self) -> String {
        match self.end() {
            End::Failed(why) => why,
            other => panic!("ended as {other:?}"),
        }
    }
}
