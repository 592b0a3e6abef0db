//! Repeated measurements: median, spread, and alternating rounds.
use crate::budget::Budget;
use anyhow::Result;
use serde::Serialize;

/// One figure measured several times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub n: usize,
}

impl Sample {
    /// All zero if there are no values.
    pub fn of(values: &[f64]) -> Self {
        let mut v = values.to_vec();
        v.sort_by(f64::total_cmp);
        let n = v.len();
        match (v.first(), v.get(n / 2), v.get(n.saturating_sub(1) / 2), v.last()) {
            (Some(&min), Some(a), Some(b), Some(&max)) => Self { median: (a + b) / 2.0, min, max, n },
            _ => Self::default(),
        }
    }

    /// Half the range in percent of the median.
    pub fn spread_percent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / 2.0 / self.median * 100.0 }
    }
}

/// Runs each arm once in each round, every other round in reverse order, so that drift of the machine affects all arms equally.
/// Stops early when the budget is used up, but never within the first round. Returns the results of each arm by round; all
/// arms have the same number of rounds.
pub fn alternate<A: Copy, T>(
    arms: &[A],
    rounds: usize,
    budget: &Budget,
    mut run: impl FnMut(A, usize) -> Result<T>,
) -> Result<Vec<(A, Vec<T>)>> {
    let mut all: Vec<(A, Vec<T>)> = arms.iter().map(|&a| (a, Vec::new())).collect();
    for round in 0..rounds {
        if round > 0 && !budget.has_time_for_another(round) {
            break;
        }
        let mut order: Vec<&mut (A, Vec<T>)> = all.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (arm, found) in order {
            found.push(run(*arm, round)?);
        }
    }
    Ok(all)
}

/// Median of the ratios within each round, which is insensitive to drift between rounds.
pub fn ratio(ours: &[f64], theirs: &[f64]) -> Sample {
    let ratios: Vec<f64> = ours.iter().zip(theirs).filter(|(_, b)| **b != 0.0).map(|(a, b)| a / b).collect();
    Sample::of(&ratios)
}

/// The geometric mean of positive numbers.
pub fn geometric_mean(numbers: &[f64]) -> f64 {
    (numbers.iter().map(|n| n.ln()).sum::<f64>() / numbers.len() as f64).exp()
}

/// The 0.975 quantile of Student's t distribution by degrees of freedom, from 1 on.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// A mean of ratios with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// Geometric mean.
    pub mean: f64,
    pub low: f64,
    pub high: f64,
}

/// Of the ratios within each round, by Student's t of their logarithms. `None` for fewer than two rounds.
pub fn share(ours: &[f64], theirs: &[f64]) -> Option<Share> {
    let pairs = ours.iter().zip(theirs).filter(|(a, b)| **a > 0.0 && **b > 0.0);
    let logs: Vec<f64> = pairs.map(|(a, b)| (a / b).ln()).collect();
    let (n, freedom) = (logs.len() as f64, logs.len().checked_sub(1).filter(|f| *f > 0)?);
    let t = T.get(freedom - 1).or(T.last())?;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / freedom as f64;
    let half = t * (variance / n).sqrt();
    Some(Share { mean: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn median_and_spread() {
        let s = Sample::of(&[4.0, 1.0, 2.0, 3.0]);
        assert_eq!((s.median, s.min, s.max, s.n), (2.5, 1.0, 4.0, 4));
        assert_eq!(s.spread_percent(), 60.0);
        assert_eq!(Sample::of(&[]), Sample::default());
        assert_eq!(ratio(&[2.0, 9.0, 3.0], &[1.0, 3.0, 1.5]).median, 2.0);
    }

    /// SciPy 1.17: exponentials of the mean of the logarithms, and of `ttest_1samp(…, 0).confidence_interval()`.
    #[test]
    fn the_interval_of_a_share_is_that_of_a_paired_t_test() {
        let found = share(&[1.10, 0.90, 1.05, 0.98, 1.02], &[1.0; 5]).unwrap();
        let expected = [1.007697, 0.917014, 1.107348];
        for (found, expected) in [found.mean, found.low, found.high].into_iter().zip(expected) {
            assert!((found - expected).abs() < 5e-4, "{found} for {expected}");
        }
        assert_eq!(share(&[2.0], &[1.0]), None);
        assert_eq!(share(&[2.0, 4.0], &[1.0, 2.0]), Some(Share { mean: 2.0, low: 2.0, high: 2.0 }));
    }

    #[test]
    fn arms_take_turns_in_both_orders() {
        let mut order = String::new();
        let budget = Budget::unlimited();
        let found = alternate(&['a', 'b'], 3, &budget, |arm, _| {
            order.push(arm);
            Ok(order.len())
        })
        .unwrap();
        assert_eq!(order, "abbaab");
        assert_eq!(found, [('a', vec![1, 4, 5]), ('b', vec![2, 3, 6])]);
    }

    #[test]
    fn a_used_up_budget_ends_after_the_first_round() {
        let budget = Budget::of(Duration::ZERO);
        let found = alternate(&[1, 2], 5, &budget, |arm, _| Ok(arm)).unwrap();
        assert_eq!(found, [(1, vec![1]), (2, vec![2])]);
    }
}
