//! Which data log a block goes to, so that blocks which become invalid at about the same time share sections.
//!
//! The section of the copy that a write replaces shows when that copy was written, to within the time that a
//! section stays open. So a block needs no stamp, and a section only one, for its opening.

/// A data log; sections keep it as their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataLog {
    /// Overwritten soon.
    Hot,
    /// Of unknown lifetime.
    Warm,
    /// Valid for long.
    Cold,
}

impl DataLog {
    /// All, in the order of the format.
    pub const ALL: [Self; 3] = [Self::Hot, Self::Warm, Self::Cold];

    /// The log to write to instead if this one may open no section: the log of the nearest lifetime among
    /// those with room, and of two equally near the one with less room.
    #[must_use]
    pub fn shared(self, room: [u64; 3]) -> Option<Self> {
        let distance = |log: Self| log.idx().abs_diff(self.idx());
        let others = Self::ALL.into_iter().zip(room).filter(|&(log, room)| log != self && room > 0);
        others.min_by_key(|&(log, room)| (distance(log), room)).map(|(log, _)| log)
    }

    /// Its place among the data logs.
    fn idx(self) -> usize {
        self as usize
    }
}

/// The section of the copy that a write replaces.
#[derive(Clone, Copy, Debug)]
pub struct OldCopy {
    /// The log that wrote it.
    pub log: DataLog,
    /// Its opening stamp.
    pub opened: u64,
}

/// Number of hot sections whose mean lifetime is the limit for hot blocks.
const LAST: usize = 16;
/// The hot log justifies its open section if it gets this share of the written blocks, in percent.
const WORTH: std::ops::RangeInclusive<u64> = 5..=80;
/// Rate of overwrites of young blocks, which were never moved, relative to that of all valid blocks, in percent. The
/// hot log helps from this ratio on.
const SKEWED: u64 = 125;
/// Range of the same ratio in which writes count as evenly spread.
const EVEN: std::ops::RangeInclusive<u64> = 90..=110;
/// Consecutive periods in that range before writes count as even; a single one may be transient.
const STEADY: u32 = 4;

/// Chooses data logs by lifetime.
#[derive(Clone, Debug, Default)]
pub struct Lifetimes {
    /// Lifetimes of hot sections from opening until nothing in them was valid; a ring.
    last: [u64; LAST],
    ended: usize,
    /// Blocks written in this period: all, and the share of the hot log, also while the log is suspended.
    blocks: u64,
    hot: u64,
    /// Blocks overwritten in this period, by the log that holds the old copy.
    overwritten: [u64; 3],
    /// Valid blocks of hot, warm and cold sections when it began.
    valid: Option<[u64; 3]>,
    /// Blocks of a period: as many as the sections that the limit is taken from.
    period: u64,
    /// Last periods in a row in which overwrites hit all blocks equally often.
    even: u32,
    /// Whether there is nothing to separate: user blocks are warm then, moved ones cold.
    suspended: bool,
}

impl Lifetimes {
    /// For sections of `per_sec` blocks.
    #[must_use]
    pub fn new(per_sec: u32) -> Self {
        let period = u64::from(per_sec.max(1)) * LAST as u64;
        Self { period, suspended: true, ..Self::default() }
    }

    /// The log for a block that is written; `now` is the clock of opening stamps. `valid` counts the valid
    /// blocks of hot, warm and cold sections.
    pub fn written(&mut self, old: Option<OldCopy>, now: u64, valid: [u64; 3]) -> DataLog {
        let young = |opened: u64| self.limit().is_none_or(|limit| now.saturating_sub(opened) < limit);
        // A copy in a cold section has survived cleaning.
        let hot = old.is_some_and(|old| old.log != DataLog::Cold && young(old.opened));
        self.blocks += 1;
        if hot {
            self.hot += 1;
        }
        if let Some(n) = old.and_then(|old| self.overwritten.get_mut(old.log.idx())) {
            *n += 1;
        }
        if self.blocks >= self.period {
            self.end_period(valid);
        }
        if hot && !self.suspended { DataLog::Hot } else { DataLog::Warm }
    }

    /// The log for blocks that cleaning moves out of a section.
    #[must_use]
    pub fn moved(&self, from: DataLog) -> DataLog {
        if from == DataLog::Hot && !self.suspended { DataLog::Warm } else { DataLog::Cold }
    }

    /// Records that a hot section has no valid block any more.
    pub fn hot_ended(&mut self, opened: u64, now: u64) {
        if let Some(slot) = self.last.get_mut(self.ended % LAST) {
            *slot = now.saturating_sub(opened);
        }
        self.ended += 1;
    }

    /// Mean lifetime of the last hot sections, below which a block is hot; `None` until `LAST` of them have
    /// ended.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        (self.ended >= LAST)
            .then(|| self.last.iter().fold(0, |sum: u64, &n| sum.saturating_add(n)) / LAST as u64)
    }

    /// Whether writes are known to be spread evenly, so that age does not predict the lifetime of a block.
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.even >= STEADY
    }

    fn end_period(&mut self, valid: [u64; 3]) {
        let share = self.hot * 100 / self.blocks.max(1);
        let divides = self.limit().is_none() || WORTH.contains(&share);
        // Valid blocks at both ends of the period, as cleaning changes the shares.
        let begun = self.valid.replace(valid);
        let [a, b, c] = valid;
        let both = |[hot, warm, cold]: [u64; 3]| [hot + a, warm + b, cold + c];
        let preference = begun.and_then(|before| preference(self.overwritten, both(before)));
        let even = tells(valid) && preference.is_some_and(|n| EVEN.contains(&n));
        self.even = if even { self.even.saturating_add(1) } else { 0 };
        self.suspended = !(divides && preference.is_some_and(|n| n >= SKEWED));
        (self.blocks, self.hot, self.overwritten) = (0, 0, [0; 3]);
    }
}

/// Whether enough blocks were moved for a comparison: until then, young blocks include long-lived ones.
fn tells([hot, warm, cold]: [u64; 3]) -> bool {
    cold > hot + warm
}

/// Share of hot and warm sections in the overwritten blocks, relative to their share in the valid blocks, in
/// percent. Their blocks were never moved, or only once.
fn preference(overwritten: [u64; 3], valid: [u64; 3]) -> Option<u64> {
    let of = |[hot, warm, cold]: [u64; 3]| {
        let young = u128::from(hot) + u128::from(warm);
        (young, young + u128::from(cold))
    };
    let ((young, all), (young_valid, all_valid)) = (of(overwritten), of(valid));
    u64::try_from((young * all_valid * 100).checked_div(all * young_valid)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(log: DataLog, opened: u64) -> Option<OldCopy> {
        Some(OldCopy { log, opened })
    }

    /// Valid blocks: a fifth was never moved.
    const VALID: [u64; 3] = [10, 10, 80];
    /// Blocks of a period with sections of four.
    const PERIOD: u64 = 64;

    /// A period in which `young` writes hit young blocks and `old` writes old ones, all never moved; the rest
    /// hit cold ones.
    fn period(l: &mut Lifetimes, young: u64, old: u64) {
        for i in 0..PERIOD {
            let copy = match i {
                i if i < young => of(DataLog::Warm, 950),
                i if i < young + old => of(DataLog::Hot, 0),
                _ => of(DataLog::Cold, 950),
            };
            l.written(copy, 1000, VALID);
        }
    }

    fn is_on(l: &Lifetimes) -> bool {
        let (user, moved) = (l.clone().written(of(DataLog::Warm, 1000), 1000, VALID), l.moved(DataLog::Hot));
        assert_eq!(user == DataLog::Hot, moved == DataLog::Warm, "one without the other");
        user == DataLog::Hot
    }

    /// Active, with a limit of 100.
    fn with_limit() -> Lifetimes {
        let mut l = Lifetimes::new(4);
        (0..LAST as u64).for_each(|i| l.hot_ended(i, i + 100));
        (0..2).for_each(|_| period(&mut l, 30, 0));
        l
    }

    #[test]
    fn young_copies_are_hot_unless_they_survived_cleaning() {
        let mut l = with_limit();
        let mut log = |old| l.written(old, 1000, VALID);
        assert_eq!(log(None), DataLog::Warm, "new");
        assert_eq!(log(of(DataLog::Warm, 901)), DataLog::Hot);
        assert_eq!(log(of(DataLog::Hot, 901)), DataLog::Hot);
        assert_eq!(log(of(DataLog::Hot, 900)), DataLog::Warm);
        assert_eq!(log(of(DataLog::Cold, 999)), DataLog::Warm);
        let moved = [DataLog::Hot, DataLog::Warm, DataLog::Cold].map(|log| l.moved(log));
        assert_eq!(moved, [DataLog::Warm, DataLog::Cold, DataLog::Cold]);
    }

    #[test]
    fn the_limit_is_the_mean_of_the_last_sections() {
        let mut l = Lifetimes::new(4);
        (0..2).for_each(|_| period(&mut l, PERIOD, 0));
        (1..LAST as u64).for_each(|i| l.hot_ended(0, i));
        assert_eq!((l.limit(), l.written(of(DataLog::Warm, 0), u64::MAX, VALID)), (None, DataLog::Hot));
        l.hot_ended(0, LAST as u64);
        assert_eq!(l.limit(), Some(8), "136 / 16");
        l.hot_ended(0, 17);
        assert_eq!(l.limit(), Some(9), "152 / 16: the first is forgotten");
    }

    #[test]
    fn it_begins_where_overwrites_prefer_blocks_never_moved() {
        let found =
            [(0, false, false), (11, false, false), (12, false, true), (15, false, false), (16, true, false)];
        for (young, on, even) in found {
            let mut l = Lifetimes::new(4);
            period(&mut l, PERIOD, 0);
            assert!(!is_on(&l) && !l.is_even(), "nothing is known");
            period(&mut l, young, 0);
            assert_eq!((is_on(&l), l.is_even()), (on, false), "{young}");
            (1..STEADY).for_each(|_| period(&mut l, young, 0));
            assert_eq!((is_on(&l), l.is_even()), (on, even), "{young}");
        }
        let mut l = Lifetimes::new(4);
        (0..2 * PERIOD).for_each(|_| _ = l.written(of(DataLog::Warm, 0), 1000, [0, 100, 0]));
        assert!(!is_on(&l) && !l.is_even(), "nothing was moved yet, so nothing is known");
    }

    #[test]
    fn it_is_suspended_while_the_hot_log_gets_too_little_or_too_much() {
        for (young, on) in [(3, false), (4, true), (51, true), (52, false)] {
            let mut l = with_limit();
            period(&mut l, young, PERIOD - young);
            assert_eq!(is_on(&l), on, "{young}");
            period(&mut l, 30, 0);
            assert!(is_on(&l), "it goes on once it is worth it");
        }
    }
}
