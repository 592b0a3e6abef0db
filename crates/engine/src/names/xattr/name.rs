//! Attribute names: the prefixes in the API, and the stored name indexes.
use crate::error::{Error, Result};
use crate::options::MountOptions;
use segno_format::NAME_MAX;
use segno_format::xattr::{ACL_NAMES, PREFIXES, full_name, index};

const ADVISE: (u8, &[u8]) = (index::ADVISE, b"system.advise");

/// Index and stored name of a full name.
pub(super) fn parse<'a>(full: &'a [u8], opts: &MountOptions) -> Result<(u8, &'a [u8])> {
    if full.len() > NAME_MAX {
        return Err(Error::Range);
    }
    let whole =
        ACL_NAMES.iter().chain([&ADVISE]).find(|(_, name)| *name == full).map(|&(i, _)| (i, &b""[..]));
    let prefixed = || PREFIXES.iter().find_map(|&(i, p)| Some((i, full.strip_prefix(p)?)));
    match whole.or_else(prefixed) {
        Some((i, _)) if !enabled(i, opts) => {
            Err(Error::NotSupported("attributes of that kind are disabled by a mount option"))
        }
        Some((index::USER | index::TRUSTED | index::SECURITY, b"")) => {
            Err(Error::Invalid("the attribute name ends with its prefix"))
        }
        Some(found) => Ok(found),
        None => Err(Error::NotSupported(
            "attribute names start with user., trusted., security. or system.posix_acl_",
        )),
    }
}

/// The full name of a stored attribute, or `None` if users may not see it.
pub(super) fn full(index: u8, name: &[u8], opts: &MountOptions) -> Option<Vec<u8>> {
    enabled(index, opts).then(|| full_name(index, name))?
}

fn enabled(i: u8, opts: &MountOptions) -> bool {
    match i {
        index::USER => opts.user_xattr,
        index::ACL_ACCESS | index::ACL_DEFAULT => opts.acl,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        let opts = MountOptions::default();
        for (full_name, i, rest) in [
            (&b"user.a"[..], 1, &b"a"[..]),
            (b"trusted.x.y", 4, b"x.y"),
            (b"security.selinux", 6, b"selinux"),
            (b"system.posix_acl_access", 2, b""),
            (b"system.posix_acl_default", 3, b""),
        ] {
            assert_eq!(parse(full_name, &opts).unwrap(), (i, rest));
            assert_eq!(full(i, rest, &opts).unwrap(), full_name);
        }
        assert_eq!(parse(b"system.advise", &opts).unwrap(), (7, &b""[..]));
        for (i, name) in [(7, &b""[..]), (9, b"c"), (11, b"v"), (42, b"z")] {
            assert_eq!(full(i, name, &opts), None);
        }
    }

    #[test]
    fn bad_names_are_refused() {
        let opts = MountOptions { user_xattr: false, ..MountOptions::default() };
        let errno = |n: &[u8]| parse(n, &opts).unwrap_err().errno();
        assert_eq!(errno(b"security."), 22);
        assert_eq!(errno(b"user.a"), 95);
        assert_eq!(errno(b"system.other"), 95);
        assert_eq!(errno(b"os2.x"), 95);
        assert_eq!(errno(&[b'u'; 256]), 34);
    }
}
