//! Options as fsck(8) and its callers pass them: bundled, with values attached.
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

const NAME: &str = "fsck.segno";
/// Options whose value is the rest of their word, or the next word.
const WITH_VALUE: &[u8] = b"Cdc";

/// The command line as `segno check` takes it, if this is such a call.
pub fn of_check(args: &[OsString]) -> Option<Vec<OsString>> {
    let name = args.first().and_then(|a| Path::new(a).file_name());
    if name.is_some_and(|n| n == OsStr::new(NAME)) {
        let command = ["segno", "check"].map(OsString::from);
        return Some(command.into_iter().chain(split(args.get(1..).unwrap_or_default())).collect());
    }
    let (command, options) = args.split_at_checked(2)?;
    let is_check = command.get(1).is_some_and(|c| c == "check");
    is_check.then(|| command.iter().cloned().chain(split(options)).collect())
}

/// Splits bundled options. A digit is part of `-p`, anything else after it is the next option.
fn split(args: &[OsString]) -> Vec<OsString> {
    let mut out = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_bytes() {
            b"--" => {
                out.push(arg.clone());
                out.extend(args.by_ref().cloned());
            }
            [b'-', first, rest @ ..] if *first != b'-' => bundle(*first, rest, &mut out),
            _ => out.push(arg.clone()),
        }
    }
    out
}

fn bundle(mut option: u8, mut rest: &[u8], out: &mut Vec<OsString>) {
    loop {
        out.push(OsString::from_vec(vec![b'-', option]));
        if WITH_VALUE.contains(&option) {
            if !rest.is_empty() {
                out.push(OsStr::from_bytes(rest).to_owned());
            }
            return;
        }
        if let (b'p', Some((b'0'..=b'9', after))) = (option, rest.split_first()) {
            rest = after;
        }
        let Some((&next, after)) = rest.split_first() else { return };
        (option, rest) = (next, after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(args: &str) -> String {
        let args: Vec<OsString> = args.split(' ').map(OsString::from).collect();
        let out = of_check(&args).unwrap_or_default();
        out.iter().map(|a| a.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
    }

    /// fsck.f2fs loops for ever on `-pf` and `-py`, and takes the word after `-p` for its value.
    #[test]
    fn bundled_options() {
        for (given, expected) in [
            ("segno check -pf IMAGE", "segno check -p -f IMAGE"),
            ("segno check -p0y IMAGE", "segno check -p -y IMAGE"),
            ("/sbin/fsck.segno -a -C5 IMAGE", "segno check -a -C 5 IMAGE"),
            ("/sbin/fsck.segno -fd3 -c 100 IMAGE", "segno check -f -d 3 -c 100 IMAGE"),
            ("fsck.segno -- -pf", "segno check -- -pf"),
            ("segno check --dry-run -C -1 IMAGE", "segno check --dry-run -C -1 IMAGE"),
            ("segno ls -la IMAGE", ""),
        ] {
            assert_eq!(words(given), expected);
        }
    }
}
