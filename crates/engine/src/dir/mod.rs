//! Directories: names in dentry blocks, or in the inode itself while there are few.
//!
//! Both homes have one shape with different sizes, so everything but finding the home is done once. A big directory is a
//! multi-level hash table in a sparse file: looking up or inserting a name touches the blocks of one bucket per level.
//! A block whose last name goes is punched out; block 0, with `.` and `..`, stays.
//!
//! Callers hold the directory's lock: shared to look, exclusive to change.
mod chunk;
mod convert;
mod find;
mod insert;
mod name;
mod nokey;
mod readdir;
mod remove;
mod tags;

pub(crate) use find::{Found, Probe, Room};
pub(crate) use name::{DirName, is_dots};
pub(crate) use nokey::encode as encode_nokey;
pub(crate) use tags::Tags;
