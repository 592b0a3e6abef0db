//! Random operations through a mount under random spellings, compared with a map of folded names.
use super::each_folding;
use segno_testkit::Rng;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

const SEED: u64 = 20_261_126;
const STEPS: u64 = 1500;

/// A name and the form under which the model has it.
struct Name {
    path: String,
    key: String,
}

/// One of few names, in the directory that ignores case with random letters in upper case.
fn draw_name(rng: &mut Rng) -> Name {
    let word = ["save", "file", "map", "a"][rng.index(4)];
    if rng.one_in(4) {
        let path = format!("plain/{word}");
        return Name { key: path.clone(), path };
    }
    let spelled: String =
        word.chars().map(|c| if rng.one_in(2) { c.to_ascii_uppercase() } else { c }).collect();
    Name { path: format!("g/{spelled}"), key: format!("g/{word}") }
}

fn step(root: &Path, model: &mut BTreeMap<String, String>, rng: &mut Rng, content: String) {
    let (a, b) = (draw_name(rng), draw_name(rng));
    let (from, to) = (root.join(&a.path), root.join(&b.path));
    let known = model.get(&a.key).cloned();
    match rng.index(6) {
        0 => {
            fs::write(&from, &content).unwrap();
            model.insert(a.key, content);
        }
        1 => {
            let removed = fs::remove_file(&from).map_err(|e| e.kind());
            assert_eq!(removed, known.map(|_| ()).ok_or(ErrorKind::NotFound), "{}", a.path);
            model.remove(&a.key);
        }
        2 => {
            let renamed = fs::rename(&from, &to).map_err(|e| e.kind());
            assert_eq!(
                renamed,
                known.clone().map(|_| ()).ok_or(ErrorKind::NotFound),
                "{} {}",
                a.path,
                b.path
            );
            if let Some(content) = known {
                model.remove(&a.key);
                model.insert(b.key, content);
            }
        }
        3 if !model.contains_key(&b.key) => {
            // A copy of the content, as a link would share later changes.
            let linked = fs::hard_link(&from, &to).map_err(|e| e.kind());
            assert_eq!(linked, known.clone().map(|_| ()).ok_or(ErrorKind::NotFound), "{} {}", a.path, b.path);
            if let Some(content) = known {
                fs::remove_file(&to).and_then(|()| fs::write(&to, &content)).unwrap();
                model.insert(b.key, content);
            }
        }
        _ => {
            let read = fs::read_to_string(&from).map_err(|e| e.kind());
            assert_eq!(read, known.ok_or(ErrorKind::NotFound), "{}", a.path);
        }
    }
}

#[test]
fn random_spellings_agree_with_a_map() {
    each_folding(|mount| {
        eprintln!("seed {SEED}");
        let (mut rng, mut model) = (Rng::new(SEED), BTreeMap::new());
        for n in 0..STEPS {
            step(mount.path(), &mut model, &mut rng, format!("content {n}"));
        }
        assert!(!model.is_empty());
    });
}
