//! fio's zipf distribution: approximated ranks, scattered over the pages by a hash.
use crate::Rng;

/// Terms of the zeta sum that are added one by one; Euler and Maclaurin's formula gives the rest.
const SUMMED: u64 = 1024;
/// Exponents this close to 1 take the limit of the formula.
const NEAR_ONE: f64 = 1e-9;

#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    theta: f64,
    zetan: f64,
    zeta2: f64,
}

impl Zipf {
    pub fn new(n: u64, theta: f64) -> Self {
        Self { n, theta, zetan: zeta(n, theta), zeta2: zeta(2, theta) }
    }

    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.rank(rng.unit()).wrapping_mul(0x9E37_79B9_7F4A_7C15) % self.n
    }

    fn rank(&self, u: f64) -> u64 {
        let uz = u * self.zetan;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        let (n, rest) = (self.n as f64, 1.0 - self.theta);
        let tail = 1.0 - self.zeta2 / self.zetan;
        if rest.abs() < NEAR_ONE {
            return (n * (2.0 / n).powf((1.0 - u) / tail)) as u64;
        }
        let eta = (1.0 - (2.0 / n).powf(rest)) / tail;
        (n * (eta * u - eta + 1.0).powf(1.0 / rest)) as u64
    }
}

/// The sum of i^-theta for i from 1 to n.
fn zeta(n: u64, theta: f64) -> f64 {
    let term = |i: f64| i.powf(-theta);
    let first: f64 = (1..=n.min(SUMMED)).map(|i| term(i as f64)).sum();
    if n <= SUMMED {
        return first;
    }
    let (a, b) = (SUMMED as f64, n as f64);
    let rest = 1.0 - theta;
    let integral = if rest.abs() < NEAR_ONE { (b / a).ln() } else { (b.powf(rest) - a.powf(rest)) / rest };
    let slope = |i: f64| -theta * term(i) / i;
    first + integral + (term(b) - term(a)) / 2.0 + (slope(b) - slope(a)) / 12.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fast_sum_is_the_sum() {
        for theta in [0.5, 0.8, 0.9, 0.99, 1.0, 1.2] {
            for n in [1u32, 1024, 1025, 100_000] {
                let plain: f64 = (1..=n).map(|i| f64::from(i).powf(-theta)).sum();
                assert!((zeta(n.into(), theta) / plain - 1.0).abs() < 1e-11, "{n} {theta}");
            }
        }
    }

    /// The share of the draws that a rank gets is its term of the sum, for the two ranks that are exact; every rank exists.
    #[test]
    fn frequencies_fall_with_the_exponent() {
        for theta in [0.8, 0.99, 1.0, 1.2] {
            let (z, draws) = (Zipf::new(1000, theta), 200_000);
            let mut rng = Rng::new(7);
            let mut seen = vec![0u32; 1000];
            (0..draws).for_each(|_| seen[z.rank(rng.unit()) as usize] += 1);
            for rank in [0, 1] {
                let expected = f64::from(rank + 1).powf(-theta) / z.zetan * f64::from(draws);
                let found = f64::from(seen[rank as usize]);
                assert!((found / expected - 1.0).abs() < 0.05, "{theta} {rank}: {found} of {expected}");
            }
            assert!(seen[..10].iter().sum::<u32>() > seen[990..].iter().sum::<u32>() * 10);
        }
    }
}
