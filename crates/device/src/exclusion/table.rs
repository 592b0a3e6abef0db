//! The table of uses: which of them the same bytes bear at once. docs/exclusion.md explains each entry.

/// How storage is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Read and written.
    Write,
    /// Written while the block device is mounted read-only, as the root is at boot.
    Repair,
    /// Read, and expected not to change meanwhile.
    Read,
    /// Reading while the content may change; the reader can detect changes.
    Observe,
}

/// Another user of the same bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// A program that writes.
    Writer,
    /// A program that reads.
    Reader,
    /// A writable mount by the kernel, of the device or through a loop device.
    Mount,
    /// A read-only mount of the block device.
    ReadOnlyMount,
    /// A read-only mount of a loop device over the image or device.
    ReadOnlyLoopMount,
    /// A loop device that is not mounted, or not visibly.
    LoopDevice,
    /// An exclusive open without a visible mount: device mapper, swap, a mount in another namespace.
    ExclusiveOpen,
}

impl Other {
    const ALL: [Self; 7] = [
        Self::Writer,
        Self::Reader,
        Self::Mount,
        Self::ReadOnlyMount,
        Self::ReadOnlyLoopMount,
        Self::LoopDevice,
        Self::ExclusiveOpen,
    ];
}

impl Use {
    /// Everything that this use tolerates at the same time.
    const fn tolerated(self) -> &'static [Other] {
        match self {
            Self::Write => &[],
            Self::Repair => &[Other::ReadOnlyMount],
            Self::Read => &[Other::Reader, Other::ReadOnlyMount, Other::ReadOnlyLoopMount, Other::LoopDevice],
            Self::Observe => &Other::ALL,
        }
    }

    /// Whether both may be at once.
    #[must_use]
    pub fn tolerates(self, other: Other) -> bool {
        self.tolerated().contains(&other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_observer_is_beside_a_writer() {
        let beside = |other| {
            let uses = [Use::Write, Use::Repair, Use::Read, Use::Observe];
            uses.into_iter().filter(|u| u.tolerates(other)).collect::<Vec<_>>()
        };
        for other in [Other::Writer, Other::Mount, Other::ExclusiveOpen] {
            assert_eq!(beside(other), [Use::Observe], "{other:?}");
        }
        for other in [Other::Reader, Other::ReadOnlyLoopMount, Other::LoopDevice] {
            assert_eq!(beside(other), [Use::Read, Use::Observe], "{other:?}");
        }
        assert_eq!(beside(Other::ReadOnlyMount), [Use::Repair, Use::Read, Use::Observe]);
    }
}
