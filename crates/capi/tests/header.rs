//! include/segno.h is the output of cbindgen for the sources, and include/segno.3 is the header as a manual
//! page.
#![allow(clippy::unwrap_used, clippy::panic)]
mod page;

use std::path::Path;
use std::process::Command;

#[test]
fn header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).unwrap();
    assert_current("segno.h", &made);
    assert_current("segno.3", &page::of_header(&made));
}

fn assert_current(name: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, made).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default() == made;
    assert!(current, "include/{name} differs: UPDATE_DOCS=1 cargo test -p segno-capi header");
}

/// Names of functions, as the compiled library's sources export them.
fn exported() -> Vec<String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files =
        std::fs::read_dir(sources).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()));
    let text: String = files.map(Result::unwrap).collect();
    let name = |after: &str| after.split('(').next().unwrap().to_owned();
    let mut names: Vec<String> = text.split("extern \"C\" fn ").skip(1).map(name).collect();
    names.sort();
    names
}

#[test]
fn the_manual_page_has_every_function_and_mandoc_accepts_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/segno.3");
    let page = std::fs::read_to_string(&path).unwrap();
    let names = page.lines().skip_while(|line| *line != ".SH NAME").nth(1).unwrap();
    let mut listed: Vec<_> = names.split(" \\- ").next().unwrap().split(", ").skip(1).collect();
    listed.sort_unstable();
    assert_eq!(listed, exported());
    let lint = Command::new("mandoc").args(["-T", "lint", "-W", "warning"]).arg(&path).output().unwrap();
    assert!(lint.status.success(), "{}", String::from_utf8_lossy(&lint.stdout));
    let shown = Command::new("mandoc").args(["-T", "utf8"]).arg(&path).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap().replace(|c: char| c.is_whitespace(), " ");
    assert!(shown.contains("Makes everything durable that was done before this call."));
}
