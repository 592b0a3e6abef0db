//! Mounting: options, the server in the foreground or background, the mount table.
mod background;
pub mod options;
pub mod remount;
mod server;
pub mod server_process;
pub mod supervisor;
pub mod table;
pub mod volume;

pub use background::{Readiness, Systemd, spawn};
pub use server::{Plan, mount_device, mount_file_system, run};
