//! Detects what counting device accesses cannot: memory use, and loops without device access.
use super::edit::Image;
use std::fs;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// Additional memory beyond this is a violation.
const MEMORY_KIB: u64 = 512 << 10;
/// An image takes milliseconds; one that takes this long hangs, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// Images that run now.
static RUNNING: Mutex<Vec<(u64, Instant, String)>> = Mutex::new(Vec::new());

/// Runs `f`. Fails if it took too much memory; ends the process, naming the image, if it does not end.
pub fn watched<T>(image: &Image, f: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    start_watching();
    let before = peak_kib();
    let id = enter(image);
    let result = f();
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).retain(|r| r.0 != id);
    let grown = peak_kib().saturating_sub(before);
    if grown > MEMORY_KIB {
        return Err(format!("took {} MiB of memory", grown >> 10));
    }
    result
}

fn enter(image: &Image) -> u64 {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let id = running.iter().map(|r| r.0 + 1).max().unwrap_or(0);
    running.push((id, Instant::now(), image.to_string()));
    id
}

/// A thread that looks every few seconds; there is no way to end a loop in another one but to end the process.
fn start_watching() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::thread::spawn(|| {
            let (_never, tick) = channel::<()>();
            while tick.recv_timeout(Duration::from_secs(5)) == Err(RecvTimeoutError::Timeout) {
                let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, _, image)) = running.iter().find(|r| r.1.elapsed() > PATIENCE) {
                    eprintln!("violation: this damaged volume leads to an endless loop:\n{image}");
                    std::process::abort();
                }
            }
        });
    });
}

/// Peak memory of this process in KiB; 0 if the system does not report it.
pub fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
