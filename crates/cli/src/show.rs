//! Formatting of attributes: modes, times, device numbers, names.
use segno::{FileType, InodeFlags, Metadata, Time};
use segno_clean::guard::Guarded;
use segno_format::text;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The number of nodes up to which cleaning always finds space.
pub fn guarded(guarded: Guarded) -> String {
    match guarded {
        Guarded::All => "guarded up to any number of nodes".into(),
        Guarded::UpTo(nodes) => format!("guarded up to {nodes} nodes"),
        Guarded::Never => "not guarded".into(),
    }
}

/// A mode as ls(1) shows it.
pub fn mode(mode: u32, kind: FileType) -> String {
    let letter = match kind {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::CharDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
        FileType::Symlink => 'l',
        FileType::Unknown => '?',
    };
    let mut out = String::from(letter);
    for (shift, special, with_x, without_x) in
        [(6, 0o4000, 's', 'S'), (3, 0o2000, 's', 'S'), (0, 0o1000, 't', 'T')]
    {
        let bits = mode >> shift;
        out.push(if bits & 4 != 0 { 'r' } else { '-' });
        out.push(if bits & 2 != 0 { 'w' } else { '-' });
        out.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => with_x,
            (true, false) => without_x,
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    out
}

/// A time in UTC to the second, as `2026-11-20 13:05:09`.
pub fn time(t: Time) -> String {
    let (days, second) = (t.secs.div_euclid(86_400), t.secs.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// The date of a day counted from 1970-01-01, in the proleptic Gregorian calendar. Years are counted from March, so that
/// the leap day is the last one.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(719_468);
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Seconds since 1970 of a number, or of a date in UTC as [`time`] prints it.
pub fn parse_time(text: &str) -> Result<u64, String> {
    if let Ok(secs) = text.parse() {
        return Ok(secs);
    }
    let bad = || format!("{text:?} is no time; examples: 1795179909, 2026-11-20, \"2026-11-20 13:05\"");
    let (date, clock) = text.split_once([' ', 'T']).unwrap_or((text, "0:0"));
    let numbers = |text: &str, by| text.split(by).map(str::parse).collect::<Result<Vec<i64>, _>>();
    let (date, clock) = (numbers(date, '-').map_err(|_| bad())?, numbers(clock, ':').map_err(|_| bad())?);
    let (&[year, month, day], &[hour, minute, ref second @ ..]) = (date.as_slice(), clock.as_slice()) else {
        return Err(bad());
    };
    let inside = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let second = second.first().copied().unwrap_or(0);
    if !inside || !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..61).contains(&second) {
        return Err(bad());
    }
    // Years are counted from March, so that the leap day is the last one.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 - 719_468;
    u64::try_from(days * 86_400 + hour * 3600 + minute * 60 + second).map_err(|_| bad())
}

/// Names of the file flags, as far as they have one.
pub fn flags(flags: InodeFlags) -> Vec<String> {
    flags.iter_names().map(|(name, _)| name.to_ascii_lowercase()).collect()
}

/// A path for people, on one line.
pub fn path(path: &Path) -> String {
    text::name(path.as_os_str().as_bytes())
}

/// Puts names under a key, and their bytes under `KEY_bytes` if any is not UTF-8.
pub fn put_names(object: &mut Map<String, Value>, key: &str, names: &[OsString]) {
    let (text, hex): (Vec<_>, Vec<_>) = names.iter().map(|name| text::field(name.as_bytes())).unzip();
    object.insert(key.into(), json!(text));
    if hex.iter().any(Option::is_some) {
        object.insert(format!("{key}_bytes"), json!(hex));
    }
}

/// All attributes, with the names of stat(2).
pub fn attr_json(m: &Metadata) -> Value {
    let time = |t: Time| json!({ "sec": t.secs, "nsec": t.nsec });
    let (major, minor) = m.device_number();
    json!({
        "ino": m.ino(),
        "generation": m.generation(),
        "type": m.file_type().name(),
        "mode": format!("{:o}", m.mode()),
        "nlink": m.nlink(),
        "uid": m.uid(),
        "gid": m.gid(),
        "rdev": [major, minor],
        "size": m.len(),
        "blocks": m.blocks(),
        "atime": time(m.accessed()),
        "mtime": time(m.modified()),
        "ctime": time(m.changed()),
        "crtime": m.created().map(time),
        "flags": flags(m.flags()),
        "projid": m.project(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_look_as_in_ls() {
        for (bits, of, text) in [
            (0o644, FileType::Regular, "-rw-r--r--"),
            (0o1777, FileType::Directory, "drwxrwxrwt"),
            (0o4755, FileType::Regular, "-rwsr-xr-x"),
            (0o6644, FileType::Regular, "-rwSr-Sr--"),
            (0o777, FileType::Symlink, "lrwxrwxrwx"),
        ] {
            assert_eq!(mode(bits, of), text);
        }
    }

    #[test]
    fn dates_are_times() {
        for (text, secs) in [
            ("1795179909", 1_795_179_909),
            ("2026-11-20 13:05:09", 1_795_179_909),
            ("2000-02-29", 951_782_400),
            ("1970-01-01T00:01", 60),
            ("2100-03-01", 4_107_542_400),
        ] {
            assert_eq!(parse_time(text), Ok(secs), "{text}");
        }
        for text in ["", "yesterday", "2026-13-01", "2026-11", "2026-11-20 25:00", "-5"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_dates() {
        for (secs, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_795_179_909, "2026-11-20 13:05:09"),
            (-1, "1969-12-31 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(time(Time { secs, nsec: 0 }), text);
        }
    }
}
