//! The installed f2fs-tools, an implementation that is not ours.
use crate::decoders;
use segno_device::{BlockDevice, DeviceError, FileDevice, OpenOptions};
use segno_format::{BLOCK_SIZE, Block};
use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Where distributions put tools that administer a system; not in every user's `PATH`.
const ADMIN_DIRS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Paths at which a program may be installed.
pub fn places(name: &str) -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).chain(ADMIN_DIRS.map(PathBuf::from)).collect();
    dirs.into_iter().map(move |dir| dir.join(name))
}

/// A call of a program of f2fs-tools, without standard input. `segno` may be installed under the same name;
/// its version text identifies it.
pub fn command(tool: &str) -> Result<Command, String> {
    let program = places(tool).find(|file| is_of_f2fs_tools(file, tool));
    let program = program
        .ok_or_else(|| format!("{tool} of f2fs-tools is not installed (Debian package: f2fs-tools)"))?;
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    Ok(command)
}

fn is_of_f2fs_tools(file: &Path, tool: &str) -> bool {
    let said = Command::new(file).arg("-V").stdin(Stdio::null()).output();
    said.is_ok_and(|out| text(&out).starts_with(&format!("{tool} 1.")) && !text(&out).contains("segno"))
}

/// Runs a tool to its end.
pub fn run(tool: &str, args: &[impl AsRef<OsStr>], devices: &[impl AsRef<Path>]) -> Result<Output, String> {
    let devices = devices.iter().map(AsRef::as_ref);
    command(tool)?.args(args).args(devices).output().map_err(|e| format!("{tool}: {e}"))
}

/// Runs a tool, and panics unless it succeeds.
#[allow(clippy::panic, reason = "an assertion")]
#[track_caller]
pub fn succeed(tool: &str, args: &[impl AsRef<OsStr> + std::fmt::Debug]) {
    match run(tool, args, &[] as &[&Path]) {
        Ok(done) if done.status.success() => {}
        Ok(done) => panic!("{tool} {args:?}: {}\n{}", done.status, text(&done)),
        Err(e) => panic!("{e}"),
    }
}

/// Standard output, then standard error.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The verdict of fsck.f2fs.
pub struct Fsck {
    /// Lines that report damage, or that the check was not completed.
    pub findings: Vec<String>,
    pub output: String,
}

impl Fsck {
    /// An error with the first finding, if there is one.
    pub fn verdict(&self) -> Result<(), String> {
        match self.findings.as_slice() {
            [] => Ok(()),
            [first, ..] => Err(format!("{} findings of fsck.f2fs, the first: {first}", self.findings.len())),
        }
    }
}

/// Runs `fsck.f2fs -f --dry-run`. Other devices of the volume are found by the paths in the superblock, from `dir` on.
pub fn fsck_in(dir: &Path, first: &Path) -> Result<Fsck, String> {
    let mut command = command("fsck.f2fs")?;
    let done = command.args(["-f", "--dry-run"]).arg(first).current_dir(dir).output();
    let done = done.map_err(|e| format!("fsck.f2fs: {e}"))?;
    let output = text(&done);
    let mut findings = findings(&output);
    if !done.status.success() {
        findings.push(format!("fsck.f2fs ended with {}", done.status));
    }
    Ok(Fsck { findings, output })
}

/// Runs `fsck.f2fs -f --dry-run`.
pub fn fsck(first: &Path) -> Result<Fsck, String> {
    fsck_in(Path::new("."), first)
}

/// Panics unless fsck.f2fs checks the volume to the end and finds nothing.
#[allow(clippy::panic, reason = "an assertion")]
#[track_caller]
pub fn assert_clean(context: &str, first: &Path) {
    let judged = fsck(first).and_then(|fsck| fsck.verdict().map_err(|e| format!("{e}\n{}", fsck.output)));
    if let Err(e) = judged.and_then(|()| decoders_agree(first)) {
        panic!("{context}: {e}");
    }
}

/// For a volume on one device that no other process has open.
fn decoders_agree(first: &Path) -> Result<(), String> {
    match segno_device::open_volume(&[first], OpenOptions { read_only: true, direct: false }) {
        Ok(device) => decoders::compare(&*device).map(drop),
        Err(DeviceError::InUse { .. } | DeviceError::NotNamed { .. } | DeviceError::MemberCount { .. }) => {
            Ok(())
        }
        Err(e) => Err(e.to_string()),
    }
}

/// Copies blocks of a device to a new file, with holes for zeros.
pub fn copy(device: &dyn BlockDevice, blocks: Range<u64>, to: &Path) -> io::Result<()> {
    const PIECE: u64 = 512;
    std::fs::File::create(to)?.set_len((blocks.end - blocks.start) * BLOCK_SIZE as u64)?;
    let file = FileDevice::open(to, OpenOptions::default()).map_err(io::Error::other)?;
    let mut read = vec![Block::zeroed(); PIECE as usize];
    for start in blocks.clone().step_by(read.len()) {
        let count = (blocks.end - start).min(PIECE) as usize;
        let Some(piece) = read.get_mut(..count) else { continue };
        device.read(start, piece)?;
        for (addr, block) in (start..).zip(piece.iter()).filter(|(_, block)| !block.is_zero()) {
            file.write(addr - blocks.start, &[block])?;
        }
    }
    Ok(())
}

/// [`assert_clean`] of a volume on one device that is not a file.
#[allow(clippy::panic, reason = "an assertion")]
#[track_caller]
pub fn assert_device_clean(context: &str, device: &dyn BlockDevice) {
    let copied = tempfile::tempdir().and_then(|dir| {
        copy(device, 0..device.block_count(), &dir.path().join("image"))?;
        Ok(dir)
    });
    match copied {
        Ok(dir) => assert_clean(context, &dir.path().join("image")),
        Err(e) => panic!("{context}: the volume cannot be copied: {e}"),
    }
}

fn findings(output: &str) -> Vec<String> {
    const BAD: [&str; 8] =
        ["[ASSERT]", "[FIX]", "[Fail]", "[ERROR]", "\tError", "Fixing", "Invalid", "mismatch"];
    let bad = |line: &&str| BAD.iter().any(|word| line.contains(word)) || line.starts_with("Error");
    // Linux before 6.0 stores 1 there; newer versions of the tool do not call it a fix.
    let counts = |line: &&str| bad(line) && !line.contains("reset i_gc_failures");
    let mut findings: Vec<String> = output.lines().filter(counts).map(|l| l.trim_end().to_owned()).collect();
    let last_step = output.lines().any(|line| line.starts_with("[FSCK] other corrupted bugs"));
    if !last_step {
        let last = output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        findings.push(format!("the check was not made to its end; it last said: {last}"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{command, findings, is_of_f2fs_tools};

    const CLEAN: &str = "[FSCK] Unreachable nat entries                        [Ok..] [0x0]\n\
        [FSCK] other corrupted bugs                           [Ok..]\n\nDone: 0.000000 secs\n";

    #[test]
    fn a_clean_run_has_no_findings() {
        assert!(findings(CLEAN).is_empty());
    }

    #[test]
    fn damage_is_found() {
        let damaged = format!("[ASSERT] (sanity_check_nid: 471)  --> nid[0x5] ino is 0\n{CLEAN}");
        assert_eq!(findings(&damaged).len(), 1);
        assert_eq!(findings(&CLEAN.replace("[Ok..]", "[Fail]")).len(), 2);
    }

    #[test]
    fn a_check_that_stopped_early_is_no_pass() {
        assert_eq!(findings("Info: Dry run\n\tCan't find a valid F2FS superblock at 0x0\n").len(), 1);
    }

    #[test]
    fn a_program_of_the_same_name_is_not_taken_for_theirs() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("fsck.f2fs");
        std::os::unix::fs::symlink("/bin/true", &other).unwrap();
        assert!(!is_of_f2fs_tools(&other, "fsck.f2fs"));
        let theirs = command("fsck.f2fs").unwrap();
        assert!(is_of_f2fs_tools(theirs.get_program().as_ref(), "fsck.f2fs"));
    }

    /// They call the program that `xtask f2fs-tool` prints.
    #[test]
    fn scripts_do_not_call_a_program_of_f2fs_tools_by_its_name() {
        let scripts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
        let mut read = 0;
        for script in std::fs::read_dir(scripts).unwrap().map(|entry| entry.unwrap().path()) {
            // It installs both.
            if script.ends_with("package-test") || script.is_dir() {
                continue;
            }
            let text = std::fs::read_to_string(&script).unwrap();
            for name in ["mkfs.f2fs", "fsck.f2fs", "dump.f2fs", "sload.f2fs"] {
                let calls = |line: &str| {
                    line.trim_start().starts_with(&format!("{name} "))
                        || line.contains(&format!("[\"{name}\""))
                };
                assert_eq!(text.lines().find(|line| calls(line)), None, "{}", script.display());
            }
            read += 1;
        }
        assert!(read > 30, "{read} scripts");
    }
}
