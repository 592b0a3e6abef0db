//! Bugs planted in the rules of space accounting: in the figures for the rules, or in the behaviour of the
//! writer.
use crate::volume::Model;
use segno_clean::need::Figures;

/// One rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedBug {
    /// The floor leaves out the nodes that the checkpoint writes.
    Floor,
    /// The floor leaves out the nodes that recovery writes again.
    Logged,
    /// The goal is the floor, and cleaning begins when that is missed.
    Goal,
    /// The nodes that a quantum makes dirty are left out.
    QuantumNodes,
    /// More than a quantum is placed at a time.
    Quantum,
    /// A batch counts an eighth of its copies.
    Batch,
    /// Sections are free before the checkpoint.
    Release,
    /// Dirty overwrites are a separate need.
    Overwrites,
    /// An fsync writes nodes without reserving room.
    Chain,
    /// Each data log opens separate sections until none is left.
    Alone,
}

impl PlantedBug {
    pub const ALL: [Self; 10] = [
        Self::Floor,
        Self::Logged,
        Self::Goal,
        Self::QuantumNodes,
        Self::Quantum,
        Self::Batch,
        Self::Release,
        Self::Overwrites,
        Self::Chain,
        Self::Alone,
    ];

    /// The figures that cleaning receives.
    pub(super) fn figures(self, f: Figures, model: &Model) -> Figures {
        match self {
            Self::Floor => Figures { dirty_nodes: 0, nodes: 0, ..f },
            Self::Logged => Figures { logged: 0, ..f },
            Self::Goal => Figures { unused: 0, ..f },
            Self::QuantumNodes => Figures { nodes: f.dirty_nodes, ..f },
            Self::Overwrites => Figures { granted: model.dirty.len, ..f },
            _ => f,
        }
    }
}
