//! include/segno.h is what cbindgen makes of the sources.
#![allow(clippy::unwrap_used, clippy::panic)]
use std::path::Path;

#[test]
fn header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_crate(root).with_config(config).generate().unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let path = root.join("include/segno.h");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default() == made;
    assert!(current, "include/segno.h differs: UPDATE_DOCS=1 cargo test -p segno-capi header");
}
