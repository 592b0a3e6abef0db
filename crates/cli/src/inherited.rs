//! Descriptors of the caller that the command line names.
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Paths of descriptors, as /dev/fd/7 and /proc/self/fd/7.
const IN_PATH: &[u8] = b"/fd/";
/// The option of `check` with a descriptor.
const COMPLETION: &[u8] = b"-C";

/// Their numbers.
pub fn named(args: &[OsString]) -> Vec<u32> {
    let bytes: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    let in_paths = bytes.iter().flat_map(|arg| {
        let after = |(at, found): (usize, &[u8])| {
            (found == IN_PATH).then(|| arg.get(at + IN_PATH.len()..)).flatten().and_then(number)
        };
        arg.windows(IN_PATH.len()).enumerate().filter_map(after).collect::<Vec<_>>()
    });
    let joined = bytes.iter().filter_map(|arg| number(arg.strip_prefix(COMPLETION)?));
    let following = bytes.windows(2).filter_map(|pair| match pair {
        [COMPLETION, fd] => number(fd),
        _ => None,
    });
    in_paths.chain(joined).chain(following).collect()
}

/// The number that a text begins with.
fn number(text: &[u8]) -> Option<u32> {
    let digits = text.split(|b| !b.is_ascii_digit()).next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_wherever_they_are_named() {
        for (line, numbers) in [
            ("segno check a.img", &[][..]),
            ("segno check /dev/fd/63", &[63]),
            ("mount.fuse.segno /proc/self/fd/7 /mnt -o log=/dev/fd/8,device=/dev/fd/12", &[7, 8, 12]),
            ("segno check -C 5 a.img", &[5]),
            ("segno check -C5 a.img", &[5]),
            ("segno get a.img /fd/x -C", &[]),
            ("segno get a.img /dev/fd/99999999999", &[]),
        ] {
            let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(named(&args), numbers, "{line}");
        }
    }
}
