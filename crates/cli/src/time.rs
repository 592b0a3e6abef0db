//! Times as text, in UTC: names of time zones belong to a machine.
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Error, Timestamp};
use segno::Time;

/// To the second, as `2026-11-20 13:05:09`.
pub fn text(t: Time) -> String {
    match Timestamp::from_second(t.secs) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => format!("second {}", t.secs),
    }
}

/// Of a date, a date and a time, also with an offset from UTC, or of @ and seconds since 1970.
pub fn parse(text: &str) -> Result<Time, String> {
    let bad = || {
        format!(
            "{text:?} is no time; examples: 2026-11-20, \"2026-11-20 13:05\", 2026-11-20T13:05:09.5Z, @1795179909"
        )
    };
    match text.strip_prefix('@') {
        Some(secs) => secs.parse().map(|secs| Time { secs, nsec: 0 }).map_err(|_| bad()),
        None => text.parse().or_else(|_| in_utc(text.parse())).map(time).map_err(|_| bad()),
    }
}

/// Seconds since 1970 of a number, or of a time.
pub fn seconds(text: &str) -> Result<u64, String> {
    let bad = |_| format!("{text:?} is before 1970");
    text.parse().or_else(|_| u64::try_from(parse(text)?.secs).map_err(bad))
}

/// Of the stamp of touch(1), `[[CC]YY]MMDDhhmm[.ss]`.
pub fn stamp(text: &str) -> Result<Time, String> {
    let (minutes, second) = text.split_once('.').unwrap_or((text, "00"));
    let century = || if minutes < "69" { "20" } else { "19" };
    let before = match minutes.len() {
        12 => String::new(),
        10 => century().into(),
        _ => Timestamp::now().strftime("%Y").to_string(),
    };
    let full = format!("{before}{minutes}{second}");
    let is_stamp = full.len() == 14 && full.bytes().all(|b| b.is_ascii_digit());
    let parsed = in_utc(DateTime::strptime("%Y%m%d%H%M%S", &full)).ok().filter(|_| is_stamp);
    parsed
        .map(time)
        .ok_or_else(|| format!("{text:?} is no stamp; examples: 202611201305, 2611201305.09, 11201305"))
}

fn in_utc(parsed: Result<DateTime, Error>) -> Result<Timestamp, Error> {
    TimeZone::UTC.to_timestamp(parsed?)
}

/// Seconds and, after them, nanoseconds.
fn time(parsed: Timestamp) -> Time {
    let nanoseconds = parsed.as_nanosecond();
    let part = |n: i128| u32::try_from(n).unwrap_or_default();
    Time {
        secs: parsed.as_second() - i64::from(parsed.subsec_nanosecond() < 0),
        nsec: part(nanoseconds.rem_euclid(1_000_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_times() {
        for (text, secs, nsec) in [
            ("@1795179909", 1_795_179_909, 0),
            ("2026-11-20 13:05:09", 1_795_179_909, 0),
            ("2026-11-20 13:05:09.25", 1_795_179_909, 250_000_000),
            ("2026-11-20T14:05:09+01:00", 1_795_179_909, 0),
            ("2000-02-29", 951_782_400, 0),
            ("1970-01-01T00:01", 60, 0),
            ("1969-12-31 23:59:58.5", -2, 500_000_000),
            ("2100-03-01", 4_107_542_400, 0),
        ] {
            assert_eq!(parse(text), Ok(Time { secs, nsec }), "{text}");
        }
        for text in ["", "yesterday", "2026-13-01", "2026-11", "2026-02-29", "2026-11-20 25:00", "-5"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(seconds("1795179909"), Ok(1_795_179_909));
        assert_eq!(seconds("1970-01-01T00:01"), Ok(60));
        assert!(seconds("1969-12-31").is_err());
    }

    #[test]
    fn stamps_are_times() {
        for (text, secs) in [
            ("202611201305.09", 1_795_179_909),
            ("202611201305", 1_795_179_900),
            ("2611201305.09", 1_795_179_909),
            ("7001010001", 60),
        ] {
            assert_eq!(stamp(text), Ok(Time { secs, nsec: 0 }), "{text}");
        }
        for text in ["", "2026", "202613201305", "20261120130", "2026-1-20130", "202611201305.9"] {
            assert!(stamp(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_dates() {
        for (secs, expected) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_795_179_909, "2026-11-20 13:05:09"),
            (-1, "1969-12-31 23:59:59"),
            (4_107_542_400, "2100-03-01 00:00:00"),
            (i64::MAX, "second 9223372036854775807"),
        ] {
            assert_eq!(text(Time { secs, nsec: 0 }), expected);
        }
    }
}
