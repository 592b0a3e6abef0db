//! Extended attributes and ACLs.
//!
//! The attributes of an inode are one byte string: the inline area of its block, followed by the xattr node if there
//! is one. A change builds a new string and stores it whole; the node is allocated and freed as the length requires.
mod acl;
mod acl_ops;
mod area;
mod name;
mod ops;

pub use acl::Acl;
pub use acl_ops::Inherited;
