//! Notices of a mount. A power cut alone causes no notice.
use segno_engine::Observer;
use std::sync::{Arc, Mutex, PoisonError};

/// Those of one mount or several.
#[derive(Clone, Default)]
pub struct Notices(Arc<Mutex<Vec<String>>>);

impl Notices {
    /// For the mount.
    #[must_use]
    pub fn observer(&self) -> Observer {
        let notices = self.0.clone();
        Observer::new(move |notice| {
            notices.lock().unwrap_or_else(PoisonError::into_inner).push(notice.to_string());
        })
    }

    /// Those since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Fails if there were any since the last call.
    pub fn none(&self) -> Result<(), String> {
        let notices = self.take();
        if notices.is_empty() { Ok(()) } else { Err(format!("the user is told {notices:?}")) }
    }
}
