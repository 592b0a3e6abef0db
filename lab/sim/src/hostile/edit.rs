//! The changes in a volume, described independently of addresses: structures by kind, values by meaning.
use std::fmt;
use std::str::FromStr;

/// A structure of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// A copy of the superblock.
    Super(u32),
    /// Both ends of the pack in force.
    Checkpoint,
    /// One end of it.
    CheckpointEnd(u32),
    NatJournal,
    SitJournal,
    /// The NAT entry of a node id, wherever it is.
    Nat(u32),
    /// The SIT entry of a segment, wherever it is.
    Sit(u32),
    /// The summary of a segment, in the SSA or the pack.
    Summary(u32),
    /// A block of the orphan list.
    Orphans(u32),
    Node(u32),
    /// A block of a file or directory: inode, file block.
    Data(u32, u32),
    /// A node of the roll-forward chain.
    Chain(u32),
    /// A block of the metadata journal, from its start.
    Journal(u32),
}

const NAMES: [(&str, usize); 13] = [
    ("super", 1),
    ("cp", 0),
    ("cp-end", 1),
    ("nat-journal", 0),
    ("sit-journal", 0),
    ("nat", 1),
    ("sit", 1),
    ("summary", 1),
    ("orphans", 1),
    ("node", 1),
    ("data", 2),
    ("chain", 1),
    ("journal", 1),
];

impl Place {
    fn fields(self) -> (usize, u32, u32) {
        match self {
            Self::Super(a) => (0, a, 0),
            Self::Checkpoint => (1, 0, 0),
            Self::CheckpointEnd(a) => (2, a, 0),
            Self::NatJournal => (3, 0, 0),
            Self::SitJournal => (4, 0, 0),
            Self::Nat(a) => (5, a, 0),
            Self::Sit(a) => (6, a, 0),
            Self::Summary(a) => (7, a, 0),
            Self::Orphans(a) => (8, a, 0),
            Self::Node(a) => (9, a, 0),
            Self::Data(a, b) => (10, a, b),
            Self::Chain(a) => (11, a, 0),
            Self::Journal(a) => (12, a, 0),
        }
    }

    fn of(kind: usize, a: u32, b: u32) -> Option<Self> {
        Some(match kind {
            0 => Self::Super(a),
            1 => Self::Checkpoint,
            2 => Self::CheckpointEnd(a),
            3 => Self::NatJournal,
            4 => Self::SitJournal,
            5 => Self::Nat(a),
            6 => Self::Sit(a),
            7 => Self::Summary(a),
            8 => Self::Orphans(a),
            9 => Self::Node(a),
            10 => Self::Data(a, b),
            11 => Self::Chain(a),
            12 => Self::Journal(a),
            _ => return None,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, a, b) = self.fields();
        let (name, numbers) = NAMES.get(kind).copied().unwrap_or_default();
        match numbers {
            0 => f.write_str(name),
            1 => write!(f, "{name}:{a}"),
            _ => write!(f, "{name}:{a}:{b}"),
        }
    }
}

impl FromStr for Place {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let mut words = s.split(':');
        let name = words.next().unwrap_or_default();
        let kind = NAMES.iter().position(|(n, _)| *n == name).ok_or_else(|| format!("no place {s}"))?;
        let mut number = || words.next().map_or(Ok(0), |w| w.parse::<u32>().map_err(|e| format!("{s}: {e}")));
        let (a, b) = (number()?, number()?);
        Self::of(kind, a, b).ok_or_else(|| format!("no place {s}"))
    }
}

/// The stored value: a number, or the address of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Raw(u64),
    AddrOf(Place),
    /// First block after the main area.
    End,
    /// One past the largest node id.
    MaxNid,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raw(v) => write!(f, "{v:#x}"),
            Self::AddrOf(p) => write!(f, "@{p}"),
            Self::End => f.write_str("end"),
            Self::MaxNid => f.write_str("max-nid"),
        }
    }
}

impl FromStr for Value {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Ok(match s {
            "end" => Self::End,
            "max-nid" => Self::MaxNid,
            _ => match (s.strip_prefix('@'), s.strip_prefix("0x")) {
                (Some(place), _) => Self::AddrOf(place.parse()?),
                (None, Some(hex)) => {
                    Self::Raw(u64::from_str_radix(hex, 16).map_err(|e| format!("{s}: {e}"))?)
                }
                (None, None) => return Err(format!("no value {s}")),
            },
        })
    }
}

/// One changed field: bytes `offset..offset + len` of a structure, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    pub place: Place,
    pub offset: u16,
    pub len: u8,
    pub value: Value,
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.place, self.offset, self.len, self.value)
    }
}

impl FromStr for Edit {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let words: Vec<&str> = s.split_whitespace().collect();
        let [place, offset, len, value] = words[..] else {
            return Err(format!("an edit is PLACE OFFSET LENGTH VALUE, not {s}"));
        };
        Ok(Self {
            place: place.parse()?,
            offset: offset.parse().map_err(|e| format!("{s}: {e}"))?,
            len: len.parse().map_err(|e| format!("{s}: {e}"))?,
            value: value.parse()?,
        })
    }
}

/// A damaged volume: which volume, what was changed, and whether checksums were made right again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub base: String,
    pub edits: Vec<Edit>,
    pub sealed: bool,
    /// Decides what is done with the volume once it is mounted.
    pub session: u64,
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "base {}", self.base)?;
        writeln!(f, "session {}", self.session)?;
        if self.sealed {
            writeln!(f, "sealed")?;
        }
        self.edits.iter().try_for_each(|e| writeln!(f, "{e}"))
    }
}

impl FromStr for Image {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let mut image = Self { base: String::new(), edits: Vec::new(), sealed: false, session: 0 };
        let lines = s.lines().map(|l| l.split('#').next().unwrap_or_default().trim());
        for line in lines.filter(|l| !l.is_empty()) {
            match line.split_once(' ') {
                None if line == "sealed" => image.sealed = true,
                Some(("base", name)) => image.base = name.trim().into(),
                Some(("session", n)) => {
                    image.session = n.trim().parse().map_err(|e| format!("{line}: {e}"))?
                }
                _ => image.edits.push(line.parse()?),
            }
        }
        Ok(image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let edit = |place, value| Edit { place, offset: 12, len: 4, value };
        let image = Image {
            base: "dirty".into(),
            edits: vec![
                edit(Place::Super(1), Value::Raw(u64::MAX)),
                edit(Place::Checkpoint, Value::End),
                edit(Place::Data(7, 3), Value::AddrOf(Place::Node(9))),
                edit(Place::Chain(2), Value::MaxNid),
            ],
            sealed: true,
            session: 77,
        };
        assert_eq!(image.to_string().parse::<Image>().unwrap(), image);
        assert!("base x\nnode:1 2 3".parse::<Image>().is_err());
    }
}
