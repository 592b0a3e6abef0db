//! Descriptors inherited from the caller. A process that inherits a descriptor may read a private file, or
//! keep a lock held or a pipe open.
#![allow(unsafe_code)]
use std::ops::RangeInclusive;

const FIRST: u32 = 3;

/// Closes all descriptors above standard error except `keep`. Call it at the start of a program, because
/// descriptors opened since are closed too.
pub fn close_inherited(keep: &[u32]) {
    between(keep).for_each(|range| close_range(&range));
}

/// Before Linux 5.9 they stay open.
fn close_range(range: &RangeInclusive<u32>) {
    let [first, last] = [range.start(), range.end()].map(|&fd| libc::c_long::from(fd));
    // SAFETY: takes three numbers, and no memory. At the start of a program nothing has a descriptor in this range.
    let _older_kernel = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// The numbers that are not kept.
fn between(keep: &[u32]) -> impl Iterator<Item = RangeInclusive<u32>> {
    let mut keep = keep.to_vec();
    keep.sort_unstable();
    let firsts =
        [FIRST].into_iter().chain(keep.clone().into_iter().map(|fd| fd.saturating_add(1).max(FIRST)));
    let lasts = keep.into_iter().map(|fd| fd.saturating_sub(1)).chain([u32::MAX]);
    firsts.zip(lasts).filter(|(first, last)| first <= last).map(|(first, last)| first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_the_named_ones_are_closed() {
        for (keep, ranges) in [
            (&[][..], &[3..=u32::MAX][..]),
            (&[7], &[3..=6, 8..=u32::MAX]),
            (&[9, 3, 4], &[5..=8, 10..=u32::MAX]),
            (&[0, 2, 5, 5], &[3..=4, 6..=u32::MAX]),
        ] {
            assert_eq!(between(keep).collect::<Vec<_>>(), ranges, "{keep:?}");
        }
    }
}
