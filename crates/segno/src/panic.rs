//! Panics as errors, for callers in other languages.
use crate::error::{Cause, Doing, Result, errno, refuse};
use crate::volume::Volume;
use segno_engine::Shutdown;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `f` and turns a panic in it into an error with errno `EIO`. For bindings to other languages, which a panic must not
/// unwind into; a panic is a bug in Segno.
pub fn catch_panic<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| Err(reason(&*panic)).doing("complete the call"))
}

impl Volume {
    /// Runs `f` as [`catch_panic`] does. A panic also stops the volume: nothing more is written, as the state
    /// in memory may be inconsistent, and the next open recovers the synced changes.
    ///
    /// ```
    /// # fn main() -> segno::Result<()> {
    /// # let device = segno::Device::in_memory(64 << 20);
    /// # segno::format(&device, &segno::FormatOptions::default())?;
    /// # let volume = segno::Volume::open(&device)?;
    /// assert_eq!(volume.catch_panic(|| volume.exists("/lost"))?, false);
    /// let error = volume.catch_panic(|| -> segno::Result<()> { panic!("a bug") }).unwrap_err();
    /// assert_eq!(error.to_string(), "cannot complete the call: bug in Segno: a bug");
    /// assert!(volume.create_dir("/later").is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn catch_panic<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
            self.engine().shut_down(Shutdown::NoSync).doing("stop the volume")?;
            Err(reason(&*panic)).doing("complete the call")
        })
    }
}

fn reason(panic: &(dyn Any + Send)) -> Cause {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    refuse(errno::IO, format!("bug in Segno: {}", text.unwrap_or("no message")))
}
