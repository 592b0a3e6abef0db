//! Asynchronous writes: Linux AIO and io_uring.
use io_uring::{IoUring, opcode, types};
use rustix::fd::AsRawFd;
use std::fs::File;
use std::io;
use std::ptr;

const PWRITE: u16 = 1;

/// Writes each buffer at its offset, all in flight at the same time, and waits for all completions.
pub(super) type WriteAll = fn(&File, &[(u64, &[u8])]) -> io::Result<()>;

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
#[derive(Clone, Default)]
struct Event {
    data: u64,
    command: u64,
    result: i64,
    more: i64,
}

pub(super) fn linux_aio(file: &File, writes: &[(u64, &[u8])]) -> io::Result<()> {
    let mut context: libc::c_ulong = 0;
    // SAFETY: the kernel writes the context id through the pointer.
    checked(unsafe { libc::syscall(libc::SYS_io_setup, writes.len(), &raw mut context) })?;
    let done = submit_and_collect(context, file, writes);
    // SAFETY: waits for the writes in flight; the buffers outlive this call.
    checked(unsafe { libc::syscall(libc::SYS_io_destroy, context) })?;
    done
}

fn submit_and_collect(context: libc::c_ulong, file: &File, writes: &[(u64, &[u8])]) -> io::Result<()> {
    let mut commands: Vec<Command> = writes
        .iter()
        .map(|(offset, bytes)| Command {
            opcode: PWRITE,
            file: file.as_raw_fd().cast_unsigned(),
            buffer: bytes.as_ptr().expose_provenance() as u64,
            bytes: bytes.len() as u64,
            offset: offset.cast_signed(),
            ..Command::default()
        })
        .collect();
    let mut list: Vec<*mut Command> = commands.iter_mut().map(ptr::from_mut).collect();
    // SAFETY: the kernel reads the commands during the call and the buffers until `io_destroy` at the latest.
    let taken =
        checked(unsafe { libc::syscall(libc::SYS_io_submit, context, list.len(), list.as_mut_ptr()) })?;
    assert_eq!(taken as usize, writes.len());
    let mut events = vec![Event::default(); writes.len()];
    let (n, timeout) = (events.len(), ptr::null::<libc::timespec>());
    // SAFETY: the buffer has room for the requested number of events; without a timeout the call waits for all.
    let got = checked(unsafe {
        libc::syscall(libc::SYS_io_getevents, context, n, n, events.as_mut_ptr(), timeout)
    })?;
    assert_eq!(got as usize, n);
    assert!(events.iter().all(|e| e.result == writes[0].1.len() as i64), "a write failed or was short");
    Ok(())
}

pub(super) fn io_uring(file: &File, writes: &[(u64, &[u8])]) -> io::Result<()> {
    let mut ring = IoUring::new(writes.len() as u32)?;
    for (offset, bytes) in writes {
        let fd = types::Fd(file.as_raw_fd());
        let entry = opcode::Write::new(fd, bytes.as_ptr(), bytes.len() as u32).offset(*offset).build();
        // SAFETY: file and buffers outlive the ring, which is drained below.
        unsafe { ring.submission().push(&entry) }.unwrap();
    }
    ring.submit_and_wait(writes.len())?;
    let results: Vec<i32> = ring.completion().map(|done| done.result()).collect();
    assert_eq!(results, vec![writes[0].1.len() as i32; writes.len()]);
    Ok(())
}

fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
