//! Detects files written sequentially, which get an exclusive stream.
use crate::lock::{Mutex, rank};
use crate::space::Stream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pages in sequence after which a file may get an exclusive stream (4 MiB).
pub const PROMOTE: u64 = 1024;
/// Minimum pages in a flush (1 MiB) to get one: a file synced more often would leave sections mostly empty.
const LARGE_FLUSH: u64 = 256;
/// Time without writes after which a clean file returns its stream.
pub const IDLE: Duration = Duration::from_secs(5);

/// Write pattern of a file.
#[derive(Debug, Default)]
pub struct Sequence {
    state: Mutex<SequenceState, { rank::LEAF }>,
}

#[derive(Debug, Default)]
struct SequenceState {
    /// The page after the last one written back.
    next: u64,
    /// Number of pages in sequence up to `next`.
    streak: u64,
    stream: Option<(Arc<Stream>, Instant)>,
}

/// The stream that a flush of a file may use.
#[derive(Debug)]
pub enum Choice {
    Own(Arc<Stream>),
    /// The file qualifies for an exclusive stream.
    Worth,
    Shared,
    /// No longer sequential: the stream must be ended.
    Over(Arc<Stream>),
}

impl Sequence {
    /// Records pages that are about to be written back.
    pub fn next(&self, pages: impl Iterator<Item = u64>) -> Choice {
        let mut s = self.state.lock();
        let (mut count, mut breaks) = (0, 0);
        for page in pages {
            if page != s.next || s.streak == 0 {
                breaks += u64::from(s.streak > 0);
                s.streak = 0;
            }
            s.streak += 1;
            s.next = page + 1;
            count += 1;
        }
        if breaks * 8 > count {
            return s.stream.take().map_or(Choice::Shared, |(stream, _)| Choice::Over(stream));
        }
        if let Some((stream, used)) = &mut s.stream {
            *used = Instant::now();
            return Choice::Own(stream.clone());
        }
        if s.streak >= PROMOTE && count >= LARGE_FLUSH { Choice::Worth } else { Choice::Shared }
    }
    /// Whether nothing was written back yet.
    pub fn is_new(&self) -> bool {
        self.state.lock().streak == 0
    }
    /// Sets the exclusive stream; false if the file has one.
    #[must_use]
    pub fn promote(&self, stream: Arc<Stream>) -> bool {
        self.state.lock().stream.replace((stream, Instant::now())).is_none()
    }
    /// Takes the stream if it was idle for at least this long.
    pub fn idle(&self, at_least: Duration) -> Option<Arc<Stream>> {
        let mut s = self.state.lock();
        s.stream.take_if(|(_, used)| used.elapsed() >= at_least).map(|(stream, _)| stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_sequential_flush_is_worth_a_stream() {
        let s = Sequence::default();
        assert!(matches!(s.next(0..1023), Choice::Shared));
        assert!(matches!(s.next(1023..1100), Choice::Shared), "too small a flush");
        assert!(matches!(s.next(1100..1400), Choice::Worth));
        assert!(matches!(Sequence::default().next(5000..6024), Choice::Worth), "wherever it begins");
    }

    #[test]
    fn scattered_pages_are_not_worth_a_stream() {
        let s = Sequence::default();
        assert!(matches!(s.next((0..4000).map(|i| i * 2)), Choice::Shared));
        assert!(matches!(s.next((0..4000).filter(|i| i % 5 != 0)), Choice::Shared));
        assert!(
            matches!(s.next((0..4000).filter(|i| i % 900 != 899)), Choice::Shared),
            "the last streak is short"
        );
    }
}
