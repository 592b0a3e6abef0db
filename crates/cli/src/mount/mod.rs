//! Mounting: options, the server in the foreground or background, the mount table.
mod background;
mod broker;
pub mod keeper;
pub mod options;
pub mod remount;
mod server;
pub mod server_process;
pub mod table;
pub mod volume;

pub use background::{Readiness, spawn};
pub use broker::run_if_called as run_broker_if_called;
pub use server::{Plan, mount_device, run};
