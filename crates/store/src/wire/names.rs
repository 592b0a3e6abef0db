//! Names of objects. Numbers have a fixed width, so a listing is in order.
use crate::ids::{Epoch, LogPlace, Seq};
use derive_more::Display;

/// An object under the prefix.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Name {
    /// Identity and geometry of the volume.
    #[display("volume")]
    Volume,
    /// The owner of an epoch.
    #[display("epoch/{_0}")]
    Epoch(Epoch),
    /// The state after a commit.
    #[display("map/{_0}")]
    Map(LogPlace),
    /// Blocks, or a commit.
    Object(ObjectId),
}

/// An object that holds blocks.
#[derive(Clone, Copy, Debug, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ObjectId {
    #[display("data/{epoch}/{number:016x}")]
    Data { epoch: Epoch, number: u64 },
    /// A commit or a seal; blocks are inline.
    #[display("log/{_0}")]
    Log(LogPlace),
}

impl ObjectId {
    pub(crate) fn epoch(self) -> Epoch {
        match self {
            Self::Data { epoch, .. } | Self::Log(LogPlace { epoch, .. }) => epoch,
        }
    }

    /// Its kind and its numbers, as they are stored.
    pub(crate) fn numbers(self) -> (u8, LogPlace) {
        match self {
            Self::Data { epoch, number } => (0, LogPlace::new(epoch, Seq::new(number))),
            Self::Log(place) => (1, place),
        }
    }

    pub(crate) fn of_numbers(kind: u8, numbers: LogPlace) -> Option<Self> {
        match kind {
            0 => Some(Self::Data { epoch: numbers.epoch, number: numbers.seq.get() }),
            1 => Some(Self::Log(numbers)),
            _ => None,
        }
    }
}

/// Maximum bytes of a map. Compaction leaves up to 16 extents in a range of a zone, so the map of 16 TiB is
/// smaller.
pub(crate) const MAP_BYTES_MAX: u64 = 256 << 20;
/// Maximum bytes of an object of the log. A group is closed when its changes take half of that.
pub(crate) const LOG_BYTES_MAX: u64 = 64 << 20;

impl Name {
    /// Maximum bytes of an object of this kind. A longer one is damage, and is not read.
    pub(crate) fn bytes_max(self) -> u64 {
        match self {
            Self::Volume => 4 << 10,
            // Three texts of up to 64 KiB.
            Self::Epoch(_) => 256 << 10,
            Self::Map(_) => MAP_BYTES_MAX,
            Self::Object(ObjectId::Log(_)) => LOG_BYTES_MAX,
            Self::Object(ObjectId::Data { .. }) => 16 << 20,
        }
    }

    pub(crate) fn log(place: LogPlace) -> Self {
        Self::Object(ObjectId::Log(place))
    }

    /// The place of a map, or of an object of the log.
    pub(crate) fn place(self) -> Option<LogPlace> {
        match self {
            Self::Map(place) | Self::Object(ObjectId::Log(place)) => Some(place),
            _ => None,
        }
    }

    /// Parses a name below the prefix; `None` for a foreign name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('/');
        let kind = fields.next()?;
        let mut number = |digits| {
            fields
                .next()
                .filter(|p| p.len() == digits && p.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
                .and_then(|p| u64::from_str_radix(p, 16).ok())
        };
        let name = match kind {
            "volume" => Self::Volume,
            "epoch" => Self::Epoch(Epoch::new(number(8)? as u32)),
            "map" | "log" | "data" => {
                let (epoch, number) = (Epoch::new(number(8)? as u32), number(16)?);
                let place = LogPlace::new(epoch, Seq::new(number));
                match kind {
                    "map" => Self::Map(place),
                    "log" => Self::log(place),
                    _ => Self::Object(ObjectId::Data { epoch, number }),
                }
            }
            _ => return None,
        };
        fields.next().is_none().then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_sort_by_number() {
        let data = |number| Name::Object(ObjectId::Data { epoch: Epoch::new(1), number });
        let names = [
            Name::Volume,
            Name::Epoch(Epoch::new(17)),
            Name::Map(LogPlace::new(Epoch::new(2), Seq::new(10))),
            Name::log(LogPlace::new(Epoch::new(u32::MAX), Seq::MAX)),
            data(3),
        ];
        for name in names {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
        }
        assert!(data(9).to_string() < data(16).to_string());
        for foreign in
            ["", "volume/1", "epoch/1", "log/00000001", "log/00000001/zz", "x/00000001", "epoch/0000000G"]
        {
            assert_eq!(Name::parse(foreign), None, "{foreign}");
        }
    }
}
