//! Everything reaches storage through [`BlockDevice`]: image files, block devices, memory, and several of them joined.
#![deny(unsafe_code)]
#![warn(clippy::indexing_slicing)]
#![warn(missing_docs, unreachable_pub)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

mod aio;
mod aligned;
mod block_device;
mod blocks;
mod bounds;
mod contents;
mod descriptors;
mod error;
mod exclusion;
mod exclusive_open;
mod file;
mod host_storage;
mod host_zones;
mod in_use_by;
mod ioctl;
mod local_socket;
mod location;
mod memory;
mod multi;
mod open_options;
mod operation;
mod overlay;
mod part_error;
mod probe;
mod read_around;
mod reading;
mod recorded;
mod removable;
mod search;
mod sparse;
mod start;
mod storage_kind;
mod stream;
mod volume;
mod wait;
mod window;
mod zone;

pub use aligned::Buffer;
pub use block_device::BlockDevice;
pub use blocks::ReadError;
pub use bounds::check as check_bounds;
pub use contents::{Contents, JOURNAL_MAGIC, unfinished_format};
pub use descriptors::close_inherited;
pub use error::DeviceError;
pub use exclusion::{Hold, Mount, Other, STAND_IN_OFFSET, Use, hold, program_name, share_storage};
pub use exclusive_open::ExclusiveOpen;
pub use file::FileDevice;
pub use host_storage::HostStorage;
pub use in_use_by::InUseBy;
pub use local_socket::listen_locally;
pub use location::{Location, Partition, Table, table};
pub use memory::{MemDevice, Snapshot};
pub use multi::MultiDevice;
pub use open_options::OpenOptions;
pub use operation::Operation;
pub use overlay::{FailedRead, Overlay};
pub use part_error::{PartError, TableKind};
pub use probe::{Probe, probe};
pub use reading::Reading;
pub use removable::is_removable;
pub use sparse::{observe_partition, observe_storage, open_storage};
pub use storage_kind::StorageKind;
pub use stream::StreamDevice;
pub use volume::{open_volume, open_volume_recorded, open_without_superblock, require_superblock};
pub use wait::before_waits;
pub use window::WindowDevice;
pub use zone::{Zone, ZoneCondition, ZoneKind, ZoneLimits};
