//! Free sections as intervals, and the sections each stream will write next.
//!
//! A *claim* is soft: other streams and logs avoid its sections while they have others, but may open them. So a
//! stream that writes one large file continues where it stopped, and the file stays contiguous.
use super::free::BitSet;
use segno_format::SecNo;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Number of intervals examined to find one at whose start no other stream's claim ends.
const MAX_CANDIDATES: usize = 64;

/// Unclaimed free sections, by position and by length.
#[derive(Debug, Default)]
struct Intervals {
    by_start: BTreeMap<SecNo, SecNo>,
    by_len: BTreeSet<(u32, SecNo)>,
}

impl Intervals {
    fn add(&mut self, r: Range<SecNo>) {
        self.by_start.insert(r.start, r.end);
        self.by_len.insert((r.end.0 - r.start.0, r.start));
    }
    fn remove(&mut self, r: &Range<SecNo>) {
        self.by_start.remove(&r.start);
        self.by_len.remove(&(r.end.0 - r.start.0, r.start));
    }
    /// The interval that contains a section.
    fn containing(&self, sec: SecNo) -> Option<Range<SecNo>> {
        self.by_start.range(..=sec).next_back().map(|(&s, &e)| s..e).filter(|r| r.contains(&sec))
    }
    fn put(&mut self, sec: SecNo, member: bool) {
        match (self.containing(sec), member) {
            (None, true) => {
                let below = sec.0.checked_sub(1).and_then(|s| self.containing(SecNo(s)));
                let above = self.containing(sec.offset(1));
                below.iter().chain(&above).for_each(|r| self.remove(r));
                self.add(below.map_or(sec, |r| r.start)..above.map_or(sec.offset(1), |r| r.end));
            }
            (Some(r), false) => self.take(&r, sec..sec.offset(1)),
            _ => {}
        }
    }
    /// Cuts a part out of an interval.
    fn take(&mut self, whole: &Range<SecNo>, part: Range<SecNo>) {
        self.remove(whole);
        for rest in [whole.start..part.start, part.end..whole.end] {
            if !is_spent(&rest) {
                self.add(rest);
            }
        }
    }
    /// First section at or after `from`, else the first of all.
    fn next_wrapping(&self, from: SecNo) -> Option<SecNo> {
        if self.containing(from).is_some() {
            return Some(from);
        }
        self.by_start.range(from..).next().or_else(|| self.by_start.first_key_value()).map(|(&s, _)| s)
    }
}

/// Free sections and the claims on them.
#[derive(Debug)]
pub struct FreeSections {
    all: BitSet,
    open: Intervals,
    /// The unused rest of each claim, by its first section.
    claims: BTreeMap<SecNo, SecNo>,
    /// End of every claim, used up or not: its stream continues there if it can.
    ends: BTreeMap<SecNo, u32>,
}

impl FreeSections {
    /// All of `n` sections are free.
    pub fn new(n: u32) -> Self {
        let mut all = BitSet::new(n as usize);
        (0..n).for_each(|i| _ = all.put(i, true));
        let mut open = Intervals::default();
        if n > 0 {
            open.add(SecNo(0)..SecNo(n));
        }
        Self { all, open, claims: BTreeMap::new(), ends: BTreeMap::new() }
    }
    pub fn len(&self) -> u64 {
        self.all.len()
    }
    pub fn contains(&self, sec: SecNo) -> bool {
        self.all.contains(sec.0)
    }
    pub fn put(&mut self, sec: SecNo, free: bool) {
        if self.all.contains(sec.0) != free && self.all.put(sec.0, free) && !self.is_claimed(sec) {
            self.open.put(sec, free);
        }
    }
    fn is_claimed(&self, sec: SecNo) -> bool {
        self.claims.range(..=sec).next_back().is_some_and(|(_, &end)| sec < end)
    }
    /// The first free section at or after `from`, else the first of all; a claimed one only if there is no other.
    pub fn next_wrapping(&self, from: SecNo) -> Option<SecNo> {
        self.open.next_wrapping(from).or_else(|| self.all.next_wrapping(from.0).map(SecNo))
    }
    /// Lengths of the free intervals, longest first, claimed or not.
    #[cfg(feature = "lab")]
    pub fn intervals(&self) -> Vec<u32> {
        let (mut out, mut at) = (Vec::new(), 0);
        while let Some(start) = self.all.next(at) {
            let end = (start..).find(|&s| !self.all.contains(s)).unwrap_or(start);
            out.push(end - start);
            at = end;
        }
        out.sort_unstable_by(|a, b| b.cmp(a));
        out
    }

    /// Claims up to `want` sections: from `after` on if that is unclaimed, else where the claim can grow.
    pub fn claim(&mut self, after: Option<SecNo>, want: u32) -> Option<Range<SecNo>> {
        let want = want.max(1);
        let (whole, start) = match after.and_then(|a| self.open.containing(a).map(|r| (r, a))) {
            Some(found) => found,
            None if after.is_some() => self.fit(want)?,
            None => self.longest()?,
        };
        let end = whole.end.min(start.offset(want));
        self.open.take(&whole, start..end);
        self.claims.insert(start, end);
        *self.ends.entry(end).or_default() += 1;
        Some(start..end)
    }

    /// The smallest interval that holds `want` and does not start at the end of another claim.
    fn fit(&self, want: u32) -> Option<(Range<SecNo>, SecNo)> {
        let fits = self.open.by_len.range((want, SecNo(0))..).take(MAX_CANDIDATES);
        let mut candidates = fits.filter(|&&(_, start)| !self.is_claim_end(start));
        match candidates.next() {
            Some(&(len, start)) => Some((start..start.offset(len), start)),
            None => self.longest(),
        }
    }

    /// Takes the longest interval: from its front, or from its middle if another claim ends at its front. The lowest
    /// interval counts as such, because the six logs grow into it.
    fn longest(&self) -> Option<(Range<SecNo>, SecNo)> {
        let &(len, start) = self.open.by_len.last()?;
        let lowest = self.open.by_start.first_key_value().is_some_and(|(&s, _)| s == start);
        let skip = if lowest || self.is_claim_end(start) { len / 2 } else { 0 };
        Some((start..start.offset(len), start.offset(skip)))
    }

    fn is_claim_end(&self, start: SecNo) -> bool {
        self.ends.contains_key(&start)
    }

    /// Opens the first section of the claim; `None` if it was taken meanwhile or the claim is used up.
    pub fn advance(&mut self, claim: &mut Range<SecNo>) -> Option<SecNo> {
        let sec = claim.start;
        if is_spent(claim) || !self.all.contains(sec.0) {
            return None;
        }
        self.claims.remove(&sec);
        claim.start = sec.offset(1);
        if !is_spent(claim) {
            self.claims.insert(claim.start, claim.end);
        }
        Some(sec)
    }

    /// Drops a claim. Called once for each.
    pub fn release(&mut self, claim: &Range<SecNo>) {
        match self.ends.get_mut(&claim.end) {
            Some(n) if *n > 1 => *n -= 1,
            _ => drop(self.ends.remove(&claim.end)),
        }
        if !is_spent(claim) {
            self.claims.remove(&claim.start);
        }
        for sec in (claim.start.0..claim.end.0).map(SecNo) {
            if self.all.contains(sec.0) {
                self.open.put(sec, true);
            }
        }
    }
}

fn is_spent(r: &Range<SecNo>) -> bool {
    r.start >= r.end
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opens sections of a claim as a stream does, and claims more when it is used up.
    fn write(free: &mut FreeSections, claim: &mut Range<SecNo>, n: u32) -> Vec<SecNo> {
        let mut out = Vec::new();
        let mut want = 1;
        while (out.len() as u32) < n {
            match free.advance(claim) {
                Some(sec) => {
                    free.put(sec, false);
                    out.push(sec);
                }
                None => {
                    free.release(claim);
                    want *= 2;
                    *claim = free.claim(Some(claim.end), want).unwrap();
                }
            }
        }
        out
    }

    fn runs(secs: &[SecNo]) -> usize {
        secs.windows(2).filter(|w| w[0].offset(1) != w[1]).count() + 1
    }

    #[test]
    fn concurrent_streams_stay_contiguous() {
        let mut free = FreeSections::new(1000);
        let mut claims: Vec<Range<SecNo>> = (0..12).map(|_| free.claim(None, 1).unwrap()).collect();
        let mut taken: Vec<Vec<SecNo>> = vec![Vec::new(); 12];
        for _ in 0..30 {
            for (claim, taken) in claims.iter_mut().zip(&mut taken) {
                taken.extend(write(&mut free, claim, 1));
            }
        }
        let all: BTreeSet<SecNo> = taken.iter().flatten().copied().collect();
        assert_eq!(all.len(), 360, "a section was allocated twice");
        assert!(taken.iter().all(|t| runs(t) <= 2), "{taken:?}");
        assert_eq!(taken.iter().map(|t| runs(t)).sum::<usize>(), 12);
    }

    #[test]
    fn any_stream_can_take_the_last_section() {
        let mut free = FreeSections::new(8);
        let claim = free.claim(None, 8).unwrap();
        let mut seen = BTreeSet::new();
        while let Some(sec) = free.next_wrapping(SecNo(0)) {
            free.put(sec, false);
            assert!(seen.insert(sec));
        }
        assert_eq!(seen.len(), 8, "a claim must not withhold a section");
        let mut stolen = claim.clone();
        assert_eq!(free.advance(&mut stolen), None);
        free.release(&stolen);
        free.put(SecNo(3), true);
        assert_eq!(free.claim(None, 4), Some(SecNo(3)..SecNo(4)));
    }

    #[test]
    fn intervals_follow_any_sequence_of_changes() {
        let mut free = FreeSections::new(64);
        let mut model = [true; 64];
        let mut x = 88_172_645_463_325_252_u64;
        for _ in 0..5000 {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            let (sec, on) = ((x % 64) as u32, x >> 32 & 1 == 1);
            free.put(SecNo(sec), on);
            model[sec as usize] = on;
            let lengths: u32 = free.intervals().iter().sum();
            assert_eq!(u64::from(lengths), free.len());
            let open: Vec<Range<u32>> = free.open.by_start.iter().map(|(s, e)| s.0..e.0).collect();
            let covered: Vec<u32> = open.iter().cloned().flatten().collect();
            let wanted: Vec<u32> = (0..64).filter(|&s| model[s as usize]).collect();
            assert_eq!(covered, wanted);
            assert!(open.windows(2).all(|w| w[0].end < w[1].start), "adjacent intervals not merged");
            assert_eq!(free.open.by_len.len(), open.len());
        }
    }
}
