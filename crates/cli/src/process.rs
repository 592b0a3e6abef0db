//! Processes of this machine, as /proc shows them.
use segno_device::program_name;

/// All but this one.
pub fn others() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&pid| pid != std::process::id())
}

/// Program and number.
pub fn described(pid: u32) -> String {
    format!("{} ({pid})", program_name(pid))
}
