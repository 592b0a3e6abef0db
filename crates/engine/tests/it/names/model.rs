//! Random operations on names, compared with a tree of maps: same result or errno at every step.
use super::*;
use segno_testkit::Rng;
use std::collections::BTreeMap;

#[derive(Default)]
struct Node {
    ino: Option<Ino>,
    names: Option<BTreeMap<String, usize>>,
    links: u32,
    parent: usize,
}

/// The expected tree. Node 0 is the root.
struct Model(Vec<Node>);

type Done = Result<(), i32>;

impl Model {
    fn new() -> Self {
        Self(vec![Node { ino: Some(ROOT), names: Some(BTreeMap::new()), links: 2, parent: 0 }])
    }
    fn is_dir(&self, n: usize) -> bool {
        self.0[n].names.is_some()
    }
    fn at(&self, dir: usize, name: &str) -> Option<usize> {
        self.0[dir].names.as_ref().unwrap().get(name).copied()
    }
    fn put(&mut self, dir: usize, name: &str, node: usize) {
        self.0[dir].names.as_mut().unwrap().insert(name.to_owned(), node);
        if self.is_dir(node) {
            self.0[node].parent = dir;
            self.0[dir].links += 1;
        }
    }
    fn take(&mut self, dir: usize, name: &str) -> usize {
        let node = self.0[dir].names.as_mut().unwrap().remove(name).unwrap();
        self.0[dir].links -= u32::from(self.is_dir(node));
        node
    }
    fn drop_link(&mut self, node: usize) {
        self.0[node].links = if self.is_dir(node) { 0 } else { self.0[node].links - 1 };
    }
    fn below(&self, mut dir: usize, above: usize) -> bool {
        while dir != above && dir != 0 {
            dir = self.0[dir].parent;
        }
        dir == above
    }
    fn make(&mut self, dir: usize, name: &str, is_dir: bool) -> Result<usize, i32> {
        if self.at(dir, name).is_some() {
            return Err(17);
        }
        let names = is_dir.then(BTreeMap::new);
        self.0.push(Node { ino: None, names, links: if is_dir { 2 } else { 1 }, parent: dir });
        self.put(dir, name, self.0.len() - 1);
        Ok(self.0.len() - 1)
    }
    fn link(&mut self, node: usize, dir: usize, name: &str) -> Done {
        if self.is_dir(node) {
            return Err(1);
        }
        if self.at(dir, name).is_some() {
            return Err(17);
        }
        self.0[node].links += 1;
        self.put(dir, name, node);
        Ok(())
    }
    fn remove(&mut self, dir: usize, name: &str, is_dir: bool) -> Done {
        let node = self.at(dir, name).ok_or(2)?;
        match (self.is_dir(node), is_dir) {
            (true, false) => return Err(21),
            (false, true) => return Err(20),
            _ => {}
        }
        if self.0[node].names.as_ref().is_some_and(|n| !n.is_empty()) {
            return Err(39);
        }
        self.take(dir, name);
        self.drop_link(node);
        Ok(())
    }
    fn rename(&mut self, from: (usize, &str), to: (usize, &str), mode: RenameMode) -> Done {
        let child = self.at(from.0, from.1).ok_or(2)?;
        let target = self.at(to.0, to.1);
        let exchange = mode == RenameMode::Exchange;
        if exchange && target.is_none() {
            return Err(2);
        }
        if mode == RenameMode::NoReplace && target.is_some() {
            return Err(17);
        }
        if self.is_dir(child) && from.0 != to.0 && self.below(to.0, child) {
            return Err(22);
        }
        if let Some(t) = target.filter(|&t| self.is_dir(t) && from.0 != to.0)
            && self.below(from.0, t)
        {
            // The target is an ancestor of the source, so it is not empty.
            return Err(if exchange {
                22
            } else if self.is_dir(child) {
                39
            } else {
                21
            });
        }
        if target == Some(child) {
            return Ok(());
        }
        if !exchange && let Some(t) = target {
            match (self.is_dir(child), self.is_dir(t)) {
                (true, false) => return Err(20),
                (false, true) => return Err(21),
                (true, true) if !self.0[t].names.as_ref().unwrap().is_empty() => return Err(39),
                _ => {}
            }
        }
        self.take(from.0, from.1);
        if let Some(t) = target {
            self.take(to.0, to.1);
            if exchange {
                self.put(from.0, from.1, t);
            } else {
                self.drop_link(t);
            }
        }
        self.put(to.0, to.1, child);
        Ok(())
    }

    /// Compares everything below a directory.
    fn compare(&self, rig: &Rig, dir: usize, context: &str) {
        let node = &self.0[dir];
        let ino = node.ino.unwrap();
        assert_eq!(rig.attr(ino).nlink, node.links, "{context}: links of directory {ino}");
        let names = node.names.as_ref().unwrap();
        let expected: Vec<(String, Ino)> =
            names.iter().map(|(n, &c)| (n.clone(), self.0[c].ino.unwrap())).collect();
        assert_eq!(rig.list(ino), expected, "{context}: names in directory {ino}");
        for (name, &c) in names {
            let child = &self.0[c];
            assert_eq!(rig.lookup(ino, name), child.ino.unwrap(), "{context}: {name}");
            if self.is_dir(c) {
                assert_eq!(rig.lookup(child.ino.unwrap(), ".."), ino, "{context}: parent of {name}");
                self.compare(rig, c, context);
            } else {
                assert_eq!(rig.attr(child.ino.unwrap()).nlink, child.links, "{context}: links of {name}");
            }
        }
    }
}

fn run(seed: u64, features: Features, opts: MountOptions, steps: u32) {
    let mut rig = Rig::with(128, features, opts);
    let mut rng = Rng::new(seed);
    let mut m = Model::new();
    // Occasional long names, to exercise blocks and conversion.
    let names: Vec<String> =
        (0..8).map(|i| if i < 6 { format!("{i}") } else { format!("{i}").repeat(200) }).collect();
    for step in 0..steps {
        let live: Vec<usize> = (0..m.0.len()).filter(|&n| m.is_dir(n) && m.0[n].links > 0).collect();
        let mut dir = || live[rng.below(live.len() as u64) as usize];
        let (d, e) = (dir(), dir());
        let (n, o) = (&names[rng.below(8) as usize], &names[rng.below(8) as usize]);
        let (di, ei) = (m.0[d].ino.unwrap(), m.0[e].ino.unwrap());
        let owner = Owner::default();
        let (expected, got) = match rng.below(10) {
            k @ 0..=3 => {
                let is_dir = k == 0;
                let made = if is_dir {
                    rig.v.mkdir(di, n.as_bytes(), 0o755, owner)
                } else {
                    rig.v.mknod(di, n.as_bytes(), REG, (0, 0), owner)
                };
                let expected = m.make(d, n, is_dir);
                if let (Ok(i), Ok(a)) = (&expected, &made) {
                    m.0[*i].ino = Some(a.ino);
                }
                (expected.map(drop), made.map(drop))
            }
            4 => match m.at(d, n) {
                Some(c) => (m.link(c, e, o), rig.v.link(m.0[c].ino.unwrap(), ei, o.as_bytes()).map(drop)),
                None => continue,
            },
            5 => (m.remove(d, n, false), rig.v.unlink(di, n.as_bytes())),
            6 => (m.remove(d, n, true), rig.v.rmdir(di, n.as_bytes())),
            k => {
                let mode = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange][k as usize - 7];
                (m.rename((d, n), (e, o), mode), rig.mv((di, n), (ei, o), mode))
            }
        };
        let context = format!("seed {seed:#x} step {step}");
        assert_eq!(got.map_err(|e| e.errno()), expected, "{context}");
        if step % 100 == 99 {
            m.compare(&rig, 0, &context);
        }
        if step % 500 == 499 {
            rig.remount();
            m.compare(&rig, 0, &context);
        }
    }
    rig.finish();
}

#[test]
fn random_operations_inline() {
    run(0x5EED_0010, ALL, quiet(), 4000);
}

#[test]
fn random_operations_in_blocks() {
    let opts = MountOptions { inline_dentry: false, inline_data: false, inline_xattr: false, ..quiet() };
    run(0x5EED_0011, Features::empty(), opts, 4000);
}
