//! A device that runs hooks inside its calls.
use segno_device::{BlockDevice, Zone, ZoneLimits};
use segno_format::Block;
use std::io;
use std::sync::{Mutex, PoisonError};

/// A call that reads, writes, flushes, discards, or resets or finishes a zone.
#[derive(Clone, Copy)]
pub enum Call<'a> {
    Read,
    /// Blocks from this address on.
    Write(u64, &'a [&'a Block]),
    Flush,
    Discard,
    Zone,
}

type Before = Box<dyn Fn(Call<'_>) + Send + Sync>;
type Hook = Box<dyn FnOnce() + Send>;

/// Forwards all calls. Runs a function before each, and a hook once, inside one of the calls that change the device.
pub struct PauseDevice<D> {
    inner: D,
    before: Before,
    /// The hook, and the number of calls before it.
    hook: Mutex<Option<(u64, Hook)>>,
}

impl<D> PauseDevice<D> {
    pub fn new(inner: D) -> Self {
        Self::before_each(inner, |_| {})
    }

    /// Calls `before` inside each call that it can see.
    pub fn before_each(inner: D, before: impl Fn(Call<'_>) + Send + Sync + 'static) -> Self {
        Self { inner, before: Box::new(before), hook: Mutex::new(None) }
    }

    /// The wrapped device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Runs `hook` inside the call with this number, counted from 0.
    pub fn set_hook(&self, call: u64, hook: impl FnOnce() + Send + 'static) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some((call, Box::new(hook)));
    }

    /// Removes the hook.
    pub fn clear_hook(&self) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn pause(&self, call: Call<'_>) {
        (self.before)(call);
        let mut slot = self.hook.lock().unwrap_or_else(PoisonError::into_inner);
        let due = match slot.as_mut() {
            Some((0, _)) => slot.take(),
            Some((left, _)) => {
                *left -= 1;
                None
            }
            None => None,
        };
        // Not under the lock, as the hook's own calls pass through here.
        drop(slot);
        if let Some((_, hook)) = due {
            hook();
        }
    }
}

impl<D: BlockDevice> BlockDevice for PauseDevice<D> {
    fn block_count(&self) -> u64 {
        self.inner.block_count()
    }
    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        (self.before)(Call::Read);
        self.inner.read(addr, into)
    }
    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.pause(Call::Write(addr, blocks));
        self.inner.write(addr, blocks)
    }
    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.pause(Call::Write(addr, blocks));
        self.inner.write_fua(addr, blocks)
    }
    fn flush(&self) -> io::Result<()> {
        self.pause(Call::Flush);
        self.inner.flush()
    }
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.pause(Call::Discard);
        self.inner.discard(addr, count)
    }
    fn read_only(&self) -> bool {
        self.inner.read_only()
    }
    fn zones(&self) -> io::Result<Vec<Zone>> {
        self.inner.zones()
    }
    fn zone_limits(&self) -> ZoneLimits {
        self.inner.zone_limits()
    }
    fn reset_zone(&self, start: u64) -> io::Result<()> {
        self.pause(Call::Zone);
        self.inner.reset_zone(start)
    }
    fn finish_zone(&self, start: u64) -> io::Result<()> {
        self.pause(Call::Zone);
        self.inner.finish_zone(start)
    }
}
