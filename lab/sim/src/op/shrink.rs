//! Shrinks a failing sequence.
use super::Op;

/// Takes operations out, first many at once, as long as the rest still `fails`. `tries` bounds the number of
/// calls of `fails`.
pub fn shrink(ops: &[Op], mut tries: usize, mut fails: impl FnMut(&[Op]) -> bool) -> Vec<Op> {
    let mut ops = ops.to_vec();
    let mut chunk = ops.len().div_ceil(2).max(1);
    loop {
        let mut at = 0;
        let before = ops.len();
        while at < ops.len() && tries > 0 {
            let mut rest = ops.clone();
            rest.drain(at..(at + chunk).min(ops.len()));
            tries -= 1;
            if fails(&rest) {
                ops = rest;
            } else {
                at += chunk;
            }
        }
        if tries == 0 || (chunk == 1 && ops.len() == before) {
            return ops;
        }
        chunk = (chunk / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Path;

    #[test]
    fn what_matters_stays() {
        let op = |n: u64| Op::Truncate { of: Path::root(), size: n };
        let all: Vec<Op> = (0..57).map(op).collect();
        let wanted = [op(3), op(31), op(56)];
        let small = shrink(&all, 10_000, |ops| wanted.iter().all(|w| ops.contains(w)));
        assert_eq!(small, wanted);
        assert!(shrink(&all, 5, |ops| ops.contains(&op(3))).len() < all.len());
    }
}
