//! mount.f2fs, the helper that mount(8) calls for the type f2fs. Mounts of the kernel are left to the
//! original program.
use super::become_program;
use super::call::Call;
use super::tool::{Effect, Name, Row};
use crate::commands::mount::helper;
use crate::exit::Outcome;
use segno_device::Mount;
use std::ffi::OsString;
use std::path::Path;

/// The option that chooses Segno where the kernel has F2FS.
const CHOICE: &str = "segno";

const fn accepted(letter: char, value: bool) -> Row {
    Row { option: Name::Letter(letter), value, effect: Effect::Own }
}

/// Those of helpers of mount(8).
pub const OPTIONS: &[Row] = &[
    accepted('f', false),
    accepted('n', false),
    accepted('N', true),
    accepted('o', true),
    accepted('r', false),
    accepted('s', false),
    accepted('t', true),
    accepted('v', false),
    accepted('V', false),
    accepted('w', false),
];

pub fn run(call: &Call) -> Outcome {
    let options = options(call);
    let chosen = options.iter().any(|o| o == CHOICE);
    let is_remount = options.iter().any(|o| o == "remount");
    let dir = call.operands.get(1).map(Path::new);
    let held = dir.and_then(mount_at);
    let is_of_kernel = match &held {
        // A remount is that of the mount, a further mount is as the first.
        Some(mount) if is_remount || mount.fstype == "f2fs" => !mount.is_ours(),
        _ => !chosen && kernel_has_f2fs(),
    };
    if is_of_kernel {
        return Err(become_program("mount", "mount", words_of_kernel(call, &options)));
    }
    let rest = options.iter().filter(|o| *o != CHOICE).cloned().collect::<Vec<_>>().join(",");
    let mut words = vec![OsString::from("mount.segno")];
    words.extend(call.operands.iter().cloned());
    for letter in ['f', 'n', 'r', 's', 'v', 'w'].into_iter().filter(|&letter| call.has(letter)) {
        words.push(format!("-{letter}").into());
    }
    if !rest.is_empty() {
        words.extend(["-o".into(), rest.into()]);
    }
    helper::run(&words)
}

fn options(call: &Call) -> Vec<String> {
    let words = call.values('o').map(|o| o.to_string_lossy().into_owned());
    words
        .flat_map(|o| o.split(',').map(str::to_owned).collect::<Vec<_>>())
        .filter(|o| !o.is_empty())
        .collect()
}

/// `-i` keeps mount(8) from calling this helper again.
fn words_of_kernel(call: &Call, options: &[String]) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["-i", "-t", "f2fs"].map(OsString::from).into();
    for letter in ['f', 'n', 'r', 's', 'v', 'w'].into_iter().filter(|&letter| call.has(letter)) {
        words.push(format!("-{letter}").into());
    }
    if let Some(namespace) = call.value('N') {
        words.extend(["-N".into(), namespace.to_owned()]);
    }
    if !options.is_empty() {
        words.extend(["-o".into(), options.join(",").into()]);
    }
    words.push("--".into());
    words.extend(call.operands.iter().cloned());
    words
}

/// The newest mount at a directory.
fn mount_at(dir: &Path) -> Option<Mount> {
    let at = dir.canonicalize().or_else(|_| std::path::absolute(dir)).ok()?;
    Mount::all().ok()?.into_iter().rev().find(|m| m.dir == at)
}

/// Whether the kernel has F2FS, in itself, loaded, or as a module that it loads when it is asked for.
fn kernel_has_f2fs() -> bool {
    let has = |path: &str, is_it: fn(&str) -> bool| {
        std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(is_it))
    };
    if has("/proc/filesystems", |line| line.trim() == "f2fs") {
        return true;
    }
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let modules = format!("/lib/modules/{}/modules.dep", release.trim());
    has(&modules, |line| {
        line.split(':').next().is_some_and(|m| m.rsplit('/').next().is_some_and(|n| n.starts_with("f2fs.ko")))
    })
}
