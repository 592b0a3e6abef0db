//! The modules of one folder of a product crate have an order: a path leads to a module below. The modules of
//! a crate may not use names that its root defines either; names that a root or a folder only exports count
//! as those of the module that defines them. The engine has another order
//! (`crates/engine/tests/structure.rs`); the laboratory needs none.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The engine, whose layers `structure` checks.
const EXEMPT: [&str; 1] = ["engine"];

/// A path of a module from the root of its crate, and of a name.
type Module = Vec<String>;

/// A path in a module, from the root of the crate.
struct Use {
    path: Vec<String>,
    /// The name it has in the module, if the path is in a `use`.
    bound: Option<String>,
}

/// The modules of a crate without those of tests, and the paths that each module uses.
struct Crate(BTreeMap<Module, Vec<Use>>);

/// The text without comments and the tests at its end; the modules of tests that it declares.
fn product_code(text: &str) -> (String, Vec<String>) {
    let (mut code, mut tests, mut marked) = (String::new(), Vec::new(), false);
    for line in text.lines().map(|l| l.split("//").next().unwrap_or_default()) {
        match line.trim().split_once("mod ") {
            Some((_, name)) if marked && name.ends_with('{') => break,
            Some((_, name)) if marked => tests.push(name.trim_end_matches(';').to_owned()),
            _ => code.extend([line, "\n"]),
        }
        marked =
            line.contains("cfg(test)") || line.contains("cfg(all(test") || (marked && line.contains("#["));
    }
    (code, tests)
}

/// Words, `::` and other characters.
fn tokens(code: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let end = if word > 0 { word } else { "::".len() * usize::from(rest.starts_with("::")) };
        let (token, behind) = rest.split_at(end.max(first.len_utf8()));
        out.push(token);
        rest = behind.trim_start();
    }
    out
}

/// Collects the paths at the start of `tokens`, including those in braces, and the name that each is bound
/// to. Returns the tokens after them.
fn tree<'t>(mut tokens: &'t [&'t str], mut path: Vec<String>, out: &mut Vec<Use>) -> &'t [&'t str] {
    let mut braces = false;
    loop {
        match tokens {
            ["::", rest @ ..] => tokens = rest,
            ["as", name, rest @ ..] => {
                out.push(Use { path, bound: Some((*name).to_owned()) });
                return rest;
            }
            ["{", rest @ ..] => {
                braces = true;
                tokens = rest;
                while !matches!(tokens, ["}", ..] | []) {
                    tokens = tree(tokens, path.clone(), out);
                    tokens = tokens.strip_prefix(&[","]).unwrap_or(tokens);
                }
                tokens = tokens.strip_prefix(&["}"]).unwrap_or(tokens);
            }
            [word, rest @ ..] if word.starts_with(|c: char| c.is_alphanumeric() || c == '_') => {
                if *word != "self" || path.is_empty() {
                    path.push((*word).to_owned());
                }
                tokens = rest;
                if !matches!(tokens, ["::" | "as", ..]) {
                    break;
                }
            }
            [_, rest @ ..] if !braces => {
                tokens = rest;
                break;
            }
            _ => break,
        }
    }
    if !braces {
        out.push(Use { bound: path.last().cloned(), path });
    }
    tokens
}

/// The paths of a module's code that may lead to another module of the crate.
fn uses(module: &Module, code: &str, is_module: impl Fn(&Module) -> bool) -> Vec<Use> {
    let all = tokens(code);
    let mut rest: &[&str] = &all;
    let mut found = Vec::new();
    while let [first, behind @ ..] = rest {
        let mut paths = Vec::new();
        let in_use = *first == "use";
        match behind {
            _ if in_use => rest = tree(behind, Vec::new(), &mut paths),
            ["::", ..] if first.starts_with(char::is_alphabetic) => rest = tree(rest, Vec::new(), &mut paths),
            _ => rest = behind,
        }
        for mut one in paths {
            let ups = one.path.iter().take_while(|p| *p == "super").count();
            let first = one.path.first().map_or("", String::as_str);
            let start = match first {
                "crate" => Vec::new(),
                // A module in braces in a root has no separate file.
                "super" => module[..module.len().saturating_sub(ups)].to_vec(),
                "self" => module.clone(),
                name if is_module(&[module.clone(), vec![name.to_owned()]].concat()) => module.clone(),
                _ => continue,
            };
            let skipped = if matches!(first, "crate" | "self") { 1 } else { ups };
            one.path = [start, one.path.split_off(skipped)].concat();
            one.bound = one.bound.filter(|_| in_use);
            found.push(one);
        }
    }
    found
}

impl Crate {
    fn read(src: &Path) -> Self {
        let mut files = Vec::new();
        let mut dirs = vec![src.to_owned()];
        while let Some(dir) = dirs.pop() {
            for path in fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()) {
                if path.is_dir() {
                    dirs.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("main.rs") {
                    files.push(path);
                }
            }
        }
        let mut tests = Vec::new();
        let mut code = BTreeMap::new();
        for file in files {
            let name = file.strip_prefix(src).unwrap().with_extension("");
            let mut module: Module = name.iter().map(|p| p.to_str().unwrap().to_owned()).collect();
            if matches!(module.last().unwrap().as_str(), "lib" | "mod") {
                module.pop();
            }
            let (product, of_tests) = product_code(&fs::read_to_string(&file).unwrap());
            tests.extend(of_tests.into_iter().map(|t| [module.clone(), vec![t]].concat()));
            code.insert(module, product);
        }
        code.retain(|m, _| !tests.iter().any(|t| m.starts_with(t)));
        let is_module = |m: &Module| code.contains_key(m);
        Self(code.iter().map(|(m, text)| (m.clone(), uses(m, text, is_module))).collect())
    }

    /// The module that a path leads to, through the names that others export.
    fn target(&self, path: &[String], exports: usize) -> Module {
        let known = (0..=path.len()).rev().find(|&n| self.0.contains_key(&path[..n])).unwrap_or(0);
        let (module, name) = path.split_at(known);
        let export = name.first().and_then(|n| self.0[module].iter().find(|u| u.bound.as_ref() == Some(n)));
        match export {
            Some(export) if exports > 0 && !path.starts_with(&export.path) => {
                self.target(&[&export.path, &name[1..]].concat(), exports - 1)
            }
            _ => module.to_vec(),
        }
    }

    /// For each module of a folder the modules that it uses, with the place; the root of the crate is a
    /// module of its folder too.
    fn order(&self, folder: &Module) -> BTreeMap<&str, BTreeMap<String, String>> {
        let within = |m: &Module| -> Option<String> {
            let root = if folder.is_empty() { Some("the crate's root".to_owned()) } else { None };
            m.strip_prefix(&folder[..]).and_then(|rest| rest.first().cloned().or(root))
        };
        let mut edges: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
        for (module, uses) in &self.0 {
            let Some(from) = module.get(folder.len()).filter(|_| module.starts_with(folder)) else {
                continue;
            };
            for used in uses {
                if let Some(to) = within(&self.target(&used.path, 8)).filter(|to| to != from) {
                    let place = format!("{} uses {}", module.join("/"), used.path.join("::"));
                    edges.entry(from).or_default().insert(to, place);
                }
            }
        }
        edges
    }
}

/// A circle of uses: the places.
fn circle(order: &BTreeMap<&str, BTreeMap<String, String>>) -> Option<Vec<String>> {
    // Modules that use only such as were removed are in no circle.
    let mut unsorted: BTreeSet<&str> = order.keys().copied().collect();
    let used = |m: &str, unsorted: &BTreeSet<&str>| {
        order[m]
            .iter()
            .find(|(to, _)| unsorted.contains(to.as_str()) || *to == "the crate's root")
            .map(|(to, at)| (to.clone(), at.clone()))
    };
    while let Some(m) = unsorted.iter().copied().find(|m| used(m, &unsorted).is_none()) {
        unsorted.remove(m);
    }
    let mut at = (*unsorted.first()?).to_owned();
    let mut seen: Vec<(String, String)> = Vec::new();
    while let Some((to, place)) = used(&at, &unsorted).filter(|_| seen.iter().all(|(m, _)| *m != at)) {
        seen.push((at, place));
        at = to;
        if at == "the crate's root" {
            return Some(vec![seen.pop()?.1 + ", which the root of the crate defines"]);
        }
    }
    Some(seen.into_iter().skip_while(|(m, _)| *m != at).map(|(_, place)| place).collect())
}

#[test]
fn modules_of_a_folder_have_an_order() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let mut names: Vec<String> =
        fs::read_dir(&crates).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|n| !EXEMPT.contains(&n.as_str()));
    assert!(names.len() > 15, "the crates were not found: {names:?}");
    names.sort();
    let (mut found, mut uses) = (Vec::new(), 0);
    for name in names {
        let one = Crate::read(&crates.join(&name).join("src"));
        let folders: BTreeSet<Module> =
            one.0.keys().filter_map(|m| Some(m.split_last()?.1.to_vec())).collect();
        for folder in folders {
            let order = one.order(&folder);
            uses += order.values().map(BTreeMap::len).sum::<usize>();
            if let Some(places) = circle(&order) {
                found.push(format!(
                    "{name}: no order of modules, as each of these needs the next:\n  {}",
                    places.join("\n  ")
                ));
            }
        }
    }
    assert!(uses > 500, "only {uses} uses were found");
    assert!(found.is_empty(), "{}", found.join("\n"));
}
