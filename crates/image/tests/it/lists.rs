//! Files of metadata: their effects, and refused ones.
use super::TestDir;
use super::layouts::with;
use segno_format::Features;
use segno_image::{BuildOptions, ExtractOptions, Metadata, Preserve};
use std::os::unix::fs::FileTypeExt;

fn refusal(file: &str, text: &str, options: impl FnOnce(&TestDir) -> Metadata) -> String {
    let temp = TestDir::new();
    std::fs::write(temp.dir("tree").join("known"), "").unwrap();
    std::fs::write(temp.path(file), text).unwrap();
    let options = BuildOptions { metadata: options(&temp), ..with(Features::empty()) };
    temp.try_build(&temp.of_dir("tree"), "image", &options).unwrap_err().to_string()
}

#[test]
fn lines_that_do_not_parse_name_file_and_line() {
    let config = |temp: &TestDir| Metadata { fs_config: vec![temp.path("list")], ..Metadata::default() };
    let contexts =
        |temp: &TestDir| Metadata { file_contexts: vec![temp.path("list")], ..Metadata::default() };
    let table = |temp: &TestDir| Metadata { device_tables: vec![temp.path("list")], ..Metadata::default() };
    let rules = |temp: &TestDir| Metadata { rules: vec![temp.path("list")], ..Metadata::default() };
    let manifest = |temp: &TestDir| Metadata { manifest: Some(temp.path("list")), ..Metadata::default() };
    for said in [
        refusal("list", "/ 0 0 755\n\nknown 0 zero 644\n", config),
        refusal("list", "# note\n\n/known -? label\n", contexts),
        refusal("list", "# note\n\n/known f 644 a b\n", table),
        refusal("list", "# note\n\nknown compress=fast\n", rules),
        refusal("list", "\n\n{\"path\":\"known\"}\n", manifest),
    ] {
        assert!(said.contains("list:3: "), "{said}");
    }
    let said = refusal("list", "/ 0 0 755\n", config);
    assert!(said.starts_with("the owner of 1 paths is missing in ") && said.ends_with(": /known"), "{said}");
    let said = refusal("list", "/known label\n", contexts);
    assert!(said.starts_with("the context of 1 paths is missing in ") && said.ends_with(": /"), "{said}");
}

/// As of a tree that was extracted with another mount point, or with none.
#[test]
fn lists_with_another_prefix_say_so() {
    let temp = TestDir::new();
    let tree = temp.dir("tree");
    ["a", "b", "c"].iter().for_each(|name| std::fs::write(tree.join(name), "").unwrap());
    std::fs::write(temp.path("config"), "/ 0 0 755\n").unwrap();
    std::fs::write(temp.path("contexts"), "/vendor(/.*)? label\n").unwrap();
    let config = Metadata { fs_config: vec![temp.path("config")], ..Metadata::default() };
    let contexts = Metadata { file_contexts: vec![temp.path("contexts")], ..Metadata::default() };
    for metadata in [config, contexts] {
        let options = BuildOptions { metadata, ..with(Features::empty()) };
        let said = temp.try_build(&temp.of_dir("tree"), "image", &options).unwrap_err().to_string();
        assert!(said.ends_with("begin with another prefix, which -t names"), "{said}");
    }
}

/// Each would give a volume that its own reader refuses, or would take memory without bound.
#[test]
fn names_that_no_file_can_have_and_endless_tables_are_refused() {
    let table = |temp: &TestDir| Metadata { device_tables: vec![temp.path("list")], ..Metadata::default() };
    let manifest = |temp: &TestDir| Metadata { manifest: Some(temp.path("list")), ..Metadata::default() };
    let long = "n".repeat(256);
    for (name, why) in [("a\0b", "a NUL"), ("..", "directory itself"), (&long, "255 bytes")] {
        let said = refusal("list", &format!("/{name} p 600 0 0\n"), table);
        assert!(said.contains("list:1: no file can have the name") && said.contains(why), "{said}");
        let name = name.replace('\0', "\\\\000");
        let line = format!(
            "{{\"path\":\"{name}\",\"type\":\"fifo\",\"mode\":384,\"uid\":0,\"gid\":0,\"mtime\":[0,0]}}\n"
        );
        let said = refusal("list", &line, manifest);
        assert!(said.contains("list:1: no file can have the name") && said.contains(why), "{said}");
    }
    let said = refusal("list", "/dev c 600 0 0 1 0 0 0 4294967295\n", table);
    assert!(said.contains("list:1: 4294967295 files in one line are too many"), "{said}");
    let line = "{\"path\":\"again\",\"type\":\"directory\",\"mode\":0,\"uid\":0,\"gid\":0,\"mtime\":[0,0],\"link\":\"\"}\n";
    let said = refusal("list", line, manifest);
    assert!(said.contains("list:1: /again would be a further name of a directory"), "{said}");
}

#[test]
fn a_device_table_makes_devices_without_root() {
    let temp = TestDir::new();
    std::fs::write(temp.dir("tree").join("known"), "").unwrap();
    temp.dir("tree/etc");
    let table = "# name type mode uid gid major minor start inc count\n\
        /dev d 755 0 0 - - - - -\n/dev/console c 622 0 5 5 1 - - -\n/dev/tty c 666 0 5 4 10 3 2 4\n\
        /dev/pipe p 600 1 1\n/known f 4755 70000 80000\n|xattr cap_net_raw+ep\n/etc r 750 9 9\n/none F 644 0 0\n";
    std::fs::write(temp.path("table"), table).unwrap();
    let metadata = Metadata { device_tables: vec![temp.path("table")], ..Metadata::default() };
    temp.build(&temp.of_dir("tree"), "image", &BuildOptions { metadata, ..with(Features::empty()) });
    let manifest = temp.path("manifest");
    let (manifest, preserve) = (Some(manifest), Preserve::DEVICES);
    temp.extract("image", "back", &ExtractOptions { manifest, preserve, ..ExtractOptions::default() });
    let manifest = String::from_utf8(temp.bytes("manifest")).unwrap();
    let line = |path: &str| {
        let start = format!("{{\"path\":\"{path}\"");
        manifest.lines().find(|l| l.starts_with(&start)).unwrap().to_owned()
    };
    assert!(line("dev/console").contains("\"gid\":5") && line("dev/console").contains("\"device\":[5,1]"));
    // Four names from tty3 on, minor numbers from 10 in steps of two.
    assert!(line("dev/tty6").contains("\"device\":[4,16]") && !manifest.contains("dev/tty7"), "{manifest}");
    assert!(line("known").contains("\"uid\":70000") && line("known").contains("security.capability"));
    assert!(line("etc").contains("\"mode\":488"));
    if rustix::process::geteuid().is_root() {
        let kind = temp.path("back/dev/tty3").symlink_metadata().unwrap().file_type();
        assert!(kind.is_char_device());
    }
}

#[test]
fn what_the_volume_has_no_place_for_is_refused() {
    for (rule, why) in [
        ("known flags=+A projid=3", "add -O extra_attr,project_quota"),
        (". flags=+F", "add -C utf8"),
        ("known compress=lz4", "add -O extra_attr,compression"),
    ] {
        let rules = |temp: &TestDir| {
            temp.dir("tree/folder");
            Metadata { rules: vec![temp.path("list")], ..Metadata::default() }
        };
        let said = refusal("list", rule, rules);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn names_that_differ_in_case_alone_are_refused_where_case_is_ignored() {
    let temp = TestDir::new();
    let tree = temp.dir("tree");
    for name in ["Readme", "README", "other"] {
        std::fs::write(tree.join(name), "").unwrap();
    }
    std::fs::write(temp.path("list"), "^$ flags=+F\n").unwrap();
    let metadata = Metadata { rules: vec![temp.path("list")], ..Metadata::default() };
    let options = BuildOptions { metadata, ..with(Features::CASEFOLD) };
    let said = temp.try_build(&temp.of_dir("tree"), "image", &options).unwrap_err().to_string();
    assert!(said.contains("differs from another name in nothing else"), "{said}");
    std::fs::remove_file(tree.join("README")).unwrap();
    temp.build(&temp.of_dir("tree"), "image", &options);
}
