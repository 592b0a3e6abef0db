//! JSON documents that commands print, judged by the schemas in docs/schema with Python's jsonschema.
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};

const JUDGE: &str = include_str!("judge.py");

/// The errors in these documents, each on a line.
///
/// # Errors
/// The package python3-jsonschema of Debian is not installed, or a document or schema is no JSON.
pub fn wrong(documents: &[String]) -> io::Result<String> {
    let schemas = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
    // Not the Python of a virtual environment, which has no packages of Debian.
    let mut judge = Command::new("/usr/bin/python3")
        .args(["-c", JUDGE])
        .arg(schemas)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut input) = judge.stdin.take() {
        input.write_all(documents.join("\0").as_bytes())?;
    }
    let out = judge.wait_with_output()?;
    match out.status.success() {
        true => Ok(String::from_utf8_lossy(&out.stdout).into_owned()),
        false => Err(io::Error::other(String::from_utf8_lossy(&out.stderr).into_owned())),
    }
}
