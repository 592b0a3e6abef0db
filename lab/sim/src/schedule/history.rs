//! Histories of concurrent operations, and whether they are linearizable.
use crate::capture::Tree;
use crate::fs::Fs;
use crate::model::Model;
use crate::mounted::Mounted;
use crate::op::{Handles, Op, Outcome, apply};
use crate::setup::{self, Setup};
use segno_device::MemDevice;
use segno_engine::Time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time of everything: operations of several threads have no order that a clock could show.
const NOW: Time = Time { secs: 1000, nsec: 0 };

/// An operation, its result, and when it started and ended.
struct Event {
    op: Op,
    outcome: Outcome,
    begun: u64,
    ended: u64,
}

/// A volume and the model of it, with the same handles open.
pub struct VolumeWithModel {
    setup: Setup,
    device: Arc<MemDevice>,
    engine: Mounted,
    model: Model,
    engine_handles: Handles,
    model_handles: Handles,
}

impl VolumeWithModel {
    /// A fresh volume on which some operations were done by one thread.
    pub fn new(number: u64, before: &[Op]) -> Result<Self, String> {
        let setup = setup::setup(number)?;
        let device = Arc::new(MemDevice::from_snapshot(&setup.base));
        let engine = setup.mount(device.clone(), NOW.secs).map_err(|e| format!("mount: {e}"))?;
        let model = setup.model.clone();
        let (engine_handles, model_handles) = ([None; 4], [None; 4]);
        let mut pair = Self { setup, device, engine, model, engine_handles, model_handles };
        pair.model.set_time(NOW);
        for op in before {
            let got = apply(&mut pair.engine, &mut pair.engine_handles, op);
            let expected = apply(&mut pair.model, &mut pair.model_handles, op);
            if got != expected {
                return Err(format!("{op}: got {got:?}, expected {expected:?}"));
            }
        }
        Ok(pair)
    }

    pub fn engine(&self) -> &Mounted {
        &self.engine
    }

    pub fn device(&self) -> &Arc<MemDevice> {
        &self.device
    }

    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    pub fn handles(&self) -> Handles {
        self.engine_handles
    }

    /// Runs the operations of each thread; returns their number.
    pub fn run(self, threads: Vec<Vec<Op>>) -> Result<u64, String> {
        self.run_beside(threads, |_| ())
    }

    /// Runs the operations of each thread, concurrently with an activity that has no visible effect.
    pub fn run_beside(
        mut self,
        threads: Vec<Vec<Op>>,
        concurrent: impl FnOnce(Mounted) + Send + 'static,
    ) -> Result<u64, String> {
        let engine = self.engine.share();
        let concurrent = shuttle::thread::spawn(move || concurrent(engine));
        let clock = Arc::new(AtomicU64::new(0));
        let running: Vec<_> = threads
            .into_iter()
            .map(|ops| {
                let (mut engine, mut handles) = (self.engine.share(), self.engine_handles);
                let clock = clock.clone();
                shuttle::thread::spawn(move || {
                    let tick = || clock.fetch_add(1, Ordering::SeqCst);
                    let run = |op: Op| {
                        let begun = tick();
                        let outcome = apply(&mut engine, &mut handles, &op);
                        Event { op, outcome, begun, ended: tick() }
                    };
                    ops.into_iter().map(run).collect::<Vec<Event>>()
                })
            })
            .collect();
        let history = running
            .into_iter()
            .map(|t| t.join().map_err(|_| "a thread panicked".to_owned()))
            .collect::<Result<Vec<_>, _>>()?;
        concurrent.join().map_err(|_| "a thread panicked".to_owned())?;
        self.judge(&history)?;
        self.finish()?;
        Ok(history.iter().map(|t| t.len() as u64).sum())
    }

    fn judge(&mut self, history: &[Vec<Event>]) -> Result<(), String> {
        let tree = Tree::capture(&mut self.engine)?;
        let search = Search { history, tree: &tree };
        if search.go(&mut vec![0; history.len()], &self.model, self.model_handles) {
            return Ok(());
        }
        Err(format!("no order of these explains the results:\n{}", describe(history)))
    }

    /// Unmounts and checks.
    pub fn finish(self) -> Result<(), String> {
        for node in self.engine_handles.into_iter().flatten() {
            self.engine.share().release(node).map_err(|e| format!("release: errno {e}"))?;
        }
        self.engine.unmount().map_err(|e| format!("unmount: {e}"))?;
        self.setup.check(self.device)
    }
}

fn describe(history: &[Vec<Event>]) -> String {
    let line = |(t, e): (usize, &Event)| {
        format!("  thread {t}, {}..{}: {} -> {:?}\n", e.begun, e.ended, e.op, e.outcome)
    };
    history.iter().enumerate().flat_map(|(t, events)| events.iter().map(move |e| (t, e))).map(line).collect()
}

struct Search<'a> {
    history: &'a [Vec<Event>],
    tree: &'a Tree,
}

impl Search<'_> {
    /// Whether what is left, from `next` of each thread on, can be put in an order that the model agrees with.
    fn go(&self, next: &mut Vec<usize>, model: &Model, handles: Handles) -> bool {
        let waiting: Vec<(usize, &Event)> = self
            .history
            .iter()
            .zip(next.iter())
            .enumerate()
            .filter_map(|(t, (h, &n))| Some((t, h.get(n)?)))
            .collect();
        if waiting.is_empty() {
            return self.tree.difference(&Tree::of_model(model)).is_none();
        }
        let first_end = waiting.iter().map(|(_, e)| e.ended).min().unwrap_or(0);
        for (thread, event) in waiting {
            // It cannot come before one that had ended when it began.
            if event.begun > first_end {
                continue;
            }
            let (mut model, mut handles) = (model.clone(), handles);
            if apply(&mut model, &mut handles, &event.op) != event.outcome {
                continue;
            }
            let Some(n) = next.get_mut(thread) else { continue };
            *n += 1;
            if self.go(next, &model, handles) {
                return true;
            }
            if let Some(n) = next.get_mut(thread) {
                *n -= 1;
            }
        }
        false
    }
}

/// An impossible history: two threads both created the same name.
#[cfg(test)]
pub fn impossible() -> Result<u64, String> {
    let mut pair = VolumeWithModel::new(0, &[])?;
    let made = |begun| {
        let op = Op::Mkdir { at: crate::op::Path::of(&[0]), mode: 0o755, who: 0 };
        vec![Event { op, outcome: Outcome::Done, begun, ended: begun + 5 }]
    };
    let Event { op, .. } = &made(0)[0];
    apply(&mut pair.engine, &mut pair.engine_handles, op);
    pair.judge(&[made(0), made(1)])?;
    Ok(2)
}
