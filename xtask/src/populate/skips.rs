//! Operations that a mount does not offer are skipped by name; every other error ends the run.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use rustix::io::Errno;

use crate::errno;

/// Errors by which a file system reports that it does not have an operation.
const NOT_OFFERED: [Errno; 3] = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::NOTTY];

/// Counts what was skipped.
#[derive(Default)]
pub struct Skips {
    counts: BTreeMap<(&'static str, String), u32>,
}

impl Skips {
    /// `Some` if it was done, `None` if the mount does not offer it. `refusals` are further errors that mean
    /// this for the operation.
    pub fn attempt<T>(
        &mut self,
        what: &'static str,
        result: Result<T, Errno>,
        refusals: &[Errno],
    ) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(errno) if NOT_OFFERED.contains(&errno) || refusals.contains(&errno) => {
                *self.counts.entry((what, errno::name(errno))).or_default() += 1;
                Ok(None)
            }
            Err(errno) => Err(anyhow!("{what}: {errno}")),
        }
    }

    /// One line for each thing that was skipped.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.counts.iter().map(|((what, errno), count)| format!("skipped {what}: {errno}, {count} times"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_are_skipped() {
        let mut skips = Skips::default();
        assert_eq!(skips.attempt("a", Ok(1), &[]).unwrap(), Some(1));
        assert_eq!(skips.attempt::<()>("b", Err(Errno::OPNOTSUPP), &[]).unwrap(), None);
        assert_eq!(skips.attempt::<()>("b", Err(Errno::OPNOTSUPP), &[]).unwrap(), None);
        assert!(skips.attempt::<()>("c", Err(Errno::INVAL), &[]).is_err());
        assert_eq!(skips.attempt::<()>("c", Err(Errno::INVAL), &[Errno::INVAL]).unwrap(), None);
        assert_eq!(skips.lines().next().unwrap(), "skipped b: EOPNOTSUPP, 2 times");
        assert_eq!(skips.lines().count(), 2);
    }
}
