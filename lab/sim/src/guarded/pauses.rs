//! Device commands that sometimes take long, so that threads meet in other orders.
use segno_testkit::{Call, Rng};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Commands to a pause, on average.
const EVERY: u64 = 8;

/// Sleeps for a drawn length up to `most` inside some commands.
pub fn pauses(most: Duration, seed: u64) -> impl Fn(Call<'_>) + Send + Sync + 'static {
    let rng = Mutex::new(Rng::new(seed));
    move |call| {
        if matches!(call, Call::Discard | Call::Zone) {
            return;
        }
        let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
        let length = most.mul_f64(rng.unit());
        let pauses = rng.one_in(EVERY);
        drop(rng);
        if pauses {
            std::thread::sleep(length);
        }
    }
}
