//! Properties of files that are a matter of trust.
use crate::LeftOut;

bitflags::bitflags! {
    /// Properties of a volume's files that files on the host get only on request: they give rights on the host, or only root can
    /// see them, and volumes may come from strangers. Empty by default.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Preserve: u32 {
        /// Set-user-ID and set-group-ID bits, of directories too.
        const SETID = 1;
        /// Character and block devices.
        const DEVICES = 2;
        /// File capabilities: `security.capability`.
        const CAPS = 4;
        /// Extended attributes `trusted.*`.
        const TRUSTED = 8;
    }
}

const CAPABILITY: &[u8] = b"security.capability";
const TRUSTED: &[u8] = b"trusted.";
const SET_IDS: u32 = 0o6000;
const PERMISSIONS: u32 = 0o7777;

impl Preserve {
    /// Reads a word of a list: `setid`, `devices`, `caps`, `trusted` or `all`.
    pub fn parse(word: &str) -> Result<Self, String> {
        let mut names = Self::all().iter_names();
        match names.find(|(name, _)| name.to_ascii_lowercase() == word) {
            Some((_, one)) => Ok(one),
            None if word == "all" => Ok(Self::all()),
            None => Err(format!("{word:?} is none of setid, devices, caps, trusted and all")),
        }
    }

    /// The permission bits to set; counts bits that are left out.
    pub(crate) fn mode(self, mode: u32, left_out: &mut LeftOut) -> u32 {
        let kept = if self.contains(Self::SETID) { PERMISSIONS } else { PERMISSIONS & !SET_IDS };
        left_out.setid += u64::from(mode & PERMISSIONS & !kept != 0);
        mode & kept
    }

    /// The extended attributes to set; counts the others, each kind once for a file.
    pub(crate) fn xattrs<'a>(
        self,
        all: &[(&'a [u8], &'a [u8])],
        left_out: &mut LeftOut,
    ) -> Vec<(&'a [u8], &'a [u8])> {
        let is_left_out = |name: &[u8]| {
            let needs = match name {
                CAPABILITY => Self::CAPS,
                _ if name.starts_with(TRUSTED) => Self::TRUSTED,
                _ => Self::empty(),
            };
            !self.contains(needs)
        };
        let (out, kept): (Vec<_>, Vec<_>) = all.iter().copied().partition(|(name, _)| is_left_out(name));
        left_out.caps += u64::from(out.iter().any(|(name, _)| *name == CAPABILITY));
        left_out.trusted += u64::from(out.iter().any(|(name, _)| *name != CAPABILITY));
        kept
    }
}
