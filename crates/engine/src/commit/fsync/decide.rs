//! How fsync makes an inode durable: a pure decision over facts.
use crate::stat::CpReason;

/// Facts about the inode, read in one entry into the gate.
#[derive(Clone, Copy, Debug)]
pub struct InodeHistory {
    pub regular: bool,
    pub compressed: bool,
    pub links: u32,
    /// The last checkpoint has the inode.
    pub in_checkpoint: bool,
    /// An fsync since then logged the inode with its directory entry.
    pub entry_logged: bool,
    /// It was renamed or linked since the last checkpoint.
    pub renamed: bool,
    /// It lost a node since the last checkpoint.
    pub node_freed: bool,
    /// `i_pino` and `i_name` may be out of date.
    pub lost_pino: bool,
    /// The last checkpoint has the parent directory.
    pub parent_in_checkpoint: bool,
    /// Names were removed from the parent directory since the last checkpoint.
    pub parent_changed: bool,
    /// In the last checkpoint, the inode's name belonged to a directory or to an inode that still exists. Replay
    /// would take that inode's last name.
    pub name_vacated: bool,
    /// A directory was renamed since the last checkpoint, so replay might give the inode a path that it never had.
    pub dir_renamed: bool,
    /// It lost a name since the last checkpoint.
    pub unlinked: bool,
    /// The order of names matters too (`fsync_mode=strict`).
    pub strict: bool,
    /// Replay of everything since the last checkpoint fits the volume.
    pub room: bool,
    /// The chain since the last checkpoint has no holes.
    pub chain_whole: bool,
    /// The mount takes a checkpoint for each fsync (`fastboot`).
    pub fastboot: bool,
}

/// How fsync makes the inode durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Nothing to write: the inode has no name and never had a durable one, so a crash removes it anyway.
    Nothing,
    /// Log it in the roll-forward chain; `dent` also logs its directory entry.
    Chain {
        dent: bool,
    },
    Checkpoint(CpReason),
}

/// Chooses the route. A checkpoint is always correct; the chain only if replay reproduces exactly this state.
///
/// The kernel also writes a checkpoint for every inode with a link count other than one. The chain neither changes
/// link counts nor, without a `DENT` mark, names, so it suffices for an inode in the checkpoint that has lost no name
/// since.
pub fn route(f: &InodeHistory) -> Route {
    let never = [
        (!f.regular, CpReason::NotRegular),
        (f.compressed, CpReason::Compressed),
        (f.renamed, CpReason::Renamed),
        (f.node_freed, CpReason::NodeFreed),
        (!f.room, CpReason::NoRoom),
        (!f.chain_whole, CpReason::ChainBroken),
        (f.fastboot, CpReason::Fastboot),
    ];
    if let Some(why) = first(&never) {
        return Route::Checkpoint(why);
    }
    // The name is durable already and replay does not change names, so the nodes suffice unless a name was
    // removed.
    if f.in_checkpoint || f.entry_logged {
        return if f.unlinked { Route::Checkpoint(CpReason::Unlinked) } else { Route::Chain { dent: false } };
    }
    // Without a durable name the inode is unreachable after a crash.
    if f.links == 0 {
        return Route::Nothing;
    }
    // Replay makes one name, in the directory of `i_pino`: the directory must exist in the checkpoint, and
    // the name must be the only one and collide with no other.
    let not_new = [
        (f.links != 1, CpReason::Links),
        (f.lost_pino, CpReason::LostParent),
        (!f.parent_in_checkpoint, CpReason::NewParent),
        (f.dir_renamed, CpReason::DirRenamed),
        (f.name_vacated, CpReason::NameVacated),
        (f.strict && f.parent_changed, CpReason::ParentChanged),
    ];
    first(&not_new).map_or(Route::Chain { dent: true }, Route::Checkpoint)
}

fn first(list: &[(bool, CpReason)]) -> Option<CpReason> {
    list.iter().find(|(holds, _)| *holds).map(|&(_, why)| why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: InodeHistory = InodeHistory {
        regular: true,
        compressed: false,
        links: 1,
        in_checkpoint: true,
        entry_logged: false,
        renamed: false,
        node_freed: false,
        lost_pino: false,
        parent_in_checkpoint: true,
        parent_changed: false,
        name_vacated: false,
        dir_renamed: false,
        unlinked: false,
        strict: true,
        room: true,
        chain_whole: true,
        fastboot: false,
    };
    const NEW: InodeHistory = InodeHistory { in_checkpoint: false, ..OLD };

    #[test]
    fn ordinary_files_go_to_the_chain() {
        assert_eq!(route(&OLD), Route::Chain { dent: false });
        assert_eq!(route(&NEW), Route::Chain { dent: true });
        assert_eq!(route(&InodeHistory { entry_logged: true, ..NEW }), Route::Chain { dent: false });
    }

    #[test]
    fn changes_that_replay_cannot_repeat_need_a_checkpoint() {
        for f in [OLD, NEW] {
            for (why, facts) in [
                (CpReason::NotRegular, InodeHistory { regular: false, ..f }),
                (CpReason::Compressed, InodeHistory { compressed: true, ..f }),
                (CpReason::Renamed, InodeHistory { renamed: true, ..f }),
                (CpReason::NodeFreed, InodeHistory { node_freed: true, ..f }),
                (CpReason::NoRoom, InodeHistory { room: false, ..f }),
                (CpReason::ChainBroken, InodeHistory { chain_whole: false, ..f }),
                (CpReason::Fastboot, InodeHistory { fastboot: true, ..f }),
            ] {
                assert_eq!(route(&facts), Route::Checkpoint(why));
            }
        }
    }

    #[test]
    fn names_matter_only_for_inodes_that_the_checkpoint_lacks() {
        for (why, facts) in [
            (CpReason::Links, InodeHistory { links: 2, ..NEW }),
            (CpReason::LostParent, InodeHistory { lost_pino: true, ..NEW }),
            (CpReason::NewParent, InodeHistory { parent_in_checkpoint: false, ..NEW }),
            (CpReason::ParentChanged, InodeHistory { parent_changed: true, ..NEW }),
            (CpReason::DirRenamed, InodeHistory { dir_renamed: true, strict: false, ..NEW }),
            (CpReason::NameVacated, InodeHistory { name_vacated: true, strict: false, ..NEW }),
        ] {
            assert_eq!(route(&facts), Route::Checkpoint(why));
            let old = InodeHistory { in_checkpoint: true, ..facts };
            assert_eq!(route(&old), Route::Chain { dent: false }, "{why:?}, but in the checkpoint");
        }
        let posix = InodeHistory { strict: false, parent_changed: true, ..NEW };
        assert_eq!(route(&posix), Route::Chain { dent: true }, "posix mode does not order names");
    }

    #[test]
    fn an_inode_that_never_had_a_durable_name_needs_no_write() {
        assert_eq!(route(&InodeHistory { links: 0, ..NEW }), Route::Nothing);
        assert_eq!(route(&InodeHistory { links: 0, unlinked: true, ..NEW }), Route::Nothing);
    }

    #[test]
    fn a_lost_name_of_a_durable_inode_needs_a_checkpoint() {
        for durable in [OLD, InodeHistory { entry_logged: true, ..NEW }] {
            for (links, strict) in [(0, true), (1, true), (2, true), (0, false), (1, false)] {
                let facts = InodeHistory { links, strict, unlinked: true, ..durable };
                assert_eq!(route(&facts), Route::Checkpoint(CpReason::Unlinked));
            }
        }
    }
}
