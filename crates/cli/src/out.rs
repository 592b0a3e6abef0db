//! Standard output and standard error as text. Names and messages from volumes and hosts are written here without control characters
//! that a terminal obeys: see [`segno_format::text`]. The macros replace `println` and `eprintln` of the standard library in this
//! crate; JSON stays JSON. File contents and archives are written to [`std::io::stdout`] itself.
use crate::document::Schema;
use crate::exit::Style;
use segno_format::text;
use serde_json::Value;
use std::fmt::{Arguments, Display};
use std::io::{self, IsTerminal, StdoutLock, Write};
use std::sync::atomic::{AtomicBool, Ordering};

macro_rules! println {
    ($($arg:tt)*) => { $crate::out::to_stdout(format_args!($($arg)*)) };
}

macro_rules! eprintln {
    ($($arg:tt)*) => { $crate::out::to_stderr(format_args!($($arg)*)) };
}

/// Standard output for text.
pub fn stdout() -> Text {
    Text(io::stdout().lock())
}

/// Passes text on without anything that a terminal obeys but the ends of lines.
pub struct Text(StdoutLock<'static>);

impl Text {
    pub fn is_terminal(&self) -> bool {
        self.0.is_terminal()
    }
}

impl Write for Text {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if text.iter().all(|&b| b == b'\n' || b == b' ' || b.is_ascii_graphic()) {
            return self.0.write(text);
        }
        // Formatting writes whole characters, so none is cut.
        self.0.write_all(text::lines(text).as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Prints elements on standard output, one at a time: as a list in a JSON document, or as text.
pub struct Elements {
    json: Option<DocumentFrame>,
    any: bool,
}

/// A document without the elements of its list. Nothing of it is printed before the first one, or the end: an error may come instead.
struct DocumentFrame {
    before: String,
    after: String,
}

impl Elements {
    /// The list has this key in the document.
    pub fn begin(json: bool, schema: Schema, key: &str) -> io::Result<Self> {
        let around = json.then(|| schema.around(key)).transpose()?;
        Ok(Self { json: around.map(|(before, after)| DocumentFrame { before, after }), any: false })
    }

    /// How errors are reported along with the list.
    pub fn style(&self) -> Style {
        if self.json.is_some() { Style::Json } else { Style::Text }
    }

    pub fn push(&mut self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> io::Result<()> {
        let Some(around) = &self.json else { return write!(stdout(), "{}", text()) };
        let before = if std::mem::replace(&mut self.any, true) { "," } else { &around.before };
        let lines = format!("{:#}", json()).replace('\n', "\n    ");
        write!(stdout(), "{before}\n    {lines}")
    }

    pub fn finish(self) -> io::Result<()> {
        match self.json {
            Some(DocumentFrame { after, .. }) if self.any => write!(stdout(), "\n  {after}"),
            Some(DocumentFrame { before, after }) => write!(stdout(), "{before}{after}"),
            None => Ok(()),
        }
    }
}

/// Prints a report on standard output: a JSON document, or words.
pub fn report(as_json: bool, schema: Schema, json: &Value, words: impl Display) -> io::Result<()> {
    let mut out = stdout();
    if as_json { schema.print(out, json) } else { writeln!(out, "{words}") }
}

/// Prints a line on standard output.
pub fn to_stdout(line: Arguments<'_>) {
    // Standard output has no reader. The rest of the command does not depend on that.
    let _unprinted = writeln!(io::stdout(), "{}", shown(line));
}

/// Prints a line on standard error.
pub fn to_stderr(line: Arguments<'_>) {
    // Nothing is left to report a failure with.
    let _unprinted = writeln!(io::stderr(), "{}", shown(line));
}

/// Whether standard error leads to a log.
static LOGGED: AtomicBool = AtomicBool::new(false);

/// From now on standard error leads to a log.
pub fn is_logged() {
    LOGGED.store(true, Ordering::Release);
}

/// Notes in the log, if there is one, what users of a terminal see for themselves.
pub fn event(line: Arguments<'_>) {
    // The variable of systemd for services whose standard error is the journal.
    if LOGGED.load(Ordering::Acquire) || std::env::var_os("JOURNAL_STREAM").is_some() {
        to_stderr(format_args!("{NOTE}{line}"));
    }
}

/// Begins lines of [`event`] on standard error.
pub const NOTE: &str = "segno: note: ";

fn shown(line: Arguments<'_>) -> String {
    text::line(line.to_string().as_bytes())
}
