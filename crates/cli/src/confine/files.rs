//! Files and network, by Landlock.
use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use rustix::fs::{FileType, fstat};
use std::path::PathBuf;

/// The interface whose restrictions are all: of Linux 6.12.
const COMPLETE: ABI = ABI::V6;

/// A permission for a file, or for a directory and everything below it.
#[derive(Debug)]
pub struct Rule {
    pub path: PathBuf,
    pub access: Access,
}

/// A permission.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    Read,
    /// Contents of files that exist.
    Write,
    /// As of an image file or a device.
    Storage,
    /// Regular files, under other names until they are complete.
    Files,
    /// Files of all kinds.
    Tree {
        devices: bool,
    },
    /// Empty directories.
    RemoveDirectories,
}

impl Access {
    fn rights(self) -> BitFlags<AccessFs> {
        let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        let write = make_bitflags!(AccessFs::{WriteFile | Truncate});
        let files = read | write | make_bitflags!(AccessFs::{MakeReg | RemoveFile});
        match self {
            Self::Read => read,
            Self::Write => make_bitflags!(AccessFs::{ReadFile}) | write,
            Self::Storage => read | write | AccessFs::IoctlDev,
            Self::Files => files,
            Self::Tree { devices } => {
                let tree = files
                    | make_bitflags!(AccessFs::{MakeDir | RemoveDir | MakeSym | MakeFifo | MakeSock | Refer});
                if devices { tree | make_bitflags!(AccessFs::{MakeChar | MakeBlock}) } else { tree }
            }
            Self::RemoveDirectories => AccessFs::RemoveDir.into(),
        }
    }
}

/// Leaves these files, and with `network` connections by TCP. The error names the missing restriction.
pub fn restrict(rules: &[Rule], network: bool) -> Result<(), String> {
    match enforce(rules, network) {
        Ok(RulesetStatus::FullyEnforced) => Ok(()),
        Ok(RulesetStatus::PartiallyEnforced) => {
            Err("some operations on files, sockets and signals: the Landlock of this kernel is older".into())
        }
        Ok(RulesetStatus::NotEnforced) => {
            Err("files and network: this kernel has no Landlock, or it is off".into())
        }
        Err(e) => Err(format!("files and network: {e}")),
    }
}

fn enforce(rules: &[Rule], network: bool) -> Result<RulesetStatus, RulesetError> {
    let ports = if network { AccessNet::BindTcp.into() } else { AccessNet::from_all(COMPLETE) };
    // The first version, before Linux 5.19, refuses each link and rename between directories: it is left out where a tree is filled.
    let fills = rules.iter().any(|rule| rule.access.rights().contains(AccessFs::Refer));
    let moves = if fills { CompatLevel::SoftRequirement } else { CompatLevel::BestEffort };
    let mut ruleset = Ruleset::default()
        .set_compatibility(moves)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(COMPLETE))?
        .handle_access(ports)?
        .scope(Scope::from_all(COMPLETE))?
        .create()?;
    for rule in rules {
        // The command reports a missing file when it uses it.
        let Ok(fd) = PathFd::new(&rule.path) else { continue };
        let is_dir = fstat(&fd).is_ok_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::Directory);
        let rights = rule.access.rights();
        let rights = if is_dir { rights } else { rights & AccessFs::from_file(COMPLETE) };
        // Refused for pipes and others that are on no file system: Landlock does not restrict them.
        let _unrestricted = (&mut ruleset).add_rule(PathBeneath::new(fd, rights)).map(|_| ());
    }
    Ok(ruleset.restrict_self()?.ruleset)
}
