//! A partition table: its entries, and which of them a name means.
use super::source::{Source, superblock};
use crate::part_error::{PartError, TableKind};
use std::fmt;
use std::ops::Range;
use uuid::Uuid;

/// The entries of a table, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Kind of the table.
    pub kind: TableKind,
    /// Entries in use.
    pub partitions: Vec<Partition>,
    /// Length of the file or device that has it.
    pub bytes: u64,
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// From 1; entries of a super image have names alone.
    pub number: Option<u32>,
    /// Empty for one without.
    pub name: String,
    /// Id of the entry, not of a volume in it.
    pub uuid: Option<Uuid>,
    /// Its bytes: one range, or several of an entry of a super image. `None` if it is not on this device.
    pub extents: Option<Vec<Range<u64>>>,
    /// Entries of different sets may overlap: the slots of a super image.
    pub(super) set: u32,
}

impl Table {
    /// The bytes of the entry that a number, a name, a UUID, or label or UUID of its volume means.
    pub(super) fn find(&self, name: &str, source: &dyn Source) -> Result<Vec<Range<u64>>, PartError> {
        let number = name.parse().ok();
        let uuid = Uuid::try_parse(name).ok();
        // The later ones only if nothing has the name by the earlier ones.
        let meanings: [&dyn Fn(&Partition) -> bool; 5] = [
            &|p| number.is_some() && p.number == number,
            &|p| p.name == name,
            &|p| uuid.is_some() && p.uuid == uuid,
            &|p| self.kind == TableKind::Super && p.is_in_use() && p.without_slot() == Some(name),
            &|p| p.holds(name, uuid, source),
        ];
        let by = |means: &&dyn Fn(&Partition) -> bool| -> Vec<&Partition> {
            self.partitions.iter().filter(|p| means(p)).collect()
        };
        match meanings.iter().map(by).find(|some| !some.is_empty()).as_deref() {
            Some([one]) => self.sound(one),
            Some(several) => Err(PartError::Ambiguous { name: name.to_owned(), which: texts(several) }),
            None => {
                let all: Vec<&Partition> = self.partitions.iter().collect();
                Err(PartError::NoEntry { name: name.to_owned(), have: texts(&all) })
            }
        }
    }

    /// The entry that begins at a byte.
    pub(super) fn entry_at(&self, offset: u64) -> Option<&Partition> {
        let starts = |p: &&Partition| p.first().is_some_and(|range| range.start == offset);
        self.partitions.iter().find(starts)
    }

    /// The bytes of an entry, if no other one has a part of them.
    pub(super) fn sound(&self, entry: &Partition) -> Result<Vec<Range<u64>>, PartError> {
        let own = entry.extents.clone().ok_or(PartError::Elsewhere)?;
        let overlap = |one: &Range<u64>, other: &Range<u64>| one.start < other.end && other.start < one.end;
        let others = self.partitions.iter().filter(|p| !std::ptr::eq(*p, entry) && p.set == entry.set);
        for other in others {
            let theirs = other.extents.iter().flatten();
            if theirs.into_iter().any(|range| own.iter().any(|o| overlap(o, range))) {
                return Err(PartError::Overlap { one: entry.to_string(), other: other.to_string() });
            }
        }
        let twice = own.iter().enumerate().any(|(i, one)| own.iter().skip(i + 1).any(|o| overlap(one, o)));
        if twice {
            return Err(PartError::Overlap { one: entry.to_string(), other: entry.to_string() });
        }
        Ok(own)
    }
}

impl Partition {
    fn first(&self) -> Option<&Range<u64>> {
        self.extents.as_deref()?.first()
    }

    /// Whether it has bytes: the other slot of a super image mostly has none.
    fn is_in_use(&self) -> bool {
        self.extents.as_ref().is_none_or(|extents| !extents.is_empty())
    }

    fn without_slot(&self) -> Option<&str> {
        self.name.strip_suffix("_a").or_else(|| self.name.strip_suffix("_b"))
    }

    /// Whether it holds a volume with that label or UUID. A volume that cannot be read does not count.
    fn holds(&self, label: &str, uuid: Option<Uuid>, source: &dyn Source) -> bool {
        let volume = self.first().and_then(|range| superblock(source, range.clone()).ok().flatten());
        volume.is_some_and(|sb| sb.label() == label || uuid.is_some_and(|u| u.into_bytes() == sb.raw.uuid))
    }
}

fn texts(partitions: &[&Partition]) -> Vec<String> {
    partitions.iter().map(ToString::to_string).collect()
}

/// Names are data of the image: printed with escapes.
impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.escape_debug();
        match (self.number, self.name.is_empty()) {
            (Some(number), true) => write!(f, "{number}"),
            (Some(number), false) => write!(f, "{number} ({name})"),
            (None, _) => write!(f, "{name}"),
        }
    }
}
