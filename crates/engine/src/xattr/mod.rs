//! Extended attributes and ACLs.
//!
//! The attributes of an inode are one byte string: the inline area of its block, then, if there is one, the xattr node.
//! A change builds the new string and stores it whole; the node comes and goes as the length asks.
mod acl;
mod acl_ops;
mod area;
mod name;
mod ops;

pub(crate) use acl::Acl;
pub(crate) use acl_ops::Inherited;
