//! Identities and numbers: random bytes, epochs, and places in the log.
use crate::{Result, StoreError};
use derive_more::Display;
use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes of the system.
pub(crate) fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // Up to 256 bytes arrive whole once the generator is seeded.
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(16) => Ok(bytes),
        other => Err(StoreError::Runtime(format!("no random numbers: {other:?}"))),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A number that has no successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overflow {
    Epoch,
    Seq,
}

impl From<Overflow> for StoreError {
    fn from(e: Overflow) -> Self {
        Self::Exhausted(match e {
            Overflow::Epoch => "epoch",
            Overflow::Seq => "commit",
        })
    }
}

/// Number of an epoch. mkfs has the first, which has no log.
#[derive(Clone, Copy, Debug, Default, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("{_0:08x}")]
pub(crate) struct Epoch(u32);

impl Epoch {
    /// That of mkfs.
    pub(crate) const MKFS: Self = Self(0);

    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    pub(crate) const fn get(self) -> u32 {
        self.0
    }

    pub(crate) fn next(self) -> Result<Self, Overflow> {
        self.0.checked_add(1).map(Self).ok_or(Overflow::Epoch)
    }

    pub(crate) fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }

    /// Number of epochs after an earlier one, up to this one.
    pub(crate) fn since(self, earlier: Self) -> u32 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Number of a commit or a seal in the log of an epoch. The first is 1; 0 stands for none.
#[derive(Clone, Copy, Debug, Default, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("{_0:016x}")]
pub(crate) struct Seq(u64);

impl Seq {
    /// Before the first commit.
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const FIRST: Self = Self(1);
    #[cfg(test)]
    pub(crate) const MAX: Self = Self(u64::MAX);

    pub(crate) const fn new(number: u64) -> Self {
        Self(number)
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }

    pub(crate) fn next(self) -> Result<Self, Overflow> {
        self.after(1)
    }

    /// The number after an object that takes `places` places.
    pub(crate) fn after(self, places: u32) -> Result<Self, Overflow> {
        self.0.checked_add(places.into()).map(Self).ok_or(Overflow::Seq)
    }

    pub(crate) fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// Number of places from an earlier one up to this one.
    pub(crate) fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This number and all that follow it.
    pub(crate) fn onwards(self) -> impl Iterator<Item = Self> {
        (self.0..=u64::MAX).map(Self)
    }

    /// This number and those that follow it, up to another one.
    pub(crate) fn up_to(self, last: Self) -> impl Iterator<Item = Self> {
        (self.0..=last.0).map(Self)
    }
}

/// A place in the log.
#[derive(Clone, Copy, Debug, Default, Display, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[display("{epoch}/{seq}")]
pub(crate) struct LogPlace {
    pub epoch: Epoch,
    pub seq: Seq,
}

impl LogPlace {
    pub(crate) const fn new(epoch: Epoch, seq: Seq) -> Self {
        Self { epoch, seq }
    }

    /// The place with these numbers.
    #[cfg(test)]
    pub(crate) const fn of(epoch: u32, seq: u64) -> Self {
        Self { epoch: Epoch(epoch), seq: Seq(seq) }
    }

    /// The first place of an epoch.
    pub(crate) const fn first(epoch: Epoch) -> Self {
        Self { epoch, seq: Seq::FIRST }
    }

    /// The place after an object that takes `places` places.
    pub(crate) fn after(self, places: u32) -> Result<Self, Overflow> {
        Ok(Self { seq: self.seq.after(places)?, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_order_and_the_last_number_has_no_successor() {
        let place = LogPlace::of;
        assert!(place(1, u64::MAX) < place(2, 0) && place(2, 9) < place(2, 10));
        assert_eq!(place(2, 9).after(3), Ok(place(2, 12)));
        assert_eq!(place(2, u64::MAX - 1).after(2), Err(Overflow::Seq));
        assert_eq!(Epoch::new(u32::MAX).next(), Err(Overflow::Epoch));
        assert_eq!((Epoch::MKFS.previous(), Seq::NONE.previous()), (None, Seq::NONE));
        assert_eq!(Seq::new(u64::MAX - 1).onwards().count(), 2);
        assert_eq!(place(3, 255).to_string(), "00000003/00000000000000ff");
    }
}
