//! Counts of copied files and bytes: shown as progress, reported at the end.
use crate::exit::{Outcome, Style};
use crate::out::stdout;
use crate::progress::Progress;
use crate::{show, size};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

pub struct Tally {
    files: u64,
    bytes: u64,
    skipped_xattrs: u64,
    /// Exit code if something was not copied.
    failed: Option<ExitCode>,
    progress: Progress,
}

impl Tally {
    pub fn new() -> Self {
        Self { files: 0, bytes: 0, skipped_xattrs: 0, failed: None, progress: Progress::new() }
    }

    /// A file, directory or anything else that has a name.
    pub fn add_file(&mut self, path: &Path) {
        self.files += 1;
        let (files, bytes) = (self.files, self.bytes);
        self.progress.show(|| format!("{files} files, {}  {}", size::human(bytes), show::path(path)));
    }

    pub fn add_bytes(&mut self, n: u64) {
        self.bytes += n;
        let (files, bytes) = (self.files, self.bytes);
        self.progress.show(|| format!("{files} files, {}", size::human(bytes)));
    }

    /// An attribute that the target refused.
    pub fn skip_xattr(&mut self) {
        self.skipped_xattrs += 1;
    }

    /// Something that is left out, and reported at once.
    pub fn fail(&mut self, style: Style, why: anyhow::Error) {
        self.failed = Some(style.report(Err(why)));
    }

    pub fn report(self, as_json: bool) -> Outcome {
        let Self { files, bytes, skipped_xattrs, failed, progress } = self;
        drop(progress);
        if as_json {
            let report = json!({ "files": files, "bytes": bytes, "skipped_xattrs": skipped_xattrs });
            writeln!(stdout(), "{report}")?;
        } else {
            writeln!(
                stdout(),
                "{files} {}, {} of data",
                if files == 1 { "file" } else { "files" },
                size::human(bytes)
            )?;
            if skipped_xattrs > 0 {
                eprintln!("segno: note: {skipped_xattrs} extended attributes could not be copied");
            }
        }
        Ok(failed.unwrap_or(ExitCode::SUCCESS))
    }
}
