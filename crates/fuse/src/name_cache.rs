//! How long the kernel may use a name that it has looked up.
//!
//! The kernel compares cached names byte by byte. In a directory that ignores case a file has many spellings, and a request
//! with one of them changes the meaning of all. So no spelling is cached there: each use sends a LOOKUP.
//!
//! The kernel applies the time limit in a reply to LOOKUP without a lock that a rename takes. A thread may be
//! interrupted there while another moves the name into a directory that ignores case, and then set the limit
//! of a name that is already in that directory. No notification repairs that: it takes the lock of the
//! directory, and a server that is killed while it waits for a lock held by one of its requests never ends.
//! So on a volume that may have directories of this kind all names have a limit.
use crate::attr::FOREVER;
use parking_lot::Mutex;
use rustix::io::Errno;
use segno_engine::{RenameMode, Volume};
use segno_format::inode::InodeFlags;
use segno_format::{Features, Ino};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How long a name is cached in the other directories of a volume with the feature `casefold`, in seconds.
pub(crate) const FOLDING_VOLUME: u64 = 10;

/// Maximum number of renames that wait for their second attempt. More renames at the same moment fail with ESTALE.
const MOVES_MAX: usize = 1024;

/// A name that is about to move into a directory that ignores case.
#[derive(Debug)]
struct Move {
    dir: Ino,
    name: Vec<u8>,
    /// The kernel has looked it up since the first attempt, and was not allowed to cache it.
    is_expired: bool,
}

impl Move {
    fn is(&self, side: Side<'_>) -> bool {
        self.dir == side.dir && self.name == side.name
    }
}

/// Decides which names of one volume the kernel may cache, and for how long.
#[derive(Debug)]
pub(crate) struct NameCache {
    /// The volume may have directories that ignore case.
    folds: bool,
    moves: Mutex<VecDeque<Move>>,
    /// Length of `moves`: usually 0, and then lookups take no lock.
    pending: AtomicUsize,
}

/// One side of a rename.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side<'a> {
    pub dir: Ino,
    pub name: &'a [u8],
}

impl NameCache {
    pub(crate) fn new(features: Features) -> Self {
        let folds = features.contains(Features::CASEFOLD);
        Self { folds, moves: Mutex::default(), pending: AtomicUsize::new(0) }
    }

    /// Whether the kernel may cache that a name does not exist. `chattr +F` turns an empty directory into one that ignores
    /// case, and neither a reply nor a notification makes the kernel drop its missing names in time: the caller holds
    /// the lock of the directory that an invalidation needs.
    pub(crate) fn keeps_missing(&self) -> bool {
        !self.folds
    }

    /// How long the kernel may use the name in the reply to a request, in seconds. A name that is about to move expires
    /// with this reply.
    pub(crate) fn valid(&self, volume: &Volume, dir: Ino, name: &[u8]) -> u64 {
        if !self.folds {
            return FOREVER;
        }
        let is_moving = self.find_move(dir, name, |m| m.is_expired = true);
        if is_moving || ignores_case(volume, dir) { 0 } else { FOLDING_VOLUME }
    }

    /// As [`Self::valid`], for the names of a listing. A name that does not fit into the reply does not reach
    /// the kernel, so no move is marked as expired.
    pub(crate) fn valid_in_list<'a>(&'a self, volume: &Volume, dir: Ino) -> impl Fn(&[u8]) -> u64 + use<'a> {
        let ignores_case = self.folds && ignores_case(volume, dir);
        let limit = if self.folds { FOLDING_VOLUME } else { FOREVER };
        move |name| if ignores_case || self.find_move(dir, name, |_| {}) { 0 } else { limit }
    }

    /// Prepares a rename. A cached name keeps its time limit when it moves, and the reply cannot change it.
    /// So the first attempt to move a cached name into a directory that ignores case fails with ESTALE; the
    /// kernel then looks up the whole path and tries once more. The reply to that lookup expires at once, as
    /// do later ones until [`end_move`](Self::end_move). The caller must call it after the rename if a name
    /// is returned.
    pub(crate) fn before_rename<'a>(
        &self,
        volume: &Volume,
        old: Side<'a>,
        new: Side<'a>,
        mode: RenameMode,
    ) -> Result<Option<Side<'a>>, Errno> {
        if !self.folds || old.dir == new.dir {
            return Ok(None);
        }
        let moved = match (ignores_case(volume, old.dir), ignores_case(volume, new.dir)) {
            (false, true) => old,
            (true, false) if mode == RenameMode::Exchange => new,
            _ => return Ok(None),
        };
        if self.begin_move(moved) { Ok(Some(moved)) } else { Err(Errno::STALE) }
    }

    /// Whether a name has expired in the kernel. Otherwise it is noted, and expires with the reply to the next lookup.
    fn begin_move(&self, side: Side<'_>) -> bool {
        let mut moves = self.moves.lock();
        if let Some(found) = moves.iter().find(|m| m.is(side)) {
            return found.is_expired;
        }
        if moves.len() >= MOVES_MAX {
            moves.pop_front();
        }
        moves.push_back(Move { dir: side.dir, name: side.name.to_vec(), is_expired: false });
        self.pending.store(moves.len(), Ordering::Release);
        false
    }

    /// Ends a move, whether it succeeded or not.
    pub(crate) fn end_move(&self, side: Side<'_>) {
        let mut moves = self.moves.lock();
        moves.retain(|m| !m.is(side));
        self.pending.store(moves.len(), Ordering::Release);
    }

    /// Whether a name is about to move; `then` is called on it.
    fn find_move(&self, dir: Ino, name: &[u8], then: impl FnOnce(&mut Move)) -> bool {
        if self.pending.load(Ordering::Acquire) == 0 {
            return false;
        }
        self.moves.lock().iter_mut().find(|m| m.is(Side { dir, name })).map(then).is_some()
    }
}

/// Names of a directory that cannot be read are not cached either.
fn ignores_case(volume: &Volume, dir: Ino) -> bool {
    volume.getattr(dir).map_or(true, |attr| attr.flags.contains(InodeFlags::CASEFOLD))
}
