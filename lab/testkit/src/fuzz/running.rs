//! The run in progress, in a file: it stays there if the run ends the process, and a run without an end does so after a while.
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A run takes milliseconds; one that takes this long hangs, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where findings are kept.
pub(super) fn directory() -> PathBuf {
    std::env::temp_dir().join("segno-fuzz")
}

pub(super) struct Running {
    file: File,
    path: PathBuf,
    number: Arc<AtomicU64>,
}

impl Running {
    pub(super) fn start(name: &str, seed: u64) -> Result<Self, String> {
        let path = directory().join(format!("{name}.{}.running", std::process::id()));
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        std::fs::create_dir_all(directory()).map_err(failed)?;
        let file = File::create(&path).map_err(failed)?;
        file.write_all_at(format!("SEED={seed} RUNS=1 FROM=").as_bytes(), 0).map_err(failed)?;
        let number = Arc::new(AtomicU64::new(0));
        watch(format!("{name}: SEED={seed}"), Arc::downgrade(&number));
        Ok(Self { file, path, number })
    }

    pub(super) fn enter(&self, number: u64) -> Result<(), String> {
        self.number.store(number, Ordering::Relaxed);
        let text = format!("{number:020}\n");
        self.file.write_all_at(text.as_bytes(), 64).map_err(|e| format!("{}: {e}", self.path.display()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is of use only while it is there.
        let _gone = std::fs::remove_file(&self.path);
    }
}

/// A loop in another thread ends with the process only.
fn watch(what: String, number: std::sync::Weak<AtomicU64>) {
    thread::spawn(move || {
        let mut before = None;
        loop {
            thread::sleep(PATIENCE);
            let Some(number) = number.upgrade().map(|n| n.load(Ordering::Relaxed)) else { return };
            if before.replace(number) == Some(number) {
                eprintln!("{what} FROM={number} RUNS=1 does not end");
                std::process::abort();
            }
        }
    });
}
