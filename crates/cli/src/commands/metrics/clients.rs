//! Connections of the metrics server: how many there are, and how long each may take.
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time for a whole request, and for a whole response.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections served at a time.
const MOST_CLIENTS: usize = 16;

/// A connection of either kind.
pub trait Client: Read + Write + Send + Sized + 'static {
    /// Bounds the next read and write.
    fn limit(&self, time: Duration) -> io::Result<()>;
    fn duplicate(&self) -> io::Result<Self>;
    /// Ends reads and writes that wait.
    fn end(&self);
}

macro_rules! client {
    ($stream:ty) => {
        impl Client for $stream {
            fn limit(&self, time: Duration) -> io::Result<()> {
                self.set_read_timeout(Some(time))?;
                self.set_write_timeout(Some(time))
            }

            fn duplicate(&self) -> io::Result<Self> {
                self.try_clone()
            }

            fn end(&self) {
                // It may have ended already.
                let _ended = self.shutdown(Shutdown::Both);
            }
        }
    };
}

client!(TcpStream);
client!(UnixStream);

/// A client whose reads and writes together end in time.
pub struct Timed<'a, C> {
    client: &'a mut C,
    until: Instant,
}

impl<'a, C: Client> Timed<'a, C> {
    pub fn new(client: &'a mut C) -> Self {
        Self { client, until: Instant::now() + PATIENCE }
    }

    fn limit(&self) -> io::Result<()> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => self.client.limit(left),
        }
    }
}

impl<C: Client> Read for Timed<'_, C> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        self.client.read(into)
    }
}

impl<C: Client> Write for Timed<'_, C> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        self.client.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.client.flush()
    }
}

/// All connections. While there are too many, the oldest one that has not sent its request gives its place to a new one.
pub struct Clients<C> {
    served: AtomicUsize,
    /// Those that have not sent their request, oldest first, by number.
    sending: Mutex<VecDeque<(usize, C)>>,
    entered: AtomicUsize,
}

/// The place of a connection, until it is dropped.
pub struct Place<'a, C> {
    clients: &'a Clients<C>,
    number: usize,
}

impl<C: Client> Clients<C> {
    pub const fn new() -> Self {
        Self {
            served: AtomicUsize::new(0),
            sending: Mutex::new(VecDeque::new()),
            entered: AtomicUsize::new(0),
        }
    }

    /// `None` if it cannot be served, as too many others are.
    pub fn enter(&self, client: &C) -> Option<Place<'_, C>> {
        let duplicate = client.duplicate().ok()?;
        let mut sending = self.sending.lock();
        if self.served.load(Ordering::Relaxed) >= MOST_CLIENTS {
            let (_, oldest) = sending.pop_front()?;
            oldest.end();
        }
        self.served.fetch_add(1, Ordering::Relaxed);
        let number = self.entered.fetch_add(1, Ordering::Relaxed);
        sending.push_back((number, duplicate));
        Some(Place { clients: self, number })
    }
}

impl<C> Place<'_, C> {
    /// It is not ended for others any more.
    pub fn has_sent(&self) {
        self.clients.sending.lock().retain(|(number, _)| *number != self.number);
    }
}

impl<C> Drop for Place<'_, C> {
    fn drop(&mut self) {
        self.has_sent();
        self.clients.served.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    /// Reads a byte at a time, and notes for how long it may wait.
    #[derive(Default)]
    struct Slow(Mutex<Vec<Duration>>);

    impl Read for Slow {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            into[0] = b'x';
            Ok(1)
        }
    }

    impl Write for Slow {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Ok(1)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Client for Slow {
        fn limit(&self, time: Duration) -> io::Result<()> {
            self.0.lock().push(time);
            Ok(())
        }

        fn duplicate(&self) -> io::Result<Self> {
            Ok(Self::default())
        }

        fn end(&self) {}
    }

    #[test]
    fn a_byte_at_a_time_gains_no_time() {
        let mut slow = Slow::default();
        let mut timed = Timed { client: &mut slow, until: Instant::now() + Duration::from_secs(3600) };
        for _ in 0..3 {
            timed.read_exact(&mut [0; 2]).unwrap();
            timed.write_all(b"ab").unwrap();
        }
        timed.until = Instant::now();
        assert_eq!(timed.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(timed.write(b"a").unwrap_err().kind(), io::ErrorKind::TimedOut);
        let limits = slow.0.into_inner();
        assert_eq!(limits.len(), 12);
        assert!(limits.is_sorted_by(|a, b| a >= b), "{limits:?}");
    }

    #[test]
    fn the_oldest_that_sends_gives_its_place_and_none_that_has_sent() {
        let clients = Clients::new();
        let enter = || clients.enter(&Slow::default());
        let mut places: Vec<_> = (0..MOST_CLIENTS).map(|_| enter().unwrap()).collect();
        places[0].has_sent();
        let numbers = || clients.sending.lock().iter().map(|(number, _)| *number).collect::<Vec<_>>();
        places.push(enter().unwrap());
        assert_eq!((numbers()[0], numbers().len()), (2, 15), "0 is served, and 1 was ended");
        places.iter().for_each(Place::has_sent);
        assert!(enter().is_none());
        drop(places);
        assert!(enter().is_some());
    }
}
