//! Volumes in memory, used as a program would.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod adapters;
mod checker;
mod damage;
mod files;
mod image;
mod names;
mod options;
mod paths;
mod unsupported;
mod volumes;

use segno::{Device, FormatOptions, Volume};

/// A formatted device.
fn device() -> Device {
    let device = Device::in_memory(64 << 20);
    segno::format(&device, &FormatOptions::default()).unwrap();
    device
}

/// An open volume, and the device it is on.
fn volume() -> (Volume, Device) {
    let device = device();
    (Volume::open(&device).unwrap(), device)
}

/// Closes the volume and checks what is left.
fn finish(volume: Volume, device: &Device) {
    volume.close().unwrap();
    let report = segno::check(device).unwrap();
    assert!(report.is_clean() && report.summary.clean_unmount, "{:?}", report.problems);
}
