//! Names on the way from the root to the file that is being read, for reports on content.
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

    /// What follows has no name.
    pub(super) fn leave(&mut self) {
        self.current = None;
    }

    /// The path of the file that is open, without bytes that a terminal would obey.
    pub(super) fn path(&self) -> Option<String> {
        let first = self.current.as_ref()?;
        let above = std::iter::successors(Some(first), |(parent, _)| self.dirs.get(parent));
        let mut parts: Vec<_> = above.take(DEPTH).map(|(_, name)| printable(name)).collect();
        parts.reverse();
        Some(format!("/{}", parts.join("/")))
    }
}

fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_printable_and_end() {
        let mut names = Names::default();
        assert_eq!(names.path(), None);
        names.directory(4, 3, (*b"a").into());
        names.directory(4, 9, (*b"second name").into());
        names.file(4, (*b"b\x1b[2J").into());
        assert_eq!(names.path().unwrap(), "/a/b?[2J");
        names.directory(7, 7, (*b"loop").into());
        names.file(7, (*b"x").into());
        assert_eq!(names.path().unwrap().matches("loop").count(), DEPTH - 1);
        names.leave();
        assert_eq!(names.path(), None);
    }
}
