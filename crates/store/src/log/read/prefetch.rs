//! Detects sequential reads, and decides how far to read ahead of them.
use crate::wire::pieces::{OBJECT_BLOCKS, PIECE_BLOCKS};

/// Maximum number of sequential readers that are distinguished.
const STREAMS: usize = 8;
/// Blocks read ahead: 256 KiB to 96 MiB, so that eight objects are being read while those before them are
/// used.
const PREFETCH_MIN: u64 = 64;
const PREFETCH_MAX: u64 = 24576;
/// The blocks read ahead of a reader are this multiple of the blocks that it has read; in careful mode, the
/// same number.
const GROWTH: u64 = 8;
/// Number of jumps of a reader to another zone after which it is no longer read ahead beyond the end of a
/// zone.
const JUMPS: u32 = 2;
/// Blocks by which a read may begin before the end of its stream: reads of a stream may overtake each other.
const BEHIND: u64 = 1024;
const OBJECT: u64 = OBJECT_BLOCKS as u64;
const PIECE: u64 = PIECE_BLOCKS as u64;

pub(crate) struct Streams {
    /// In the order of their last use.
    all: Vec<Stream>,
    zone_blocks: u64,
    /// Maximum number of blocks read ahead for all readers together.
    most: u64,
    /// Blocks that all readers have read.
    read: u64,
}

/// A reader.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// First block of its next read.
    next: u64,
    /// All blocks before this one were requested.
    requested: u64,
    /// Blocks that it has read in order.
    read: u64,
    /// Whether one of its reads followed another one.
    follows: bool,
    /// Jumps to other zones since it last continued in the next one.
    jumps: u32,
    /// Blocks that all readers had read when it was last used.
    seen: u64,
}

impl Stream {
    fn has(&self, addr: u64) -> bool {
        addr == self.next || (self.follows && addr < self.requested && addr + BEHIND >= self.next)
    }

    /// Blocks that were requested and not read.
    fn unread(&self) -> u64 {
        self.requested - self.next
    }
}

impl Streams {
    /// Up to `most` blocks are read ahead.
    pub(crate) fn new(zone_blocks: u16, most: u64) -> Self {
        let most = most.clamp(PREFETCH_MIN, PREFETCH_MAX);
        Self { all: Vec::new(), zone_blocks: u64::from(zone_blocks).max(1), most, read: 0 }
    }

    /// Records a read. If it follows another one, calls `request` with the first block and the number of
    /// blocks to read ahead; `request` returns the end of the blocks that it requested. `careful` if much of
    /// the data read ahead was not used.
    pub(crate) fn note(&mut self, addr: u64, count: u64, careful: bool, request: impl Fn(u64, u64) -> u64) {
        let end = addr.saturating_add(count);
        self.read += count;
        let mut stream = self.take(addr);
        stream.follows |= stream.read > 0;
        stream.read += end.saturating_sub(stream.next);
        stream.next = stream.next.max(end);
        stream.requested = stream.requested.max(end);
        stream.seen = self.read;
        if stream.follows {
            // Blocks that a slow reader needs next may have been dropped since, in favour of fast readers.
            if stream.requested > end && addr / PIECE != end / PIECE {
                request(end, (stream.requested - end).min(2 * PIECE));
            }
            let window = self.window(&stream, careful);
            let wanted = self.wanted(&stream, window).saturating_sub(stream.requested);
            // In large steps, so that requests are large.
            if wanted > 0 && wanted >= (window / 2).min(OBJECT) {
                stream.requested = request(stream.requested, wanted);
            }
        }
        self.all.push(stream);
    }

    /// The reader that a read belongs to, or a new one.
    fn take(&mut self, addr: u64) -> Stream {
        if let Some(at) = self.all.iter().rposition(|s| s.has(addr)) {
            let mut stream = self.all.remove(at);
            if self.is_zone(addr) && addr == stream.next {
                stream.jumps = 0;
            }
            return stream;
        }
        // A file continues at the start of another zone.
        if self.is_zone(addr)
            && let Some(at) = self.all.iter().rposition(|s| s.follows && self.is_zone(s.next))
        {
            let stream = self.all.remove(at);
            return Stream { next: addr, requested: addr, jumps: stream.jumps + 1, ..stream };
        }
        if self.all.len() >= STREAMS {
            self.all.remove(self.all.iter().position(|s| !s.follows).unwrap_or(0));
        }
        Stream { next: addr, requested: addr, read: 0, follows: false, jumps: 0, seen: 0 }
    }

    fn is_zone(&self, addr: u64) -> bool {
        addr.is_multiple_of(self.zone_blocks)
    }

    /// A multiple of the blocks read, within the room that other active readers leave.
    fn window(&self, stream: &Stream, careful: bool) -> u64 {
        let active = self.all.iter().filter(|s| s.follows && self.read - s.seen < self.most);
        let (others, unread) = active.fold((0, 0), |(n, unread), s| (n + 1, unread + s.unread()));
        let room = self.most.saturating_sub(unread).max(self.most / (others + 1));
        if careful {
            return stream.read.min(room);
        }
        (stream.read * GROWTH).min(room).max(PREFETCH_MIN)
    }

    /// End of the blocks to request.
    fn wanted(&self, stream: &Stream, window: u64) -> u64 {
        let to = stream.next + window;
        let to = if window >= 2 * OBJECT { to / OBJECT * OBJECT } else { to };
        if stream.jumps < JUMPS { to } else { to.min(stream.next.next_multiple_of(self.zone_blocks)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: u64 = 8192;

    fn streams() -> Streams {
        Streams::new(ZONE as u16, PREFETCH_MAX)
    }

    /// The range that a read requests and that was not requested before, if any.
    fn note(streams: &mut Streams, addr: u64, count: u64) -> Option<(u64, u64)> {
        let known = streams.all.clone();
        let requested = std::cell::Cell::new(None);
        streams.note(addr, count, false, |from, count| {
            let to = from + count;
            if !known.iter().any(|s| from >= s.next && to <= s.requested) {
                requested.set(Some((from, to)));
            }
            to
        });
        requested.get()
    }

    /// Reads on from a block; returns the requested range, which must be in order and without gaps.
    fn read_on(streams: &mut Streams, mut at: u64, count: u64, reads: u64) -> Option<(u64, u64)> {
        let mut all: Option<(u64, u64)> = None;
        for _ in 0..reads {
            if let Some((from, to)) = note(streams, at, count) {
                all = Some((
                    all.map_or(
                        from,
                        |(first, last)| if last == from { first } else { panic!("{last} {from}") },
                    ),
                    to,
                ));
            }
            at += count;
        }
        all
    }

    #[test]
    fn the_second_read_reads_ahead_many_times_what_was_read_and_a_stream_a_whole_window() {
        let mut streams = streams();
        assert_eq!(note(&mut streams, 100, 256), None);
        assert_eq!(note(&mut streams, 356, 256), Some((612, 4096)));
        let all = read_on(&mut streams, 612, 256, 60);
        assert_eq!(all, Some((4096, (612 + 60 * 256 + PREFETCH_MAX) / OBJECT * OBJECT)));
        let mut small = streams_of_small_reads();
        assert_eq!(note(&mut small, 2, 1), None, "enough is requested");
        assert_eq!(note(&mut small, 13, 1), Some((66, 126)));
    }

    #[test]
    fn a_careful_reader_is_ahead_by_what_was_read() {
        let mut streams = streams();
        let requested = std::cell::Cell::new((0, 0));
        let mut read = |addr| {
            streams.note(addr, 256, true, |from, count| {
                requested.set((from, from + count));
                from + count
            });
            requested.get()
        };
        assert_eq!([read(100), read(356), read(612)], [(0, 0), (612, 1124), (1124, 1636)]);
    }

    fn streams_of_small_reads() -> Streams {
        let mut streams = streams();
        note(&mut streams, 0, 1);
        assert_eq!(note(&mut streams, 1, 1), Some((2, 66)));
        streams
    }

    #[test]
    fn reads_that_do_not_follow_each_other_request_nothing() {
        let mut streams = streams();
        for addr in [5, 1000, 3, 500, 999, 6000, 10, 4, 501, 2000] {
            assert_eq!(note(&mut streams, addr, 4), None, "{addr}");
        }
    }

    #[test]
    fn what_a_slow_reader_needs_next_is_requested_again() {
        let mut streams = streams_of_small_reads();
        let again = |addr| {
            let requested = std::cell::Cell::new(None);
            streams.note(addr, 1, false, |from, count| {
                requested.set(Some((from, count)));
                from + count
            });
            requested.get()
        };
        let all: Vec<_> = (2..16).map(again).collect();
        assert_eq!((&all[..11], all[12]), ([None; 11].as_slice(), None));
        assert_eq!((all[11], all[13]), (Some((66, 60)), Some((16, 32))), "more ahead, and again");
    }

    /// The threads of a server send reads in this way.
    #[test]
    fn reads_of_a_stream_may_overtake_each_other() {
        let mut streams = streams();
        read_on(&mut streams, 0, 256, 4);
        for at in [5, 4, 6, 8, 7, 9] {
            note(&mut streams, at * 256, 256);
        }
        assert_eq!(streams.all.len(), 1);
        assert_eq!((streams.all[0].next, streams.all[0].read), (2560, 2560));
    }

    #[test]
    fn a_stream_goes_on_at_the_start_of_another_zone() {
        let mut streams = streams();
        let all = read_on(&mut streams, ZONE, 256, 32);
        assert!(all.is_some_and(|(_, to)| to > 2 * ZONE), "the next zone is the best guess");
        let (from, to) = note(&mut streams, 8 * ZONE, 256).unwrap();
        assert!(from == 8 * ZONE + 256 && to > 9 * ZONE, "at once");
        read_on(&mut streams, 8 * ZONE + 256, 256, 31);
        let (from, to) = note(&mut streams, 5 * ZONE, 256).unwrap();
        assert_eq!((from, to), (5 * ZONE + 256, 6 * ZONE), "not behind its end");
        assert_eq!(read_on(&mut streams, 5 * ZONE + 256, 256, 31), None);
        // It continued in the next zone.
        let (from, to) = note(&mut streams, 6 * ZONE, 256).unwrap();
        assert!(from == 6 * ZONE + 256 && to > 7 * ZONE);
    }

    #[test]
    fn streams_share_the_cache_and_outlive_random_reads() {
        let mut streams = streams();
        for i in 0..40 {
            note(&mut streams, i * 256, 256);
            note(&mut streams, 1_000_000 + i * 256, 256);
            for random in 0..5 {
                note(&mut streams, 5_000_000 + (i * 5 + random) * 100, 1);
            }
        }
        let ahead: Vec<u64> =
            streams.all.iter().filter(|s| s.follows).map(|s| s.requested - s.next).collect();
        assert!(
            ahead.len() == 2
                && ahead.iter().sum::<u64>() < PREFETCH_MAX * 3 / 2
                && ahead.iter().all(|&a| a >= PREFETCH_MAX / 2),
            "{ahead:?}"
        );
        // One of them ended.
        for i in 40..200 {
            note(&mut streams, i * 256, 256);
        }
        let last = streams.all.last().unwrap();
        assert!(last.requested - last.next > PREFETCH_MAX / 2);
    }
}
