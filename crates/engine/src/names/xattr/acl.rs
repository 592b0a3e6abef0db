//! POSIX ACLs: the stored form, the form of getxattr(2), and their relation to the mode.
use crate::error::{Error, Result};
use segno_format::{Corrupt, Ino, Structure};

const DISK_VERSION: u32 = 1;
const USER_VERSION: u32 = 2;
/// "No id" in the user form.
const NO_ID: u32 = u32::MAX;

const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AclEntry {
    tag: u16,
    perm: u16,
    id: u32,
}

/// A valid ACL: entries in canonical order, permissions within `rwx`, a mask if there are named entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl(Vec<AclEntry>);

fn has_id(tag: u16) -> bool {
    matches!(tag, USER | GROUP)
}

impl Acl {
    /// Checks entries as setxattr(2) requires; `Err` names the violated rule.
    fn new(entries: Vec<AclEntry>) -> Result<Self, &'static str> {
        // Each tag in order; only named entries may repeat.
        let rank = |t| [USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER].iter().position(|&k| k == t);
        let mut last = None;
        for e in &entries {
            let rank = rank(e.tag).ok_or("unknown tag")?;
            if last.is_some_and(|l| rank < l || (rank == l && !has_id(e.tag))) {
                return Err("entries are out of order or repeated");
            }
            if e.perm > 7 {
                return Err("permissions");
            }
            if has_id(e.tag) && e.id == NO_ID {
                return Err("named entry without an id");
            }
            last = Some(rank);
        }
        let has = |tag| entries.iter().any(|e| e.tag == tag);
        if !(has(USER_OBJ) && has(GROUP_OBJ) && has(OTHER)) {
            return Err("an entry for owner, group or others is missing");
        }
        if (has(USER) || has(GROUP)) && !has(MASK) {
            return Err("named entries without a mask");
        }
        Ok(Self(entries))
    }

    /// Parses the value of setxattr(2); `None` for an ACL without entries, which removes the ACL.
    pub fn from_user(bytes: &[u8]) -> Result<Option<Self>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let (version, entries) = header(bytes).ok_or(Error::Invalid("ACL shorter than its header"))?;
        if version != USER_VERSION {
            return Err(Error::NotSupported("ACL version"));
        }
        let (entries, rest) = entries.as_chunks::<8>();
        if !rest.is_empty() {
            return Err(Error::Invalid("ACL length"));
        }
        if entries.is_empty() {
            return Ok(None);
        }
        let entries = entries.iter().map(|&[t0, t1, p0, p1, i0, i1, i2, i3]| {
            let (tag, id) = (u16::from_le_bytes([t0, t1]), u32::from_le_bytes([i0, i1, i2, i3]));
            AclEntry { tag, perm: u16::from_le_bytes([p0, p1]), id: if has_id(tag) { id } else { NO_ID } }
        });
        Self::new(entries.collect()).map(Some).map_err(Error::Invalid)
    }

    /// The form of getxattr(2).
    pub fn to_user(&self) -> Vec<u8> {
        self.encode(USER_VERSION, |_| true)
    }

    /// A header, and the entries; which have an id depends on the form.
    fn encode(&self, version: u32, with_id: fn(u16) -> bool) -> Vec<u8> {
        let mut out = version.to_le_bytes().to_vec();
        for e in &self.0 {
            out.extend_from_slice(&e.tag.to_le_bytes());
            out.extend_from_slice(&e.perm.to_le_bytes());
            if with_id(e.tag) {
                out.extend_from_slice(&e.id.to_le_bytes());
            }
        }
        out
    }

    /// Parses the stored form.
    pub fn from_disk(bytes: &[u8], ino: Ino) -> Result<Self> {
        let bad = |why| Error::from(Corrupt::nid(Structure::Acl, ino.0, why, bytes.len() as u64, 0));
        let (version, mut rest) = header(bytes).ok_or_else(|| bad("shorter than its header"))?;
        if version != DISK_VERSION {
            return Err(bad("version"));
        }
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let (&[t0, t1, p0, p1], mut tail) =
                rest.split_first_chunk::<4>().ok_or_else(|| bad("cut entry"))?;
            let (tag, mut id) = (u16::from_le_bytes([t0, t1]), NO_ID);
            if has_id(tag) {
                let (bytes, after) = tail.split_first_chunk::<4>().ok_or_else(|| bad("cut entry"))?;
                (id, tail) = (u32::from_le_bytes(*bytes), after);
            }
            entries.push(AclEntry { tag, perm: u16::from_le_bytes([p0, p1]), id });
            rest = tail;
        }
        Self::new(entries).map_err(bad)
    }

    /// The stored form.
    pub fn to_disk(&self) -> Vec<u8> {
        self.encode(DISK_VERSION, has_id)
    }

    /// The entry that the group bits of the mode mirror.
    fn group_tag(&self) -> u16 {
        if self.0.iter().any(|e| e.tag == MASK) { MASK } else { GROUP_OBJ }
    }

    /// The entries that the mode mirrors, with the shift of their bits.
    fn mirrored(&mut self) -> impl Iterator<Item = (&mut u16, u32)> {
        let group = self.group_tag();
        self.0.iter_mut().filter_map(move |e| match e.tag {
            USER_OBJ => Some((&mut e.perm, 6)),
            OTHER => Some((&mut e.perm, 0)),
            tag if tag == group => Some((&mut e.perm, 3)),
            _ => None,
        })
    }

    /// The mode with the permission bits of this access ACL.
    pub fn mode(&self, mode: u16) -> u16 {
        let bits = self.clone().mirrored().fold(0, |bits, (perm, shift)| bits | *perm << shift);
        mode & !0o777 | bits
    }

    /// Whether the mode bits alone are equivalent.
    pub fn is_plain(&self) -> bool {
        self.0.iter().all(|e| matches!(e.tag, USER_OBJ | GROUP_OBJ | OTHER))
    }

    /// The ACL after chmod(2).
    pub fn with_mode(mut self, mode: u16) -> Self {
        self.mirrored().for_each(|(perm, shift)| *perm = mode >> shift & 7);
        self
    }

    /// Access ACL and mode of a new file from its directory's default ACL. A permission must be in both to remain.
    pub fn inherit(&self, mode: u16) -> (Self, u16) {
        let mut access = self.clone();
        access.mirrored().for_each(|(perm, shift)| *perm &= mode >> shift & 7);
        let mode = access.mode(mode);
        (access, mode)
    }
}

fn header(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (version, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*version), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut out = 2u32.to_le_bytes().to_vec();
        for (tag, perm, id) in entries {
            out.extend_from_slice(&tag.to_le_bytes());
            out.extend_from_slice(&perm.to_le_bytes());
            out.extend_from_slice(&id.to_le_bytes());
        }
        out
    }

    const FULL: [(u16, u16, u32); 7] = [
        (1, 7, NO_ID),
        (2, 6, 1000),
        (2, 4, 1001),
        (4, 5, NO_ID),
        (8, 7, 50),
        (0x10, 5, NO_ID),
        (0x20, 1, NO_ID),
    ];

    #[test]
    fn forms_convert_both_ways() {
        let acl = Acl::from_user(&user(&FULL)).unwrap().unwrap();
        assert_eq!(acl.to_user(), user(&FULL));
        let disk = acl.to_disk();
        assert_eq!(disk.len(), 4 + 4 * 4 + 8 * 3);
        assert_eq!(disk[..12], [1, 0, 0, 0, 1, 0, 7, 0, 2, 0, 6, 0]);
        assert_eq!(Acl::from_disk(&disk, Ino(9)).unwrap(), acl);
        assert!(Acl::from_disk(&disk[..disk.len() - 1], Ino(9)).is_err());
        assert!(Acl::from_user(&user(&[])).unwrap().is_none());
    }

    #[test]
    fn invalid_acls_are_refused() {
        let errno = |e: &[(u16, u16, u32)]| Acl::from_user(&user(e)).unwrap_err().errno();
        let minimal = [(1, 7, NO_ID), (4, 5, NO_ID), (0x20, 5, NO_ID)];
        assert!(Acl::from_user(&user(&minimal)).is_ok());
        for drop in 0..3 {
            let mut e = minimal.to_vec();
            e.remove(drop);
            assert_eq!(errno(&e), 22, "without entry {drop}");
        }
        assert_eq!(errno(&[minimal[1], minimal[0], minimal[2]]), 22, "order");
        assert_eq!(errno(&[minimal[0], minimal[0], minimal[1], minimal[2]]), 22, "repeated");
        assert_eq!(errno(&[minimal[0], (2, 7, 5), minimal[1], minimal[2]]), 22, "no mask");
        assert_eq!(errno(&[(1, 8, NO_ID), minimal[1], minimal[2]]), 22, "permissions");
        assert_eq!(errno(&[(3, 7, NO_ID), minimal[1], minimal[2]]), 22, "tag");
        assert_eq!(Acl::from_user(&[2, 0, 0]).unwrap_err().errno(), 22);
        assert_eq!(Acl::from_user(&[3, 0, 0, 0]).unwrap_err().errno(), 95);
    }

    #[test]
    fn modes_follow() {
        let acl = Acl::from_user(&user(&FULL)).unwrap().unwrap();
        assert_eq!(acl.mode(0o104_000), 0o104_751);
        assert!(!acl.is_plain());
        let (access, mode) = acl.inherit(0o100_640);
        assert_eq!(mode, 0o100_640);
        assert_eq!(access.mode(0), 0o640);
        assert_eq!(access.with_mode(0o777).mode(0), 0o777);
        let plain =
            Acl::from_user(&user(&[(1, 6, NO_ID), (4, 4, NO_ID), (0x20, 0, NO_ID)])).unwrap().unwrap();
        assert!(plain.is_plain());
        assert_eq!(plain.inherit(0o666), (plain.clone(), 0o640));
    }
}
