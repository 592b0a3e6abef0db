//! An axis: maps values to positions, with ticks at round values.

/// An axis.
pub struct Scale {
    low: f64,
    high: f64,
    log: bool,
    /// Positions of `low` and `high`.
    from: f64,
    to: f64,
}

impl Scale {
    /// An axis that shows all the values; a linear one starts at 0 unless a value is below.
    pub fn over(values: impl Iterator<Item = f64>, log: bool, from: f64, to: f64) -> Self {
        let shown = values.filter(|v| v.is_finite() && (!log || *v > 0.0));
        let (low, high) = shown.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
        let low = if low.is_finite() { low } else { 1.0 };
        let (low, high) = if log {
            let (low, high) = (10_f64.powf(low.log10().floor()), 10_f64.powf(high.max(low).log10().ceil()));
            (low, if high > low { high } else { low * 10.0 })
        } else {
            (low.min(0.0), if high > 0.0 { high * 1.08 } else { 1.0 })
        };
        Self { low, high, log, from, to }
    }

    pub fn place(&self, v: f64) -> f64 {
        let share = if self.log {
            (v.max(self.low) / self.low).log10() / (self.high / self.low).log10()
        } else {
            (v - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }

    /// The position of its middle.
    pub fn middle(&self) -> f64 {
        f64::midpoint(self.from, self.to)
    }

    /// Round values along the axis.
    pub fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = (self.high / self.low).log10().round() as i32;
            let every = (decades / 6).max(1) as usize;
            return (0..=decades).step_by(every).map(|d| self.low * 10_f64.powi(d)).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let unit = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|m| m * unit >= rough).unwrap_or(10.0) * unit;
        let first = (self.low / step).ceil() as i64;
        (first..).map(|i| i as f64 * step).take_while(|t| *t <= self.high).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_starts_at_zero_and_has_round_ticks() {
        let s = Scale::over([3.0, 90.0].into_iter(), false, 0.0, 100.0);
        assert_eq!(s.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0]);
        assert_eq!(s.place(0.0), 0.0);
        assert!(s.place(90.0) > 90.0 && s.place(90.0) < 100.0);
    }

    #[test]
    fn a_log_axis_has_whole_decades() {
        let s = Scale::over([3.0, 900.0, 0.0].into_iter(), true, 0.0, 300.0);
        assert_eq!(s.ticks(), [1.0, 10.0, 100.0, 1000.0]);
        assert!((s.place(10.0) - 100.0).abs() < 1e-9);
        assert_eq!(s.place(0.0), 0.0, "what cannot be shown is at the lower end");
    }

    #[test]
    fn no_values_give_an_axis_all_the_same() {
        for log in [false, true] {
            assert!(Scale::over(std::iter::empty(), log, 0.0, 1.0).ticks().len() > 1);
        }
    }
}
