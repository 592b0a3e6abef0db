//! Checking a volume with the changes left by a crash replayed, and repairing it.
use crate::check::CheckOptions;
use crate::crashed::{self, PendingReplay};
use crate::device::Device;
use crate::error::{Cause, Error, Result, errno, refuse};
use segno_check::{Progress, Report, check, check_quick};
use segno_device::{BlockDevice, DeviceError, Overlay};
use segno_engine::Observer;
use segno_journal::{Area, Stale};
use segno_repair::{Pending, Plan, PlanOptions};
use std::error::Error as _;
use std::io::ErrorKind;
use std::sync::Arc;

const AHEAD: &str = "a repair would give up what the journal shows to be lost. `segno rescue` copies files that are still on the device; \
                     `segno journal discard` then gives up the journal, and a check repairs the rest";
const DAMAGED: &str = "a repair would give up what was durable. `segno rescue` copies files that are still on the device; `segno journal replay \
                       --force` applies what is before the damage, and a check repairs the rest";
const NOT_NAMED: &str = "a repair would give up the changes in the external journal";
const MISSING: &str = "a repair would give up the changes in the journal that is not here; `segno journal discard --force` does, and a check \
                       repairs the rest";

/// The outcome of a check, with replay.
#[derive(Debug)]
pub struct Judged {
    /// The findings.
    pub report: Report,
    /// Only the tables were read.
    pub quick: bool,
    /// The report is on the volume with the chain and the journal replayed.
    pub replayed: bool,
    /// Why they cannot be replayed.
    not_replayed: Option<String>,
    /// State beyond the checkpoint, or why it cannot be read. With a journal that is ahead of the volume
    /// nothing is written: the next checkpoint would remove the evidence, and reuse blocks that the lost
    /// checkpoint refers to.
    pending: Result<PendingReplay, Cause>,
    /// Why the journal had changes that the volume lacks for good.
    lost: Option<Stale>,
}

impl Judged {
    /// Whether no error was found, including errors in the changes left by a crash.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.report.is_clean() && self.not_replayed.is_none() && self.ahead().is_none() && self.lost.is_none()
    }

    /// Why the changes left by a crash cannot be replayed.
    #[must_use]
    pub fn replay_error(&self) -> Option<String> {
        self.not_replayed.clone()
    }

    /// Why the newest checkpoint is known to be lost: the journal is ahead of the volume.
    #[must_use]
    pub fn lost_checkpoint(&self) -> Option<String> {
        self.ahead().map(ToString::to_string)
    }

    /// Why committed changes are lost that only the journal had: another implementation has written to the volume since. The next mount begins
    /// a new journal.
    #[must_use]
    pub fn lost_changes(&self) -> Option<String> {
        self.lost.as_ref().map(ToString::to_string)
    }

    /// Why the volume is not repaired: its next checkpoint would give up a journal.
    #[must_use]
    pub fn keeps_journal(&self) -> Option<&'static str> {
        match &self.pending {
            Ok(PendingReplay::Ahead(Stale::DamagedGroup { .. })) => Some(DAMAGED),
            Ok(PendingReplay::Ahead(_)) => Some(AHEAD),
            Ok(PendingReplay::NotNamed) => Some(NOT_NAMED),
            Ok(PendingReplay::Missing(_)) => Some(MISSING),
            _ => None,
        }
    }

    /// Whether something was found that a repair would change.
    #[must_use]
    pub fn is_repairable(&self) -> bool {
        segno_repair::is_repairable(&self.report) || self.not_replayed.is_some()
    }

    fn ahead(&self) -> Option<&Stale> {
        match &self.pending {
            Ok(PendingReplay::Ahead(why)) => Some(why),
            _ => None,
        }
    }
}

/// Checks a volume that is not open, replays the changes left by a crash, and plans repairs. A volume must
/// not be used otherwise meanwhile.
///
/// ```
/// # fn main() -> segno::Result<()> {
/// # let device = segno::Device::in_memory(64 << 20);
/// # segno::format(&device, &segno::FormatOptions::default())?;
/// let checker = segno::Checker::new(&device);
/// let judged = checker.check(&segno::CheckOptions::default(), |_| ())?;
/// if judged.is_repairable() {
///     let plan = checker.plan_repair(&judged, true)?;
///     checker.repair(&plan)?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Checker {
    device: Device,
    journal: Option<Device>,
    observer: Observer,
    quick: bool,
}

impl Checker {
    /// For the volume on a device.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), journal: None, observer: Observer::default(), quick: false }
    }

    /// The external journal of the volume.
    #[must_use]
    pub fn journal(mut self, device: &Device) -> Self {
        self.journal = Some(device.clone());
        self
    }

    /// Receives messages of replays that belong to no call.
    #[must_use]
    pub fn on_notice(mut self, notice: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.observer = Observer::new(move |n| notice(&n.to_string()));
        self
    }

    /// Whether to read only the tables of a volume that was unmounted cleanly, if nothing is wrong with them; off by default.
    #[must_use]
    pub fn quick(mut self, quick: bool) -> Self {
        self.quick = quick;
        self
    }

    /// Checks the volume and changes nothing: changes left by a crash are replayed in memory. Damage is not
    /// an error; the result describes it.
    pub fn check(&self, options: &CheckOptions, mut progress: impl FnMut(Progress)) -> Result<Judged> {
        self.locked("check", || self.judge(options, &mut progress))
    }

    /// Verifies that the external journal, if there is one, belongs to this volume; every other call does so
    /// first. Returns the reason if the journal has no effect.
    pub fn verify_journal(&self) -> Result<Option<String>> {
        self.locked("use the journal of", || Ok(self.verified()?.map(|why| why.to_string())))
    }

    fn verified(&self) -> Result<Option<Stale>, Cause> {
        self.area().map_or(Ok(None), |area| crashed::verify(area, self.device.storage()))
    }

    /// The state left by a crash, according to the journal alone.
    pub fn pending_in_journal(&self) -> Result<PendingReplay> {
        let device = self.device.storage();
        self.locked("check", || Ok(crashed::journal_state(device, self.area())?.pending(device)))
    }

    /// Plans a repair of the findings of a check; nothing is written. With `restore_names`, lost files get
    /// names in `/lost+found`.
    pub fn plan_repair(&self, judged: &Judged, restore_names: bool) -> Result<Plan> {
        let plan = || {
            if let Some(why) = judged.keeps_journal() {
                return Err(refuse(errno::UCLEAN, why));
            }
            let pending = judged.pending.as_ref().map_err(|e| refuse(errno::UCLEAN, with_sources(e)))?;
            // The planner finds the chain itself.
            let waits = judged.report.summary.roll_forward.fsynced == 0 && *pending == PendingReplay::Journal;
            let pending = if waits { Pending::Journal } else { Pending::Chain };
            let mut replay = |overlay| self.replay_in_memory(overlay).map_err(|e| e.to_string());
            Ok(segno_repair::plan(
                self.device.storage(),
                pending,
                &mut replay,
                PlanOptions { restore_names },
            )?)
        };
        self.locked("plan the repair of", plan)
    }

    /// Checks the volume and plans a repair of all findings; `None` if there is nothing to repair. Changes
    /// left by a crash need no repair, see [`replay`](Self::replay).
    pub fn check_and_plan(&self, options: &CheckOptions) -> Result<Option<Plan>> {
        let judged = self.check(options, |_| ())?;
        let needed = judged.is_repairable() || judged.keeps_journal().is_some();
        needed.then(|| self.plan_repair(&judged, true)).transpose()
    }

    /// Writes a repair. A power cut meanwhile leaves the volume as it was, or repaired.
    pub fn repair(&self, plan: &Plan) -> Result<()> {
        self.locked("repair", || Ok(plan.apply(&**self.device.storage())?))
    }

    /// Replays the changes left by a crash, as the next mount would.
    pub fn replay(&self) -> Result<()> {
        let replay = || {
            let storage = Arc::clone(self.device.storage());
            Ok(crashed::replay(storage, self.area(), self.observer.clone())?)
        };
        self.locked("replay the journal of", replay)
    }

    fn locked<T>(&self, action: &'static str, call: impl FnOnce() -> Result<T, Cause>) -> Result<T> {
        let locked = || {
            let _locks =
                (self.device.lock_range()?, self.journal.as_ref().map(Device::lock_range).transpose()?);
            self.device.require_superblock(DeviceError::is_foreign)?;
            self.verified()?;
            call()
        };
        locked().map_err(|e| Error::new(action, self.device.path(), e))
    }

    fn area(&self) -> Option<Area> {
        self.journal.as_ref().map(|journal| Area::whole(Arc::clone(journal.storage())))
    }

    fn replay_in_memory(&self, overlay: Arc<Overlay>) -> Result<(), segno_engine::Error> {
        crashed::replay(overlay, self.area().map(|area| area.in_memory()), self.observer.clone())
    }

    fn judge(&self, options: &CheckOptions, progress: &mut dyn FnMut(Progress)) -> Result<Judged, Cause> {
        let device = self.device.storage();
        let journal_state = crashed::journal_state(device, self.area());
        let lost = journal_state.as_ref().ok().and_then(|journal_state| journal_state.lost);
        let done = |report, quick, pending| Judged {
            report,
            quick,
            replayed: false,
            not_replayed: None,
            pending,
            lost,
        };
        if let (true, Ok(journal_state)) = (self.quick && !options.data && lost.is_none(), &journal_state) {
            let quick = check_quick(&**device, options)?;
            let calm = quick.problems.is_empty() && quick.complete && quick.summary.clean_unmount;
            if calm && crashed::pending(device, &quick, journal_state)? == PendingReplay::Nothing {
                return Ok(done(quick, true, Ok(PendingReplay::Nothing)));
            }
        }
        let mut full = |device: &dyn BlockDevice| check(device, options, progress);
        let report = full(&**device)?;
        let pending =
            journal_state.and_then(|journal_state| crashed::pending(device, &report, &journal_state));
        let absent = pending.as_ref().ok().and_then(PendingReplay::without_its_journal);
        if absent.is_some() {
            return Ok(Judged { not_replayed: absent, ..done(report, false, pending) });
        }
        match &pending {
            Ok(PendingReplay::Ahead(_) | PendingReplay::Nothing) => return Ok(done(report, false, pending)),
            _ if !report.is_clean() => return Ok(done(report, false, pending)),
            _ => {}
        }
        let pending = Ok(pending?);
        let overlay = Arc::new(Overlay::new(device.clone()));
        match self.replay_in_memory(overlay.clone()) {
            Ok(()) => Ok(Judged { replayed: true, ..done(full(&*overlay)?, false, pending) }),
            Err(e) if is_failure(&e) => Err(e.into()),
            Err(e) => Ok(Judged { not_replayed: Some(e.to_string()), ..done(report, false, pending) }),
        }
    }
}

/// The reason and its sources.
fn with_sources(cause: &Cause) -> String {
    let all = std::iter::successors(cause.source(), |&e| e.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Whether the device has failed, as opposed to damage that names a block which cannot be.
fn is_failure(e: &segno_engine::Error) -> bool {
    matches!(e, segno_engine::Error::Io { source, .. } if source.kind() != ErrorKind::InvalidInput)
}
