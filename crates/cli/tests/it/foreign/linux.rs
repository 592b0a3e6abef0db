//! Volumes that real Linux filled, changed, deleted from and lost power with. `xtask/src/foreign/guest.sh` made them.
use super::tools::Volume;
use super::tree::{Node, Tree, content};
use segno_codec::{Algorithm, decompress};
use std::path::Path;

const BYTES: usize = 64 << 20;

pub const IMAGES: [&str; 4] = ["plain", "features", "after-sload", "cut"];

pub fn volume(name: &str) -> Volume {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/foreign").join(format!("{name}.zst"));
    let mut image = vec![0; BYTES];
    decompress(Algorithm::Zstd, &std::fs::read(data).unwrap(), &mut image).unwrap();
    let mut volume = Volume::of_image(&image);
    volume.files = filled();
    let gone = files("gone/file", 0..8, |i| i * 1500);
    match name {
        "cut" => {
            volume.files.extend(gone);
            volume.files.extend(files("synced/file", 0..4, |i| i * 2500 + 1));
            volume.crashed = true;
        }
        "after-sload" => {
            volume.files.extend(files("sload/file", 0..10, |i| i * 2000));
            volume.deleted = files("sload/many/name", 0..30, |i| i * 10);
            volume.deleted.extend(gone);
        }
        _ => volume.deleted = gone,
    }
    volume
}

fn files(prefix: &str, numbers: std::ops::Range<usize>, bytes: impl Fn(usize) -> usize) -> Tree {
    let file = |i| {
        let path = format!("{prefix}-{i}");
        (path.clone(), Node::File(content(&path, bytes(i))))
    };
    numbers.map(file).collect()
}

fn filled() -> Tree {
    let mut out = Tree::new();
    for i in 0..40 {
        let path = format!("d{}/file-{i}", i % 4);
        let bytes = if i % 5 == 0 { i * 200 + 10 } else { i % 5 * 120 * i };
        let node = Node::File(content(&path, bytes));
        out.insert(if i == 1 { "d2/moved".into() } else { path }, node);
    }
    let mut large = content("large", 3000);
    large.resize(6_000_000, 0);
    large.extend_from_slice(b"end");
    out.insert("large".into(), Node::File(large));
    out.insert("d0/link".into(), Node::Link("../outside".into()));
    out
}
