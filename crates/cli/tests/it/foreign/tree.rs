//! The tree that volumes are filled with: a function of names, so that nothing of it need be kept.
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Contents of files and targets of links, by path.
pub type Tree = BTreeMap<String, Node>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    File(Vec<u8>),
    Link(String),
}

/// Numbered lines that begin with the name, so no block of a file is like another one.
pub fn content(name: &str, bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes + 64);
    for i in 1.. {
        if out.len() >= bytes {
            break;
        }
        out.extend_from_slice(format!("{name} {i}\n").as_bytes());
    }
    out.truncate(bytes);
    out
}

/// Files of all index depths but the last, a large directory, empty files, links; below a directory.
pub fn tree(top: &str) -> Tree {
    let mut out = Tree::new();
    let mut file = |path: String, bytes| {
        let path = format!("{top}/{path}");
        out.insert(path.clone(), Node::File(content(&path, bytes)));
    };
    for i in 0..40 {
        let sizes = [0, 100 + i, 3_000 + 13 * i, 4_000 * i, 4096 * (i / 3)];
        file(format!("d{}/e{}/file-{i}", i % 4, i % 3), sizes[i % 5]);
    }
    (0..220).for_each(|i| file(format!("many/name-{i}"), i));
    file("large".into(), 4_000_000);
    out.insert(format!("{top}/d0/link"), Node::Link("../outside".into()));
    out.insert(format!("{top}/d1/long"), Node::Link("x".repeat(3000)));
    out
}

/// Makes the tree below a directory of the host.
pub fn plant(tree: &Tree, root: &Path) {
    for (path, node) in tree {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match node {
            Node::File(bytes) => fs::write(path, bytes).unwrap(),
            Node::Link(to) => symlink(to, path).unwrap(),
        }
    }
}

/// Files and links below a directory of the host.
pub fn read(root: &Path) -> Tree {
    let mut out = Tree::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let (kind, path) = (entry.file_type().unwrap(), entry.path());
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            if kind.is_dir() {
                todo.push(path);
            } else if kind.is_symlink() {
                out.insert(name, Node::Link(fs::read_link(path).unwrap().to_str().unwrap().to_owned()));
            } else {
                out.insert(name, Node::File(fs::read(path).unwrap()));
            }
        }
    }
    out
}

/// How a tree differs from the expected one, or nothing.
pub fn difference(expected: &Tree, found: &Tree) -> Option<String> {
    let wrong: Vec<_> = expected.iter().filter(|(path, node)| found.get(*path) != Some(node)).collect();
    let more: Vec<_> = found.keys().filter(|path| !expected.contains_key(*path)).collect();
    let (first, other) = (wrong.first().map(|(path, _)| path), more.first());
    let counts = (wrong.len(), more.len());
    (counts != (0, 0)).then(|| {
        format!("{} of {} wrong ({first:?}), {} more ({other:?})", counts.0, expected.len(), counts.1)
    })
}
