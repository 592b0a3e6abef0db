//! Getting at the volume's blocks, with errors that say what failed and where.
mod device;
mod durable;

pub use device::Device;
use durable::Durable;
