//! The path of the file that is being read, for reports on content.
use std::collections::HashMap;

/// Most directories between a file and the root in a report; damaged volumes have cycles.
const DEPTH: usize = 512;

/// A name and the directory that has it.
type Named = (u32, Box<[u8]>);

#[derive(Default)]
pub(super) struct Names {
    dirs: HashMap<u32, Named>,
    current: Option<Named>,
}

impl Names {
    /// Notes a directory, the first time that it is named.
    pub(super) fn directory(&mut self, ino: u32, parent: u32, name: Box<[u8]>) {
        self.dirs.entry(ino).or_insert((parent, name));
    }

    /// Names the file that is opened next.
    pub(super) fn file(&mut self, parent: u32, name: Box<[u8]>) {
        self.current = Some((parent, name));
    }

    /// The next contents have no name.
    pub(super) fn leave(&mut self) {
        self.current = None;
    }

    /// The path of the file that is open.
    pub(super) fn path(&self) -> Option<Vec<u8>> {
        let first = self.current.as_ref()?;
        let above = std::iter::successors(Some(first), |(parent, _)| self.dirs.get(parent));
        let mut parts: Vec<&[u8]> = above.take(DEPTH).map(|(_, name)| &**name).collect();
        parts.push(b"");
        parts.reverse();
        Some(parts.join(&b'/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_bytes_and_end() {
        let mut names = Names::default();
        assert_eq!(names.path(), None);
        names.directory(4, 3, (*b"a").into());
        names.directory(4, 9, (*b"second name").into());
        names.file(4, (*b"b\x1b[2J\xff").into());
        assert_eq!(names.path().unwrap(), b"/a/b\x1b[2J\xff");
        names.directory(7, 7, (*b"loop").into());
        names.file(7, (*b"x").into());
        let path = String::from_utf8(names.path().unwrap()).unwrap();
        assert_eq!(path.matches("loop").count(), DEPTH - 1);
        names.leave();
        assert_eq!(names.path(), None);
    }
}
