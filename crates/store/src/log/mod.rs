//! The log of commits: its objects, the map, reading, writing, recovery and deletion.
pub(crate) mod commit;
pub(crate) mod commits;
mod compactor;
pub(crate) mod extents;
mod garbage;
pub(crate) mod map;
pub(crate) mod map_record;
pub(crate) mod map_writer;
pub(crate) mod maps;
pub(crate) mod read;
pub(crate) mod recovery;
pub(crate) mod state;
pub(crate) mod upload;
pub(crate) mod volume;
pub(crate) mod writer;
