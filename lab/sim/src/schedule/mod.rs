//! Concurrent operations on one volume under seeded schedules.
//!
//! Needs the feature `shuttle`, which replaces every lock of the engine. The results of all threads must be
//! linearizable: equal to the results of the model for *some* order of the operations. In that order,
//! operations that did not overlap keep their order. The final tree must result from the same order, the
//! volume must unmount, and the checker must find nothing. A deadlock is a violation.
mod history;
mod shapes;

use segno_testkit::Rng;
use segno_testkit::caught;
use serde::Serialize;
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, MaxSteps, Runner};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Stack of a thread, large enough for the engine's frames.
const STACK: usize = 1 << 20;
/// Steps of the longest schedule; the longest seen takes a tenth.
const STEPS: usize = 2_000_000;

/// Results of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScheduleCounts {
    pub schedules: u64,
    /// Operations that several threads made.
    pub operations: u64,
    pub violations: u64,
}

/// A schedule that broke a rule. The number repeats it.
#[derive(Clone, Debug)]
pub struct ScheduleFinding {
    pub number: u64,
    pub shape: &'static str,
    pub what: String,
}

/// Runs schedules by number; a number decides shape, operations and schedule.
pub fn run(numbers: Range<u64>) -> (ScheduleCounts, Vec<ScheduleFinding>) {
    let (mut counts, mut findings) = (ScheduleCounts::default(), Vec::new());
    for number in numbers {
        let shape = shapes::of(number);
        counts.schedules += 1;
        match one(number, shape) {
            Ok(operations) => counts.operations += operations,
            Err(what) => {
                counts.violations += 1;
                findings.push(ScheduleFinding { number, shape: shape.name, what });
            }
        }
    }
    (counts, findings)
}

fn one(number: u64, shape: &'static shapes::Shape) -> Result<u64, String> {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(STEPS);
    // It warns of orderings weaker than its own: those are what the loom models are for.
    config.silence_warnings = true;
    config.failure_persistence = shuttle::FailurePersistence::None;
    let runner = Runner::new(RandomScheduler::new_from_seed(number, 1), config);
    let said = Arc::new(Mutex::new(Err("did not end".to_owned())));
    let outcome = said.clone();
    caught(move || {
        runner.run(move || {
            let result = (shape.run)(&mut Rng::new(number));
            *outcome.lock().unwrap_or_else(PoisonError::into_inner) = result;
        });
        Ok(())
    })?;
    let result = said.lock().unwrap_or_else(PoisonError::into_inner).clone();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the check itself: two threads that both created the same name.
    #[test]
    fn an_impossible_history_is_told() {
        let shape = shapes::Shape { name: "impossible", run: |_| history::impossible() };
        let error = one(1, Box::leak(Box::new(shape))).unwrap_err();
        assert!(error.contains("no order of these explains"), "{error}");
    }

    #[test]
    fn schedules() {
        let (counts, findings) = run(0..400);
        for f in &findings {
            println!("schedule {} ({}): {}", f.number, f.shape, f.what);
        }
        assert_eq!(counts.violations, 0);
        assert!(counts.operations > 2000, "{counts:?}");
    }
}
