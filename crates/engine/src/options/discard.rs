//! Values of `discard=`.
use super::Discard;
use segno_format::size;

/// Units of a time, in seconds. Those of a size are upper case or longer.
const UNITS: [(&str, u64); 4] = [("min", 60), ("s", 1), ("h", 60 * 60), ("d", 24 * 60 * 60)];

/// Reads `now`, `never`, `after:24h` or `after:10G`.
pub(super) fn parse(value: &str) -> Result<Discard, String> {
    match (value, value.strip_prefix("after:")) {
        ("now", _) => Ok(Discard::NOW),
        ("never", _) => Ok(Discard::Never),
        (_, Some(after)) => match seconds(after) {
            Some(seconds) => Ok(Discard::AfterSeconds(seconds)),
            None => size::parse(after)
                .map(Discard::AfterBytes)
                .map_err(|_| format!("{after:?} is neither a time nor a size; examples: 24h, 30min, 10G")),
        },
        _ => Err("choose now, never, or after: with a time or a size, such as after:24h or after:10G".into()),
    }
}

fn seconds(text: &str) -> Option<u64> {
    UNITS
        .iter()
        .find_map(|(unit, seconds)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_word_a_time_or_a_size() {
        for (text, rule) in [
            ("now", Discard::AfterSeconds(0)),
            ("never", Discard::Never),
            ("after:90s", Discard::AfterSeconds(90)),
            ("after:30min", Discard::AfterSeconds(1800)),
            ("after:24h", Discard::DAY),
            ("after:7d", Discard::AfterSeconds(604_800)),
            ("after:10G", Discard::AfterBytes(10 << 30)),
            ("after:512m", Discard::AfterBytes(512 << 20)),
        ] {
            assert_eq!(parse(text), Ok(rule), "{text}");
        }
        for text in
            ["", "after", "after:", "after:h", "after:1.5h", "after:99999999999999999999d", "later", "24h"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
