//! Test devices, and the random generator of tests, simulator, experiments and models. The product never depends on this
//! crate.
//!
//! * [`RecordDevice`] keeps a log of everything that changes a device, [`CrashLog`] and [`CrashStates`] build the devices
//!   that a power cut can leave; a [`Window`] is a part of the device that is flushed apart from the others
//! * [`FaultDevice`] fails calls according to a plan, [`CountDevice`] counts calls and blocks, [`ModelDevice`] delays them like
//!   a device with parallel channels, [`PauseDevice`] runs hooks inside them
//! * [`forward`] writes the calls that the device of a single test passes on
//! * [`ZonedDevice`] enforces the rules of zoned devices in memory
//! * [`decoders`] compares what `check` and `layout` read from a volume
//! * [`documents`] judges the JSON of commands by the schemas of docs/schema
//! * [`f2fs_tools`] runs the installed f2fs-tools, whose verdict on a volume is the same in all tests
//! * [`fuzz`] drives fuzz targets, [`memory`] counts what a thread allocates, [`caught`] turns panics into errors
//! * [`OPEN_FUSE`] lets users mount where only root may
//! * [`Archive`], [`stored`] and [`super_image`] make archives, objects of stores and images of Android that no program here writes
//! * [`blocks`] writes, reads and compares blocks filled with one byte each
#![deny(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

pub mod archive;
pub mod blocks;
mod catch_panic;
mod count;
mod crash;
pub mod decoders;
pub mod documents;
pub mod f2fs_tools;
mod fault;
mod forward;
pub mod fuzz;
pub mod memory;
mod model;
mod pause;
mod record;
pub mod rng;
pub mod stored;
pub mod super_image;
mod window;
mod zipf;
mod zoned;

pub use archive::Archive;
pub use catch_panic::caught;
pub use count::{CountDevice, Counts};
pub use crash::{CrashChoice, CrashLog, CrashPlan, CrashState, CrashStates, Kept};
pub use fault::{Fault, FaultCall, FaultDevice, FaultError};
pub use model::{ModelDevice, Speed};
pub use pause::{Call, PauseDevice};
pub use record::{Event, RecordDevice};
pub use rng::Rng;
pub use window::{FlushRegion, Window};
pub use zipf::Zipf;
pub use zoned::{ZoneCounts, ZoneShape, ZonedDevice};

/// Shell commands of root that make /dev/fuse a device of all users in this mount namespace. `$D` is a directory for it.
pub const OPEN_FUSE: &str = "mknod $D/fuse c 10 229 && chmod 666 $D/fuse && mount --bind $D/fuse /dev/fuse";
