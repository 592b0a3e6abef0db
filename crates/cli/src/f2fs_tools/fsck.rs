//! fsck.f2fs.
use super::call::Call;
use super::{become_program, original};
use crate::exit::{Outcome, WithCode};
use crate::out::stdout;
use crate::path::{on_volume, reason};
use crate::storage::{Storage, StorageOptions};
use anyhow::{Result, ensure};
use segno_device::Mount;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

pub fn run(call: &Call) -> Outcome {
    let wrong = |e| WithCode(call.tool.usage, e);
    let device = call.device().map_err(wrong)?;
    // The kernel's own mount is repaired by the program that was made for it.
    if let (true, Some(original)) = (is_mounted_by_kernel(Path::new(device)), original(call.tool)) {
        return Err(become_program(original, call.tool.name, call.words.clone()));
    }
    if call.has('M') {
        return block_map(Path::new(device));
    }
    crate::program::run_words(words(call, device).map_err(wrong)?)
}

/// `-M`: path and blocks of each regular file, as Android's tools for updates read them.
fn block_map(device: &Path) -> Outcome {
    let storage = StorageOptions::default();
    let volume = Storage::open(device, &storage, true)?.volume()?;
    let mut out = stdout();
    for entry in on_volume(Path::new("/"), volume.walk("/"))? {
        let entry = entry?;
        if !entry.metadata()?.is_file() {
            continue;
        }
        let runs = reason(volume.inode_extents(entry.ino()))?;
        write!(out, "{}", entry.path().display())?;
        for run in runs.iter().filter(|run| run.addr != 0) {
            let (first, last) = (u64::from(run.addr), u64::from(run.addr) + run.len - 1);
            if first == last { write!(out, " {first}")? } else { write!(out, " {first}-{last}")? }
        }
        writeln!(out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn words(call: &Call, device: &OsStr) -> Result<Vec<OsString>> {
    if let Some(value) = call.value('C') {
        // fsck(8) passes a descriptor for progress; newer fsck.f2fs an encoding to switch on.
        let is_descriptor = value.to_str().is_some_and(|v| v.parse::<i32>().is_ok());
        ensure!(is_descriptor, "fsck.f2fs: -C {}: a check switches no features on", value.to_string_lossy());
    }
    let mut words: Vec<OsString> = ["segno", "check"].map(OsString::from).into();
    let repairs = call.has('f') || call.has('y');
    let android = call.value('g').is_some_and(|set| set == "android");
    if call.has('N') || call.has_long("dry-run") {
        words.push("-n".into());
    } else if repairs {
        words.push("-y".into());
    } else if call.has('a') || call.has('p') || android {
        words.push("-a".into());
    }
    if repairs {
        words.push("-f".into());
    }
    if let Some(descriptor) = call.value('C') {
        words.extend(["-C".into(), descriptor.to_owned()]);
    }
    words.extend(["--".into(), device.to_owned()]);
    Ok(words)
}

/// Whether the device of this path is mounted by the kernel's F2FS.
fn is_mounted_by_kernel(device: &Path) -> bool {
    let Ok(device) = device.canonicalize() else { return false };
    let is_it =
        |m: &Mount| m.fstype == "f2fs" && m.source.canonicalize().is_ok_and(|source| source == device);
    Mount::all().is_ok_and(|mounts| mounts.iter().any(is_it))
}
