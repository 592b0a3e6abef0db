//! How requests come from the kernel and replies go back.
pub mod classic;
mod home;
pub mod memory;
pub mod uring;
pub mod way;
