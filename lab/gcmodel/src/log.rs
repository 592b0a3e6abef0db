//! The open sections.
use segno_clean::lifetime::DataLog;

/// Six in the order of the format: hot, warm, cold data, then nodes; and more for the oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    HotData,
    WarmData,
    ColdData,
    HotNode,
    WarmNode,
    ColdNode,
    /// A data log beyond the six.
    More(u8),
}

impl LogKind {
    pub const ALL: [Self; 6] =
        [Self::HotData, Self::WarmData, Self::ColdData, Self::HotNode, Self::WarmNode, Self::ColdNode];
    pub fn is_node(self) -> bool {
        matches!(self, Self::HotNode | Self::WarmNode | Self::ColdNode)
    }
    /// Its number among the open sections.
    pub fn slot(self) -> usize {
        match self {
            Self::HotData => 0,
            Self::WarmData => 1,
            Self::ColdData => 2,
            Self::HotNode => 3,
            Self::WarmNode => 4,
            Self::ColdNode => 5,
            Self::More(n) => 6 + usize::from(n),
        }
    }
    /// One of any number of data logs: the three of the format first.
    pub fn group(n: u8) -> Self {
        match n {
            0 => Self::HotData,
            1 => Self::WarmData,
            2 => Self::ColdData,
            n => Self::More(n - 3),
        }
    }
    /// Its type as data log.
    pub fn data(self) -> DataLog {
        match self {
            Self::HotData => DataLog::Hot,
            Self::WarmData => DataLog::Warm,
            _ => DataLog::Cold,
        }
    }
}

impl From<DataLog> for LogKind {
    fn from(log: DataLog) -> Self {
        match log {
            DataLog::Hot => Self::HotData,
            DataLog::Warm => Self::WarmData,
            DataLog::Cold => Self::ColdData,
        }
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
