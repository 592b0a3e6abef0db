//! Getting at the volume's blocks, with errors that say what failed and where.
mod ahead;
mod device;
mod durable;
mod zones;

pub use device::Device;
use zones::Zones;
