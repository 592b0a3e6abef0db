//! Image files and block devices, through the page cache or with direct I/O.
use crate::aio::{Pool, Request};
use crate::aligned::Buffer;
use crate::exclusion::{self, LockedFile, Use};
use crate::exclusive_open::ExclusiveOpen;
use crate::host_storage::HostStorage;
use crate::host_zones::HostZones;
use crate::location::{Location, WHOLE};
use crate::part_error::PartError;
use crate::probe::{Probe, probe_file};
use crate::read_around::{ReadAround, WINDOW};
use crate::reading::Reading;
use crate::storage_kind::{StorageKind, kind};
use crate::zone::{self, Zone, ZoneLimits};
use crate::{BlockDevice, DeviceError, OpenOptions, aligned, bounds, ioctl, start, unfinished_format, wait};
use rustix::fs::{Advice, FallocateFlags, OFlags, SeekFrom};
use rustix::fs::{fadvise, fallocate, fcntl_getfl, fcntl_setfl, fstatfs, seek};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};
use segno_format::{BLOCK_SIZE, Block};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use zerocopy::IntoBytes;

/// Most buffers the kernel takes in one call.
const IOV_MAX: usize = 1024;

/// Writes of this number of blocks (256 KiB) or more start writeback at once, so that a later flush does not
/// have to wait for all of it.
const LARGE: usize = 64;

static ZEROS: Block = Block([0; BLOCK_SIZE]);

/// An image file or block device, held exclusively until dropped unless it is only observed.
#[derive(Debug)]
pub struct FileDevice {
    probe: Probe,
    /// Byte of the file that the device begins with.
    start: u64,
    read_only: bool,
    direct: bool,
    /// Whether the image file is in a file system without a device, which commits no allocations.
    in_memory: bool,
    /// A second descriptor of the file, opened with `O_DIRECT`, for readahead and `write_behind`.
    past: Option<File>,
    reads: Arc<Pool>,
    read_around: ReadAround,
    /// Of a block device.
    exclusive: Option<Arc<ExclusiveOpen>>,
    /// Of a zoned block device.
    zones: Option<HostZones>,
    discard_refused: AtomicBool,
    dsync_refused: AtomicBool,
    past_refused: AtomicBool,
    /// The last fields, as fields are dropped in order: the locks are released after all requests.
    file: LockedFile,
    /// The backing file of a loop device.
    _backing: Option<LockedFile>,
}

impl FileDevice {
    /// Opens an existing file or device, or the part of one that a [`Location`] names, and keeps others out
    /// of it, as [`Use`] states; its size is fixed from then on.
    pub fn open(path: impl AsRef<Path>, options: OpenOptions) -> Result<Self, DeviceError> {
        Self::open_for(path.as_ref(), options, options.into())
    }

    fn open_for(path: &Path, options: OpenOptions, usage: Use) -> Result<Self, DeviceError> {
        let (file, bytes) = Location::of(path).extents()?.single()?;
        Self::open_bytes(path, (&file, bytes), options, usage)
    }

    /// Opens bytes of a file, of a location that is named like this.
    pub(crate) fn open_bytes(
        path: &Path,
        (of, bytes): (&Path, Range<u64>),
        options: OpenOptions,
        usage: Use,
    ) -> Result<Self, DeviceError> {
        let mut flags = OFlags::empty();
        flags.set(OFlags::DIRECT, options.direct);
        let exclusive = match kind(of)? {
            StorageKind::BlockDevice if usage != Use::Observe => {
                exclusion::open_exclusively(of, usage)?.map(Arc::new)
            }
            _ => None,
        };
        let file = File::options()
            .read(true)
            .write(!options.read_only)
            .custom_flags(flags.bits().cast_signed())
            .open(of)
            .map_err(|e| options.open_error(path, e))?;
        let file = LockedFile(file);
        let probe = probe_file(path, &file)?.part(&bytes);
        let backing = exclusion::exclude(path, &file, &bytes, usage)?;
        let zones = match probe.kind {
            StorageKind::Regular => None,
            StorageKind::BlockDevice => {
                check_protection(path, &file, options.read_only)?;
                zones_of(&file, probe.bytes / BLOCK_SIZE as u64)
                    .map_err(|e| DeviceError::io("use the zones of", path, e))?
            }
        };
        if zones.is_some() && bytes != WHOLE {
            return Err(DeviceError::part(of, PartError::Zoned));
        }
        if options.direct && !bytes.start.is_multiple_of(probe.sector_size.into()) {
            return Err(DeviceError::NoDirect { path: path.display().to_string() });
        }
        let options = OpenOptions { direct: options.direct || zones.is_some(), ..options };
        Ok(Self { zones, exclusive, _backing: backing, ..Self::new(file, probe, bytes.start, options) })
    }

    /// Opens an existing file or device for reading, without a lock. The content may change at any time, and
    /// the caller must be able to detect that.
    pub fn observe(path: impl AsRef<Path>) -> Result<Self, DeviceError> {
        Self::open_for(path.as_ref(), OpenOptions { read_only: true, direct: false }, Use::Observe)
    }

    /// Opens a block device for writing though it is mounted read-only. The mount has to end before anything
    /// else is written.
    pub fn open_held(path: impl AsRef<Path>) -> Result<Self, DeviceError> {
        Self::open_for(path.as_ref(), OpenOptions::default(), Use::Repair)
    }

    /// Creates a sparse image file of `bytes`. With `force`, an existing file that is not in use is emptied,
    /// except for the mark of an unfinished format, which the next format replaces.
    pub fn create(path: impl AsRef<Path>, bytes: u64, force: bool) -> Result<Self, DeviceError> {
        let path = path.as_ref();
        let existed = path.exists();
        if existed && kind(path)? == StorageKind::BlockDevice {
            return Err(DeviceError::FixedSize { path: path.display().to_string() });
        }
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .create_new(!force)
            .truncate(false)
            .open(path)
            .map_err(|e| create_error(path, e))?;
        let file = LockedFile(file);
        // Emptied only under the lock: it may be mounted.
        exclusion::exclude(path, &file, &WHOLE, Use::Write)?;
        if let Err(e) = empty(&file).and_then(|()| file.set_len(bytes)) {
            if !existed {
                // Best effort: the caller needs the error of the refused size.
                let _left_behind = std::fs::remove_file(path);
            }
            return Err(DeviceError::io("set the size of", path, e));
        }
        let probe = probe_file(path, &file)?;
        Ok(Self::new(file, probe, 0, OpenOptions::default()))
    }

    fn new(file: LockedFile, probe: Probe, start: u64, options: OpenOptions) -> Self {
        // Readahead is up to the file system: adjacent blocks on the device are often unrelated.
        hint(&file, 0, None, Advice::Random);
        let [discard_refused, dsync_refused, past_refused] = [(); 3].map(|()| AtomicBool::new(false));
        let OpenOptions { read_only, direct } = options;
        let aligned = start.is_multiple_of(BLOCK_SIZE as u64);
        let past = if direct || !aligned { None } else { past_cache(&file, read_only) };
        Self {
            in_memory: is_in_memory(&file),
            file,
            _backing: None,
            probe,
            start,
            read_only,
            direct,
            past,
            reads: Arc::default(),
            read_around: ReadAround::default(),
            exclusive: None,
            zones: None,
            discard_refused,
            dsync_refused,
            past_refused,
        }
    }

    /// Allocates all storage of an image file, so that no later write fails for lack of space on the host.
    pub fn allocate(&self, path: impl AsRef<Path>) -> Result<(), DeviceError> {
        let all = fallocate(&self.file, FallocateFlags::empty(), self.start, self.probe.bytes);
        all.map_err(|e| DeviceError::io("allocate the storage of", path.as_ref(), e.into()))
    }

    /// Changes the length of an image file. Added bytes are a hole, or are allocated if all of the file is.
    pub fn set_length(&mut self, path: impl AsRef<Path>, bytes: u64) -> Result<(), DeviceError> {
        let path = path.as_ref();
        let has_all = self.is_preallocated();
        self.file.set_len(bytes).map_err(|e| DeviceError::io("set the size of", path, e))?;
        self.probe = probe_file(path, &self.file)?;
        if has_all { self.allocate(path) } else { Ok(()) }
    }

    /// Kind, size and sector size of the device.
    #[must_use]
    pub fn probe(&self) -> Probe {
        self.probe
    }

    /// Byte of the file that a block begins with.
    fn at(&self, addr: u64) -> u64 {
        self.start.saturating_add(bytes_of(addr))
    }

    fn check_write(&self, addr: u64, count: u64) -> io::Result<()> {
        bounds::check(self.block_count(), addr, count)?;
        bounds::check_writable(self.read_only)
    }

    fn read_buffered(&self, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
        let small = (into.len() as u64) < WINDOW;
        if small && self.read_around.wanted() {
            let start = offset & !(WINDOW - 1);
            hint(&self.file, start, NonZeroU64::new(WINDOW), Advice::WillNeed);
        }
        // Starts the missing reads, and takes only what is cached.
        let had =
            preadv2(&self.file, &mut [IoSliceMut::new(into)], offset, ReadWriteFlags::NOWAIT).unwrap_or(0);
        into = into.get_mut(had..).unwrap_or_default();
        if into.is_empty() {
            self.read_around.found();
            return Ok(());
        }
        if small {
            self.read_around.waited();
        }
        offset = offset.saturating_add(had as u64);
        wait::begins();
        self.file.read_exact_at(into, offset)
    }

    fn write_gathered(&self, addr: u64, blocks: &[&Block], flags: ReadWriteFlags) -> io::Result<()> {
        let mut offset = self.at(addr);
        if self.direct {
            return write_aligned(&self.file, offset, blocks, flags);
        }
        for batch in blocks.chunks(IOV_MAX) {
            let mut slices: Vec<IoSlice<'_>> = batch.iter().map(|b| IoSlice::new(&b.0)).collect();
            offset = write_slices(&self.file, &mut slices, offset, flags)?;
        }
        Ok(())
    }

    /// Whether the first or the last of these blocks of an image file is a hole. The next hole may be gigabytes away, and the search
    /// for it visits every page up to there.
    fn is_sparse(&self, addr: u64, count: u64) -> io::Result<bool> {
        let is_hole = |addr| match seek(&self.file, SeekFrom::Data(self.at(addr))) {
            Ok(data) => Ok(data != self.at(addr)),
            Err(Errno::NXIO) => Ok(true),
            Err(e) => Err(e),
        };
        Ok(is_hole(addr)? || is_hole(addr.saturating_add(count.saturating_sub(1)))?)
    }

    fn discard_bytes(&self, offset: u64, len: u64) -> io::Result<()> {
        match self.probe.kind {
            StorageKind::Regular => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                Ok(fallocate(&self.file, flags, offset, len)?)
            }
            StorageKind::BlockDevice => ioctl::blkdiscard(&self.file, offset, len),
        }
    }
}

impl BlockDevice for FileDevice {
    fn block_count(&self) -> u64 {
        self.probe.bytes / BLOCK_SIZE as u64
    }

    fn read(&self, addr: u64, into: &mut [Block]) -> io::Result<()> {
        bounds::check(self.block_count(), addr, into.len() as u64)?;
        if !self.direct {
            return self.read_buffered(into.as_mut_bytes(), self.at(addr));
        }
        wait::begins();
        let mut offset = self.at(addr);
        for part in into.chunks_mut(IOV_MAX) {
            let mut copy = aligned::zeroed(part.len());
            self.file.read_exact_at(copy.as_mut_bytes(), offset)?;
            part.as_mut_bytes().copy_from_slice(copy.as_bytes());
            offset = offset.saturating_add(copy.as_bytes().len() as u64);
        }
        Ok(())
    }

    fn start_read(&self, addr: u64, into: Buffer) -> Reading {
        let count = into.blocks().len() as u64;
        let past = if self.direct { Some(&*self.file) } else { self.past.as_ref() };
        let inside = bounds::check(self.block_count(), addr, count).is_ok();
        let started = match past.filter(|_| inside && count > 0) {
            Some(past) => Request::start(&self.reads, past, self.at(addr), into),
            None => Err(into),
        };
        match started {
            Ok(request) => Reading::under_way(request),
            Err(into) => Reading::at_once(into, |blocks| self.read(addr, blocks)),
        }
    }

    fn write(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.check_write(addr, blocks.len() as u64)?;
        self.write_gathered(addr, blocks, ReadWriteFlags::empty())?;
        if blocks.len() >= LARGE && !self.direct {
            start::writing(&self.file, self.at(addr), bytes_of(blocks.len() as u64));
        }
        Ok(())
    }

    /// On an image file this also drops the page cache of the range.
    fn write_behind(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.check_write(addr, blocks.len() as u64)?;
        if let Some(past) = self.past.as_ref().filter(|_| !self.past_refused.load(Ordering::Relaxed)) {
            match write_aligned(past, self.at(addr), blocks, ReadWriteFlags::empty()) {
                Err(e) if e.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                    self.past_refused.store(true, Ordering::Relaxed);
                }
                done => return done,
            }
        }
        self.write(addr, blocks)
    }

    fn write_fua(&self, addr: u64, blocks: &[&Block]) -> io::Result<()> {
        self.check_write(addr, blocks.len() as u64)?;
        wait::begins();
        if !self.dsync_refused.load(Ordering::Relaxed) {
            match self.write_gathered(addr, blocks, ReadWriteFlags::DSYNC) {
                Err(e) if unsupported(&e) => self.dsync_refused.store(true, Ordering::Relaxed),
                done => return done,
            }
        }
        self.write_gathered(addr, blocks, ReadWriteFlags::empty())?;
        self.file.sync_data()
    }

    fn flush(&self) -> io::Result<()> {
        if self.read_only {
            return Ok(());
        }
        wait::begins();
        self.file.sync_data()
    }

    /// On a zoned device: resets the sequential zones inside the range.
    fn discard(&self, addr: u64, count: u64) -> io::Result<()> {
        self.check_write(addr, count)?;
        if let Some(zones) = &self.zones {
            return zones.reset_within(&self.file, addr, count);
        }
        if count == 0 || self.discard_refused.load(Ordering::Relaxed) {
            return Ok(());
        }
        match self.discard_bytes(self.at(addr), bytes_of(count)) {
            Err(e) if unsupported(&e) => {
                self.discard_refused.store(true, Ordering::Relaxed);
                Ok(())
            }
            done => done,
        }
    }

    fn prepare(&self, addr: u64, count: u64) -> io::Result<()> {
        self.check_write(addr, count)?;
        if self.probe.kind != StorageKind::Regular || self.in_memory || !self.is_sparse(addr, count)? {
            return Ok(());
        }
        let zeros = vec![&ZEROS; usize::try_from(count).unwrap_or(0)];
        self.write_gathered(addr, &zeros, ReadWriteFlags::empty())
    }

    /// With direct I/O there is no cache to read into.
    fn prefetch(&self, addr: u64, count: u64) {
        if self.direct || bounds::check(self.block_count(), addr, count).is_err() {
            return;
        }
        hint(&self.file, self.at(addr), NonZeroU64::new(bytes_of(count)), Advice::WillNeed);
    }

    fn host_storage(&self) -> io::Result<Option<HostStorage>> {
        match self.probe.kind {
            StorageKind::Regular => {
                HostStorage::of(&self.file, self.start..self.start.saturating_add(self.probe.bytes)).map(Some)
            }
            StorageKind::BlockDevice => Ok(None),
        }
    }

    fn next_data(&self, addr: u64) -> u64 {
        match seek(&self.file, SeekFrom::Data(self.at(addr))) {
            Ok(offset) => (offset.saturating_sub(self.start) / BLOCK_SIZE as u64)
                .clamp(addr, self.block_count().max(addr)),
            Err(Errno::NXIO) => self.block_count().max(addr),
            // Not known of this file system or device.
            Err(_) => addr,
        }
    }

    fn read_only(&self) -> bool {
        self.read_only
    }

    fn exclusive_open(&self) -> Option<Arc<ExclusiveOpen>> {
        self.exclusive.clone()
    }

    fn zones(&self) -> io::Result<Vec<Zone>> {
        let all = |zones: &HostZones| zones.all(&self.file);
        self.zones.as_ref().map_or_else(|| Ok(Vec::new()), all)
    }

    fn zone_limits(&self) -> ZoneLimits {
        self.zones.as_ref().map(HostZones::limits).unwrap_or_default()
    }

    fn reset_zone(&self, start: u64) -> io::Result<()> {
        self.check_write(start, 1)?;
        self.zones.as_ref().ok_or_else(zone::none)?.reset(&self.file, start)
    }

    fn finish_zone(&self, start: u64) -> io::Result<()> {
        self.check_write(start, 1)?;
        self.zones.as_ref().ok_or_else(zone::none)?.finish(&self.file, start)
    }
}

/// Bytes of `blocks` blocks; callers have checked `blocks` against a size that was counted in bytes.
fn bytes_of(blocks: u64) -> u64 {
    blocks.saturating_mul(BLOCK_SIZE as u64)
}

/// The file opened once more with `O_DIRECT`, if its file system supports that.
fn past_cache(file: &File, read_only: bool) -> Option<File> {
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::DIRECT.bits().cast_signed();
    File::options().read(true).write(!read_only).custom_flags(flags).open(again).ok()
}

/// Replaces the superblocks by the mark of an unfinished format, and cuts off the rest.
fn empty(file: &File) -> io::Result<()> {
    let marked = 2 * BLOCK_SIZE as u64;
    if file.metadata()?.len() < marked {
        return file.set_len(0);
    }
    for at in [0, BLOCK_SIZE as u64] {
        file.write_all_at(&unfinished_format().0, at)?;
        file.sync_data()?;
    }
    file.set_len(marked)
}

/// Writes an aligned copy with direct I/O.
fn write_aligned(file: &File, mut offset: u64, blocks: &[&Block], flags: ReadWriteFlags) -> io::Result<()> {
    for batch in blocks.chunks(IOV_MAX) {
        let copy = aligned::copy_of(batch);
        offset = write_slices(file, &mut [IoSlice::new(copy.as_bytes())], offset, flags)?;
    }
    Ok(())
}

/// Writes all slices and returns the offset after them.
fn write_slices(
    file: &File,
    mut slices: &mut [IoSlice<'_>],
    mut offset: u64,
    flags: ReadWriteFlags,
) -> io::Result<u64> {
    while !slices.is_empty() {
        match pwritev2(file, slices, offset, flags) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                offset = offset.saturating_add(n as u64);
                IoSlice::advance_slices(&mut slices, n);
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(offset)
}

fn unsupported(e: &io::Error) -> bool {
    // EOPNOTSUPP: this file or device cannot; ENOSYS: this kernel cannot.
    matches!(Errno::from_io_error(e), Some(Errno::OPNOTSUPP | Errno::NOSYS))
}

/// Zones of a block device. It is used with direct I/O from then on, as the page cache writes blocks in any order.
fn zones_of(file: &File, blocks: u64) -> io::Result<Option<HostZones>> {
    let zones = HostZones::of(file, blocks)?;
    if zones.is_some() {
        fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT)?;
    }
    Ok(zones)
}

fn check_protection(path: &Path, file: &File, read_only: bool) -> Result<(), DeviceError> {
    let protected = ioctl::blkroget(file).map_err(|e| DeviceError::io("query", path, e))?;
    if protected && !read_only {
        let source = io::ErrorKind::ReadOnlyFilesystem.into();
        return Err(DeviceError::ReadOnly { path: path.display().to_string(), source });
    }
    Ok(())
}

/// Advises the page cache. A file system without one refuses; reads work as well without.
fn hint(file: &File, offset: u64, len: Option<NonZeroU64>, advice: Advice) {
    let _no_page_cache = fadvise(file, offset, len, advice);
}

/// Whether the file is in tmpfs.
fn is_in_memory(file: &File) -> bool {
    /// `TMPFS_MAGIC` of statfs(2).
    const TMPFS: u64 = 0x0102_1994;
    fstatfs(file).is_ok_and(|s| u64::try_from(s.f_type) == Ok(TMPFS))
}

fn create_error(path: &Path, e: io::Error) -> DeviceError {
    match e.kind() {
        io::ErrorKind::AlreadyExists => DeviceError::Exists { path: path.display().to_string() },
        _ => DeviceError::io("create", path, e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A process that another thread starts has a copy of the descriptor until it executes its program.
    #[test]
    fn a_descriptor_left_elsewhere_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let device = FileDevice::create(&path, 1 << 20, false).unwrap();
        let elsewhere = device.file.try_clone().unwrap();
        drop(device);
        FileDevice::open(&path, OpenOptions::default()).unwrap();
        drop(elsewhere);
    }

    #[test]
    fn a_refused_open_says_what_to_do() {
        let refused = |options: OpenOptions, errno: Errno| {
            options.open_error(Path::new("disk"), errno.into()).to_string()
        };
        let (write, read) = (OpenOptions::default(), OpenOptions { read_only: true, direct: false });
        for errno in [Errno::ACCESS, Errno::ROFS, Errno::PERM] {
            assert!(refused(write, errno).starts_with("disk cannot be written"), "{errno}");
            assert!(refused(read, errno).starts_with("cannot open disk"), "{errno}");
        }
        assert!(refused(write, Errno::BUSY).starts_with("disk is in use by another program or the kernel"));
        let direct = OpenOptions { direct: true, ..write };
        assert_eq!(refused(direct, Errno::INVAL), "disk does not support direct I/O; open it buffered");
    }

    #[test]
    fn refused_features_are_remembered_and_done_without() {
        let dir = tempfile::tempdir().unwrap();
        let device = FileDevice::create(dir.path().join("image"), 4 * BLOCK_SIZE as u64, false).unwrap();
        device.dsync_refused.store(true, Ordering::Relaxed);
        device.discard_refused.store(true, Ordering::Relaxed);
        let block = Block([3; BLOCK_SIZE]);
        device.write_fua(1, &[&block]).unwrap();
        device.discard(1, 1).unwrap();
        let mut back = [Block::zeroed()];
        device.read(1, &mut back).unwrap();
        assert_eq!(back[0].0, block.0);
    }

    #[test]
    fn a_thread_is_told_of_waits() {
        thread_local! { static WAITS: Cell<u32> = const { Cell::new(0) }; }
        let dir = tempfile::tempdir().unwrap();
        let device = FileDevice::create(dir.path().join("image"), 4 * BLOCK_SIZE as u64, false).unwrap();
        let (block, mut back) = (Block([3; BLOCK_SIZE]), [Block::zeroed(), Block::zeroed()]);
        device.write(1, &[&block]).unwrap();
        wait::before_waits(Some(|| WAITS.set(WAITS.get() + 1)));
        device.read(1, &mut back).unwrap();
        let cached = WAITS.get();
        device.flush().unwrap();
        device.write_fua(2, &[&block]).unwrap();
        assert_eq!(WAITS.get(), cached + 2);
        assert!(device.read(3, &mut back).is_err());
        wait::before_waits(None);
        device.flush().unwrap();
        assert_eq!(WAITS.get(), cached + 2);
        assert_eq!((back[0].0, back[1].0), (block.0, [0; BLOCK_SIZE]));
    }
}
