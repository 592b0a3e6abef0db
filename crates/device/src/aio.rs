//! Asynchronous direct reads through `io_submit(2)`, which completes them without help from the submitting thread and is
//! available where io_uring is forbidden.
#![allow(unsafe_code)]
use crate::aligned::Buffer;
use crate::wait;
use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;

const READ: u16 = 0;

/// `struct iocb` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Command {
    data: u64,
    key: [u32; 2],
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// `struct io_event` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Event {
    data: u64,
    command: u64,
    result: i64,
    more: i64,
}

/// A kernel context for one read. Destroying one is slow, so contexts are reused.
#[derive(Debug)]
struct Context(libc::c_ulong);

impl Context {
    fn new() -> io::Result<Self> {
        let mut id: libc::c_ulong = 0;
        // SAFETY: the kernel writes the number of the context through the pointer.
        checked(unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut id) })?;
        Ok(Self(id))
    }

    /// The result of the read if it has completed, or after waiting for it with `wait`.
    fn result(&self, wait: bool) -> io::Result<Option<i64>> {
        let mut event = Event::default();
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let timeout = if wait { ptr::null() } else { &raw const at_once };
        loop {
            // SAFETY: there is room for the one event requested, and the timeout is only read.
            let got = checked(unsafe {
                libc::syscall(libc::SYS_io_getevents, self.0, i64::from(wait), 1_i64, &raw mut event, timeout)
            });
            match got {
                Ok(n) if n > 0 => return Ok(Some(event.result)),
                Ok(_) if !wait => return Ok(None),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: the context was made by `new`, and no read is in flight: `Request` has waited for it.
        let _gone = unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// Contexts without a read in flight.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Context>>);

impl Drop for Pool {
    /// Each destruction waits for a grace period of the kernel, 30 ms: all of them wait at the same time.
    fn drop(&mut self) {
        std::thread::scope(|scope| {
            for context in self.0.get_mut().drain(..) {
                // Without a thread the context is destroyed here.
                let _thread = std::thread::Builder::new().spawn_scoped(scope, move || drop(context));
            }
        });
    }
}

/// A read in flight. The buffer does not move until the kernel has finished with it.
pub(crate) struct Request {
    pool: Arc<Pool>,
    /// `None` once the read has completed.
    context: Option<Context>,
    buffer: Option<Buffer>,
}

impl Request {
    /// Fills the buffer from a file opened for direct I/O; returns the buffer if the kernel refuses the request.
    pub(crate) fn start(
        pool: &Arc<Pool>,
        file: &File,
        offset: u64,
        mut buffer: Buffer,
    ) -> Result<Self, Buffer> {
        let spare = pool.0.lock().pop();
        let context = match spare.map_or_else(Context::new, Ok) {
            Ok(context) => context,
            Err(_refused) => return Err(buffer),
        };
        let bytes = buffer.bytes_mut();
        let mut command = Command {
            opcode: READ,
            file: file.as_raw_fd().cast_unsigned(),
            buffer: bytes.as_mut_ptr().expose_provenance() as u64,
            bytes: bytes.len() as u64,
            offset: offset.cast_signed(),
            ..Command::default()
        };
        let mut list = [&raw mut command];
        // SAFETY: the kernel reads the command now, and writes to the buffer until the read completes; `Request` owns it until then.
        let taken =
            checked(unsafe { libc::syscall(libc::SYS_io_submit, context.0, 1_i64, list.as_mut_ptr()) });
        if !matches!(taken, Ok(1)) {
            // Not reused: a context created before a fork does not belong to this process.
            return Err(buffer);
        }
        Ok(Self { pool: pool.clone(), context: Some(context), buffer: Some(buffer) })
    }

    pub(crate) fn wait(mut self) -> io::Result<Buffer> {
        let read = self.finish()?;
        let mut buffer = self.buffer.take().ok_or(io::ErrorKind::InvalidInput)?;
        match usize::try_from(read) {
            Ok(n) if n == buffer.bytes_mut().len() => Ok(buffer),
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(_) => Err(io::Error::from_raw_os_error(read.saturating_neg() as i32)),
        }
    }

    /// Waits for the read and returns its result.
    fn finish(&mut self) -> io::Result<i64> {
        let Some(context) = &self.context else { return Ok(0) };
        let result = match context.result(false)? {
            Some(result) => result,
            None => {
                wait::begins();
                context.result(true)?.ok_or(io::ErrorKind::WouldBlock)?
            }
        };
        self.pool.0.lock().extend(self.context.take());
        Ok(result)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.finish().is_err() {
            // The kernel may still write to it, so it is leaked rather than reused.
            std::mem::forget(self.buffer.take());
        }
    }
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
