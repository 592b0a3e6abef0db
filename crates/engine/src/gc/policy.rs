//! Which section to clean: pure functions over the candidates, in F2FS's arithmetic.
use crate::segment::Candidate;
use segno_format::BLOCKS_PER_SEG;

/// The section with the fewest blocks to move; of equal ones the first.
pub fn greedy(candidates: impl IntoIterator<Item = Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by_key(|c| (c.valid, c.sec))
}

/// The section that gives most for its cost: old ones may be fuller than young ones. None if nothing is older than the
/// youngest, as then waiting is cheaper. `now` is on the clock of the candidates' `mtime`.
pub fn cost_benefit(
    candidates: impl IntoIterator<Item = Candidate>,
    now: u64,
    segs_per_sec: u32,
) -> Option<Candidate> {
    let all: Vec<Candidate> = candidates.into_iter().collect();
    let oldest = all.iter().map(|c| c.mtime).min()?;
    let youngest = all.iter().map(|c| c.mtime).fold(now, u64::max);
    let cost = |c: &Candidate| cost_benefit_of(c, oldest, youngest, segs_per_sec);
    all.iter().copied().filter(|c| cost(c) < u32::MAX).min_by_key(|c| (cost(c), c.sec))
}

/// `UINT_MAX - (100 * (100 - u) * age) / (100 + u)` with utilisation and age in percent.
fn cost_benefit_of(c: &Candidate, oldest: u64, youngest: u64, segs_per_sec: u32) -> u32 {
    let per_seg = c.valid / segs_per_sec.max(1);
    let u = (per_seg * 100 / BLOCKS_PER_SEG).min(100);
    let span = youngest.saturating_sub(oldest);
    let since = u128::from(c.mtime.saturating_sub(oldest));
    let age = match span {
        0 => 0,
        // At most 100, as no candidate is younger than the youngest.
        _ => 100 - (100 * since / u128::from(span)).min(100) as u32,
    };
    u32::MAX - 100 * (100 - u) * age / (100 + u)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Class;

    fn section(sec: u32, valid: u32, mtime: u64) -> Candidate {
        Candidate { sec, class: Class::Data, valid, mtime }
    }

    #[test]
    fn greedy_takes_the_emptiest_and_the_first_of_equals() {
        let all = [section(3, 9, 0), section(7, 5, 0), section(5, 5, 9)];
        assert_eq!(greedy(all).map(|c| c.sec), Some(5));
        assert_eq!(greedy([]), None);
    }

    #[test]
    fn cost_benefit_is_the_formula() {
        // Half full and oldest: 100 * 50 * 100 / 150.
        assert_eq!(cost_benefit_of(&section(0, 256, 10), 10, 110, 1), u32::MAX - 3333);
        // A quarter full, half as old: 100 * 75 * 50 / 125.
        assert_eq!(cost_benefit_of(&section(0, 128, 60), 10, 110, 1), u32::MAX - 3000);
        // Utilisation is per segment, rounded down twice: 1024 blocks in 3 segments are 341, 66 %.
        assert_eq!(cost_benefit_of(&section(0, 1024, 10), 10, 110, 3), u32::MAX - 100 * 34 * 100 / 166);
        assert_eq!(cost_benefit_of(&section(0, 128, 110), 10, 110, 1), u32::MAX, "the youngest");
        assert_eq!(cost_benefit_of(&section(0, 128, u64::MAX), 0, u64::MAX, 1), u32::MAX, "no overflow");
    }

    #[test]
    fn an_old_section_may_be_fuller_than_a_young_one() {
        let all = [section(1, 200, 900), section(2, 300, 0), section(3, 500, 0)];
        assert_eq!(cost_benefit(all, 1000, 1).map(|c| c.sec), Some(2));
        assert_eq!(greedy(all).map(|c| c.sec), Some(1));
    }

    #[test]
    fn nothing_is_cleaned_while_everything_is_young() {
        let all = [section(1, 200, 1000), section(2, 300, 1000)];
        assert_eq!(cost_benefit(all, 1000, 1), None);
    }
}
