//! Counts of copied files and bytes: shown as progress, reported at the end.
use crate::document::Schema;
use crate::exit::{Outcome, Style};
use crate::out::stdout;
use crate::preserve;
use crate::progress::Progress;
use crate::show;
use segno_format::size;
use segno_host::LeftOut;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

#[derive(Default)]
pub struct Tally {
    files: u64,
    bytes: u64,
    skipped_xattrs: u64,
    /// Exit code if something was not copied.
    failed: Option<ExitCode>,
    /// Nothing if a volume is the target, which gets everything.
    left_out: Option<LeftOut>,
    progress: Progress,
}

impl Tally {
    /// A file, directory or anything else that has a name.
    pub fn add_file(&mut self, path: &Path) {
        self.files += 1;
        self.progress.show_files(self.files, self.bytes, || show::path(path));
    }

    pub fn add_bytes(&mut self, n: u64) {
        self.bytes += n;
        let (files, bytes) = (self.files, self.bytes);
        self.progress.show(|| format!("{files} files, {}", size::human(bytes)));
    }

    /// Attributes that the target refused.
    pub fn skip_xattrs(&mut self, n: u32) {
        self.skipped_xattrs += u64::from(n);
    }

    /// Properties that files on the host did not get.
    pub fn leave_out(&mut self, left_out: LeftOut) {
        self.left_out = Some(left_out);
    }

    /// Something that is left out, and reported at once.
    pub fn fail(&mut self, style: Style, why: anyhow::Error) {
        self.failed = Some(style.report(Err(why)));
    }

    pub fn report(self, as_json: bool, schema: Schema) -> Outcome {
        let Self { files, bytes, skipped_xattrs, failed, left_out, progress } = self;
        drop(progress);
        if as_json {
            let mut report = json!({ "files": files, "bytes": bytes, "skipped_xattrs": skipped_xattrs });
            if let Some(left_out) = left_out {
                report["left_out"] = json!(left_out);
            }
            schema.print(stdout(), &report)?;
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
            left_out.iter().for_each(preserve::note);
        }
        Ok(failed.unwrap_or(ExitCode::SUCCESS))
    }
}
