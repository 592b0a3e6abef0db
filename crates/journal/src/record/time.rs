//! Times.
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time as inodes hold it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since 1970, negative before.
    pub secs: i64,
    /// Nanoseconds within the second.
    pub nsec: u32,
}

impl Time {
    /// The time of the standard library, unless it is out of that type's range.
    ///
    /// ```
    /// use segno_journal::record::Time;
    /// use std::time::{Duration, SystemTime};
    /// let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_millis(1_500);
    /// let time = Time::from(before_1970);
    /// assert_eq!(time, Time { secs: -2, nsec: 500_000_000 });
    /// assert_eq!(time.to_system_time(), Some(before_1970));
    /// ```
    #[must_use]
    pub fn to_system_time(self) -> Option<SystemTime> {
        let whole = Duration::from_secs(self.secs.unsigned_abs());
        let base = if self.secs < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        base?.checked_add(Duration::from_nanos(self.nsec.into()))
    }
}

impl From<SystemTime> for Time {
    fn from(t: SystemTime) -> Self {
        match t.duration_since(UNIX_EPOCH) {
            Ok(since) => Self { secs: since.as_secs().cast_signed(), nsec: since.subsec_nanos() },
            Err(e) => {
                let before = e.duration();
                let secs = -before.as_secs().cast_signed();
                match before.subsec_nanos() {
                    0 => Self { secs, nsec: 0 },
                    nsec => Self { secs: secs - 1, nsec: 1_000_000_000 - nsec },
                }
            }
        }
    }
}
