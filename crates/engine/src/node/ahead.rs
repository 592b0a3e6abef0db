//! Reading inodes ahead. Inodes made together lie together, so whoever asks for one gets those behind it too; and while one
//! read after the other goes on where the last ended, a thread has the next ones in memory before they are asked for.
//!
//! The first inode that the thread brings is a mark: asking for it begins the next run. Nobody waits for the thread: who
//! needs an inode that it has not brought yet reads a few, and so finds out that the thread is late, which then goes on by itself.
//! Where there is no thread, the device is told what comes next.
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Condvar, Mutex};
use segno_device::processor;
use segno_format::{BlockAddr, Nid};

/// Blocks read at a time by whoever waits for one of them, and without a thread up to how many: doubled while it goes on.
const LEAST: u32 = 8;
pub const MOST: u32 = 128;
/// What the thread begins with.
const BEGIN: u32 = 32;

/// Consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub start: BlockAddr,
    pub count: u32,
}

impl Run {
    fn has(self, addr: BlockAddr) -> bool {
        addr.0.wrapping_sub(self.start.0) < self.count
    }
    fn end(self) -> BlockAddr {
        self.start.offset(self.count)
    }
}

/// What to do about an inode that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss {
    /// Blocks to read from it on.
    pub count: u32,
    /// Whether to announce that as many come after them.
    pub announce: bool,
}

/// What the thread is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    pub run: Run,
    /// The processor of whoever asked.
    pub cpu: usize,
}

/// See the module. A leaf lock.
#[derive(Debug, Default)]
pub struct Ahead {
    state: Mutex<State>,
    changed: Condvar,
    /// The number of the inode that begins the next run; 0 is nobody's.
    mark: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    /// Where what somebody read on a miss ends.
    last: BlockAddr,
    /// Where what the thread read, or is to read, ends. A miss elsewhere, of a directory for example, changes nothing about it.
    next: BlockAddr,
    window: u32,
    /// What the thread is asked for; it stays while the thread is at it.
    order: Option<Order>,
    taken: bool,
    /// An inode of the order was asked for before it came.
    late: bool,
    /// There is a thread.
    served: bool,
}

impl Ahead {
    /// An inode at this address is not in memory. Racing callers may spoil the guess, and nothing else.
    pub fn missed(&self, addr: BlockAddr) -> Miss {
        let few = Miss { count: LEAST, announce: false };
        let mut s = self.state.lock();
        if s.order.is_some_and(|o| o.run.has(addr)) {
            s.late = true;
            return few;
        }
        // A few blocks that are no longer inodes may lie between.
        let goes_on = |end: BlockAddr| addr.0.wrapping_sub(end.0) < LEAST;
        let (in_stream, begins) = (goes_on(s.next), goes_on(s.last));
        if s.served {
            s.last = addr.offset(LEAST);
            if s.order.is_none() && (in_stream || begins) {
                s.window = if in_stream { s.window } else { BEGIN / 2 };
                s.next = s.last;
                self.order_more(&mut s);
            }
            return few;
        }
        s.window = if begins { (s.window * 2).clamp(LEAST, MOST) } else { LEAST };
        s.last = addr.offset(s.window);
        Miss { count: s.window, announce: s.window > LEAST }
    }

    /// An inode that is in memory was asked for.
    pub fn passed(&self, nid: Nid) {
        if self.mark.load(Ordering::Relaxed) == nid.0 {
            let mut s = self.state.lock();
            // Of two callers one does it.
            if self.mark.swap(0, Ordering::Relaxed) == nid.0 {
                self.order_more(&mut s);
            }
        }
    }

    fn order_more(&self, s: &mut State) {
        if s.order.is_none() {
            s.window = (s.window * 2).clamp(LEAST, MOST);
            let run = Run { start: s.next, count: s.window };
            s.order = Some(Order { run, cpu: processor() });
            s.next = run.end();
            self.changed.notify_all();
        }
    }

    /// The thread waits for an order. `None` ends it.
    pub fn next(&self) -> Option<Order> {
        let mut s = self.state.lock();
        while s.served {
            if let Some(order) = s.order.filter(|_| !s.taken) {
                s.taken = true;
                return Some(order);
            }
            self.changed.wait(&mut s);
        }
        None
    }

    /// The thread has read so many blocks of its order, and brought inodes, this one first.
    pub fn brought(&self, count: u32, first: Option<Nid>) {
        let mut s = self.state.lock();
        let Some(order) = s.order.take() else { return };
        s.taken = false;
        let late = std::mem::take(&mut s.late);
        if s.next == order.run.end() {
            s.next = order.run.start.offset(count);
        }
        match first {
            Some(_) if late => self.order_more(&mut s),
            _ => self.mark.store(first.map_or(0, |nid| nid.0), Ordering::Relaxed),
        }
    }

    /// There is a thread from now on.
    pub fn begin(&self) {
        self.state.lock().served = true;
    }

    /// The thread is to end after what it is at.
    pub fn stop(&self) {
        let mut s = self.state.lock();
        (s.served, s.order, s.taken) = (false, None, false);
        self.changed.notify_all();
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    fn few() -> Miss {
        Miss { count: LEAST, announce: false }
    }

    fn missed(a: &Ahead, addr: u32) -> Miss {
        a.missed(BlockAddr(addr))
    }

    /// What the thread would take now.
    fn order(a: &Ahead) -> Option<(u32, u32)> {
        let mut s = a.state.lock();
        let order = s.order.filter(|_| !s.taken)?;
        s.taken = true;
        Some((order.run.start.0, order.run.count))
    }

    #[test]
    fn with_a_thread_what_goes_on_is_ordered_and_each_mark_orders_more() {
        let a = Ahead::default();
        a.begin();
        assert_eq!((missed(&a, 100), order(&a)), (few(), None));
        assert_eq!((missed(&a, 108), order(&a)), (few(), Some((116, 32))));
        a.brought(32, Some(Nid(7)));
        a.passed(Nid(6));
        assert_eq!(order(&a), None);
        a.passed(Nid(7));
        assert_eq!(order(&a), Some((148, 64)));
        // The segment ended.
        a.brought(20, Some(Nid(39)));
        a.passed(Nid(39));
        a.passed(Nid(39));
        assert_eq!(order(&a), Some((168, 128)));
        a.brought(128, Some(Nid(59)));
        a.passed(Nid(59));
        assert_eq!(order(&a), Some((296, 128)));
    }

    #[test]
    fn who_is_faster_than_the_thread_reads_a_few_and_the_thread_goes_on_at_once() {
        let a = Ahead::default();
        a.begin();
        missed(&a, 100);
        missed(&a, 108);
        assert_eq!(missed(&a, 117), few());
        assert_eq!(order(&a), Some((116, 32)));
        assert_eq!((missed(&a, 125), order(&a)), (few(), None));
        a.brought(32, Some(Nid(7)));
        assert_eq!(order(&a), Some((148, 64)));
        // Nothing came: no inodes are there.
        missed(&a, 150);
        a.brought(64, None);
        assert_eq!(order(&a), None);
        assert_eq!((missed(&a, 212), order(&a)), (few(), Some((220, 128))));
    }

    #[test]
    fn a_miss_elsewhere_does_not_end_what_goes_on() {
        let a = Ahead::default();
        a.begin();
        missed(&a, 100);
        missed(&a, 108);
        assert_eq!(order(&a), Some((116, 32)));
        missed(&a, 5000);
        a.brought(32, Some(Nid(7)));
        missed(&a, 9000);
        a.passed(Nid(7));
        assert_eq!(order(&a), Some((148, 64)));
        a.brought(64, Some(Nid(39)));
        // Two that go on elsewhere begin anew.
        assert_eq!((missed(&a, 9008), order(&a)), (few(), Some((9016, 32))));
    }

    #[test]
    fn without_a_thread_more_is_read_and_announced_while_it_goes_on() {
        let a = Ahead::default();
        let counts: Vec<_> = [100, 108, 124, 156, 220, 348].iter().map(|&at| missed(&a, at)).collect();
        let expected = [8, 16, 32, 64, 128, 128].map(|count| Miss { count, announce: count > LEAST });
        assert_eq!(counts, expected);
        assert_eq!((missed(&a, 9000), order(&a)), (few(), None));
        a.begin();
        a.stop();
        assert_eq!(a.next(), None);
    }
}

/// Every schedule of the thread and who asks: `cargo test -p segno-engine --features loom models`.
#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// An order that the thread does not see, or an end, is a thread that never ends.
    #[test]
    fn no_order_is_lost() {
        loom::model(|| {
            let ahead = Arc::new(Ahead::default());
            ahead.begin();
            let reader = {
                let ahead = ahead.clone();
                thread::spawn(move || {
                    let order = ahead.next();
                    ahead.brought(32, Some(Nid(7)));
                    order.map(|o| o.run.start)
                })
            };
            ahead.missed(BlockAddr(100));
            ahead.missed(BlockAddr(108));
            assert_eq!(reader.join().unwrap(), Some(BlockAddr(116)));
            let reader = {
                let ahead = ahead.clone();
                thread::spawn(move || while ahead.next().is_some() {})
            };
            ahead.stop();
            reader.join().unwrap();
        });
    }
}
