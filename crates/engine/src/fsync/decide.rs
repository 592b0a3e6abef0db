//! How an fsync makes an inode durable: pure decision over facts.
use crate::stat::CpReason;

/// What is known of the inode, all of it seen under one entry into the gate.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
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
    /// Names went from the parent directory since the last checkpoint.
    pub parent_changed: bool,
    /// The inode's name belonged to an inode that lives on, or to a directory, when the last checkpoint was written. Replay
    /// would take the name from an inode that gets no other.
    pub name_vacated: bool,
    /// A directory was renamed since the last checkpoint, so the path of the inode may not be what replay would give it.
    pub dir_renamed: bool,
    /// It lost a name since the last checkpoint.
    pub unlinked: bool,
    /// Order of names matters too (`fsync_mode=strict`).
    pub strict: bool,
    /// Replaying everything since the last checkpoint would not exceed the volume.
    pub room: bool,
    /// The chain since the last checkpoint has no holes.
    pub chain_whole: bool,
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// A crash takes the inode away whatever is written: it has no name, and never had a durable one.
    Nothing,
    /// Log it in the roll-forward chain; `dent` also repeats its directory entry.
    Chain {
        dent: bool,
    },
    Checkpoint(CpReason),
}

/// Chooses the route. A checkpoint is always right; the chain only where replaying it gives this very state.
///
/// The kernel also writes a checkpoint for every inode with other than one link. The chain neither changes link counts
/// nor, without a DENT mark, looks at names, so it does for an inode that the checkpoint has, unless it lost a name since.
pub fn route(f: &Facts) -> Route {
    let never = [
        (!f.regular, CpReason::NotRegular),
        (f.compressed, CpReason::Compressed),
        (f.renamed, CpReason::Renamed),
        (f.node_freed, CpReason::NodeFreed),
        (!f.room, CpReason::NoRoom),
        (!f.chain_whole, CpReason::ChainBroken),
    ];
    if let Some(why) = first(&never) {
        return Route::Checkpoint(why);
    }
    if f.in_checkpoint || f.entry_logged {
        return if f.unlinked { Route::Checkpoint(CpReason::Unlinked) } else { Route::Chain { dent: false } };
    }
    if f.links == 0 {
        return Route::Nothing;
    }
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

    const OLD: Facts = Facts {
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
    };
    const NEW: Facts = Facts { in_checkpoint: false, ..OLD };

    #[test]
    fn ordinary_files_go_to_the_chain() {
        assert_eq!(route(&OLD), Route::Chain { dent: false });
        assert_eq!(route(&NEW), Route::Chain { dent: true });
        assert_eq!(route(&Facts { entry_logged: true, ..NEW }), Route::Chain { dent: false });
    }

    #[test]
    fn what_the_chain_cannot_repeat_needs_a_checkpoint() {
        for f in [OLD, NEW] {
            for (why, facts) in [
                (CpReason::NotRegular, Facts { regular: false, ..f }),
                (CpReason::Compressed, Facts { compressed: true, ..f }),
                (CpReason::Renamed, Facts { renamed: true, ..f }),
                (CpReason::NodeFreed, Facts { node_freed: true, ..f }),
                (CpReason::NoRoom, Facts { room: false, ..f }),
                (CpReason::ChainBroken, Facts { chain_whole: false, ..f }),
            ] {
                assert_eq!(route(&facts), Route::Checkpoint(why));
            }
        }
    }

    #[test]
    fn names_matter_only_for_inodes_that_the_checkpoint_lacks() {
        for (why, facts) in [
            (CpReason::Links, Facts { links: 2, ..NEW }),
            (CpReason::LostParent, Facts { lost_pino: true, ..NEW }),
            (CpReason::NewParent, Facts { parent_in_checkpoint: false, ..NEW }),
            (CpReason::ParentChanged, Facts { parent_changed: true, ..NEW }),
            (CpReason::DirRenamed, Facts { dir_renamed: true, strict: false, ..NEW }),
            (CpReason::NameVacated, Facts { name_vacated: true, strict: false, ..NEW }),
        ] {
            assert_eq!(route(&facts), Route::Checkpoint(why));
            let old = Facts { in_checkpoint: true, ..facts };
            assert_eq!(route(&old), Route::Chain { dent: false }, "{why:?}, but in the checkpoint");
        }
        let posix = Facts { strict: false, parent_changed: true, ..NEW };
        assert_eq!(route(&posix), Route::Chain { dent: true }, "posix mode does not order names");
    }

    #[test]
    fn an_inode_without_a_name_to_come_back_to_costs_nothing() {
        assert_eq!(route(&Facts { links: 0, ..NEW }), Route::Nothing);
        assert_eq!(route(&Facts { links: 0, unlinked: true, ..NEW }), Route::Nothing);
    }

    #[test]
    fn a_lost_name_of_a_durable_inode_needs_a_checkpoint() {
        for durable in [OLD, Facts { entry_logged: true, ..NEW }] {
            for (links, strict) in [(0, true), (1, true), (2, true), (0, false), (1, false)] {
                let facts = Facts { links, strict, unlinked: true, ..durable };
                assert_eq!(route(&facts), Route::Checkpoint(CpReason::Unlinked));
            }
        }
    }
}
