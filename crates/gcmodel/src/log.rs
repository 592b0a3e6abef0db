//! The six open sections.

/// In the order of the format: hot, warm, cold data, then nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    HotData,
    WarmData,
    ColdData,
    HotNode,
    WarmNode,
    ColdNode,
}

impl LogKind {
    pub const ALL: [Self; 6] =
        [Self::HotData, Self::WarmData, Self::ColdData, Self::HotNode, Self::WarmNode, Self::ColdNode];
    pub fn is_node(self) -> bool {
        matches!(self, Self::HotNode | Self::WarmNode | Self::ColdNode)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Log {
    pub sec: u32,
    /// Next block in the section.
    pub next: u32,
    /// Blocks of the section that a checkpoint would count as used: valid at the last one, or written since.
    pub held: u32,
}
