//! Drops the rights that a command does not need once its storage is open. The data that it reads then may come from a stranger.
//!
//! The restrictions hold for the calling thread and for threads that it starts later, so a command enters them before it starts
//! any. A kernel without one of them is no reason to fail.
mod calls;
mod files;
#[cfg(test)]
mod tests;

use crate::store;
use calls::PermittedCalls;
pub use calls::Rings;
use files::{Access, Rule};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};
use segno_device::Location;
use segno_host::{Preserve, directory_of};
use std::path::{Path, PathBuf};

/// Rights over files that belong to other users.
const FILES: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH).union(CapabilitySet::FOWNER);

/// The option of each command that is confined.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ConfineOption {
    /// Print which restrictions of this program the kernel does not have
    #[arg(short, long)]
    pub verbose: bool,
}

/// The rights that a command keeps: open descriptors, reading of /proc and /sys, and the rights that are added.
#[derive(Debug)]
pub struct Confinement {
    verbose: bool,
    rules: Vec<Rule>,
    permitted: PermittedCalls,
    /// Those of its capabilities that it keeps.
    keeps: CapabilitySet,
}

impl Confinement {
    pub fn new(option: &ConfineOption) -> Self {
        let found = Self {
            verbose: option.verbose,
            rules: Vec::new(),
            permitted: PermittedCalls::default(),
            keeps: CapabilitySet::empty(),
        };
        found.rule("/proc", Access::Read).rule("/sys", Access::Read)
    }

    fn rule(mut self, path: impl Into<PathBuf>, access: Access) -> Self {
        self.rules.push(Rule { path: path.into(), access });
        self
    }

    /// With one more right under a condition.
    pub fn given(self, condition: bool, right: fn(Self) -> Self) -> Self {
        if condition { right(self) } else { self }
    }

    fn keeping(mut self, more: CapabilitySet) -> Self {
        self.keeps |= more;
        self
    }

    /// Reads a file, or a directory and everything below it.
    pub fn reads(self, path: &Path) -> Self {
        self.rule(path, Access::Read).keeping(CapabilitySet::DAC_READ_SEARCH)
    }

    /// Reads a tree with all attributes: `trusted.*` are visible with CAP_SYS_ADMIN alone.
    pub fn reads_tree(self, dir: &Path) -> Self {
        self.reads(dir).keeping(CapabilitySet::SYS_ADMIN)
    }

    /// Writes to this file, which exists.
    pub fn writes(self, path: &Path) -> Self {
        self.rule(path, Access::Write)
    }

    /// Opens storage again, for changes.
    pub fn opens_again(self, path: &Path) -> Self {
        self.rule(Location::of(path).file(), Access::Storage).keeping(FILES)
    }

    /// Opens a device that all its users may open.
    pub fn device(self, path: &Path) -> Self {
        self.rule(path, Access::Storage)
    }

    /// Opens storage again, exclusively.
    pub fn opens_exclusively(self, path: &Path) -> Self {
        self.rule(Location::of(path).file(), Access::Read)
    }

    /// Resets zones of devices on a kernel that demands CAP_SYS_ADMIN for it.
    pub fn resets_zones(self) -> Self {
        self.keeping(CapabilitySet::SYS_ADMIN)
    }

    /// Lets threads place each other on processors and change their scheduling policies.
    pub fn places_threads(mut self) -> Self {
        self.permitted.placement = true;
        self
    }

    /// Lets threads return to the normal scheduling policy on a kernel that demands CAP_SYS_NICE for it.
    pub fn sets_policies(self) -> Self {
        self.keeping(CapabilitySet::SYS_NICE)
    }

    /// Makes rings of io_uring, until [`refuse_rings`].
    pub fn makes_rings(mut self) -> Self {
        self.permitted.rings = true;
        self
    }

    /// Makes or replaces this file. It gets its name when it is complete, so the directory is open to changes.
    pub fn makes(self, file: &Path) -> Self {
        self.rule(directory_of(file), Access::Files).writes(file).keeping(FILES)
    }

    /// Makes files of all kinds below a directory, with their attributes. Attributes of a symbolic link or a
    /// special file are set by path. `security.*` attributes, like labels of SELinux, need CAP_SYS_ADMIN.
    pub fn fills(mut self, dir: &Path, preserve: Preserve) -> Self {
        self.permitted.attributes = true;
        let devices = preserve.contains(Preserve::DEVICES);
        let needs = [
            (Preserve::SETID, CapabilitySet::FSETID),
            (Preserve::DEVICES, CapabilitySet::MKNOD),
            (Preserve::CAPS, CapabilitySet::SETFCAP),
        ];
        let needed = needs.into_iter().filter(|(what, _)| preserve.contains(*what));
        let more = needed.fold(CapabilitySet::CHOWN | CapabilitySet::SYS_ADMIN, |all, (_, one)| all | one);
        self.rule(dir, Access::Tree { devices }).keeping(FILES | more)
    }

    /// Keeps files in a directory, if there is one, which is made unless it exists, and makes it durable in the one above.
    pub fn caches(self, dir: Option<&Path>) -> Self {
        let Some(dir) = dir else { return self };
        let above = directory_of(dir);
        let made = if dir.exists() { dir } else { above };
        self.keeps_files(made).reads(above)
    }

    /// Makes, replaces and removes files below a directory, without setting owners or attributes.
    fn keeps_files(self, dir: &Path) -> Self {
        self.rule(dir, Access::Tree { devices: false }).keeping(FILES)
    }

    /// Removes this directory, if it is empty. The right extends to the other empty directories of its
    /// parent.
    pub fn removes(self, dir: &Path) -> Self {
        self.rule(directory_of(dir), Access::RemoveDirectories)
    }

    /// Opens storage, then enters the restrictions. An object store starts threads while it is opened, and
    /// keeps opening connections and files: it is opened after the restrictions are entered.
    pub fn opened<T>(mut self, image: &Path, open: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        if store::is_url(image) {
            self = self.with_store(image);
            self.enter();
            return open();
        }
        let opened = open()?;
        self.enter();
        Ok(opened)
    }

    /// Uses the object store at a URL.
    pub fn with_store(mut self, url: &Path) -> Self {
        let local = store::local(url);
        self.permitted.network = local.is_remote;
        let read = local.read.iter().fold(self, |all, path| all.reads(path));
        local.written.iter().fold(read, |all, dir| all.keeps_files(dir))
    }

    /// Runs one command after the other, which may make files of all kinds. Some may need files that others give up: all that they have
    /// in common are system calls.
    pub fn runs_commands(mut self, image: &Path) -> Self {
        self.permitted.attributes = true;
        self.permitted.network = store::is_url(image) && store::local(image).is_remote;
        self
    }

    /// Drops all other rights.
    pub fn enter(&self) {
        self.enter_of_thread();
        self.enter_of_process();
    }

    /// Drops all other rights but to system calls, of this thread alone, on storage that is open.
    pub fn enter_thread(self, image: &Path) {
        let entered = if store::is_url(image) { self.with_store(image) } else { self };
        entered.enter_of_thread();
    }

    fn enter_of_thread(&self) {
        self.note([
            set_no_new_privs(true).err().map(|e| format!("programs with set-id bits: {e}")),
            files::restrict(&self.rules, self.permitted.network).err(),
            self.drop_capabilities().err().map(|e| format!("capabilities: {e}")),
        ]);
    }

    /// Drops the rights to other system calls, of all threads.
    pub fn enter_of_process(&self) {
        self.note([
            set_no_new_privs(true).err().map(|e| format!("programs with set-id bits: {e}")),
            calls::restrict(self.permitted).err(),
        ]);
    }

    fn note<const N: usize>(&self, refused: [Option<String>; N]) {
        for why in refused.into_iter().flatten().filter(|_| self.verbose) {
            eprintln!("segno: note: not restricted: {why}");
        }
    }

    fn drop_capabilities(&self) -> rustix::io::Result<()> {
        let kept = capabilities(None)?.permitted & self.keeps;
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: none })
    }
}

/// Refuses rings to all threads. Existing ones stay usable: they are restricted from the start.
pub fn refuse_rings(rings: Rings) {
    // A kernel without filters was named when the restrictions began.
    let _named = calls::restrict_rings(rings);
}
