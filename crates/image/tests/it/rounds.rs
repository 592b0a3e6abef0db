//! Extraction and build repeated: nothing changes.
use super::TestDir;
use super::layouts::{compressed, plant, with, without_compressed_holes};
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, mknodat};
use segno_codec::Algorithm;
use segno_format::Features;
use segno_image::{BuildOptions, ExtractOptions, Metadata, Source};
use std::os::unix::fs::{PermissionsExt, chown};

fn all_features() -> Features {
    Features::EXTRA_ATTR | Features::PRJQUOTA | Features::CASEFOLD | Features::INODE_CHKSUM
}

fn listed(temp: &TestDir) -> ExtractOptions {
    ExtractOptions {
        mount_point: "vendor".into(),
        fs_config: Some(temp.path("fs_config")),
        file_contexts: Some(temp.path("file_contexts")),
        manifest: Some(temp.path("manifest")),
        ..ExtractOptions::default()
    }
}

/// 100 rounds in all, over four layouts; `ROUNDS` is the number for each.
#[test]
fn rounds_of_extraction_and_build_change_nothing() {
    let temp = TestDir::new();
    plant(&temp, "tree");
    decorate(&temp);
    let rules = temp.path("rules");
    std::fs::write(&rules, "^deep/er/empty$ flags=+F projid=7\n^text flags=+A projid=9\n").unwrap();
    let with_rules = |mut options: BuildOptions| {
        options.metadata.rules.push(rules.clone());
        options.time = None;
        options
    };
    let rounds = std::env::var("ROUNDS").map_or(25, |n| n.parse().unwrap());
    let setups = [
        with(all_features()),
        with(all_features() | Features::RO),
        compressed(all_features() | Features::RO, Algorithm::Zstd, 0, 4),
        compressed(all_features(), Algorithm::Lz4, 0, 2),
    ];
    for options in setups {
        let options = without_compressed_holes(with_rules(options));
        temp.build(&temp.of_dir("tree"), "first", &options);
        let mut lists: Option<Vec<Vec<u8>>> = None;
        for round in 0..rounds {
            let image = if round == 0 { "first" } else { "image" };
            let _absent = std::fs::remove_dir_all(temp.path("back"));
            temp.extract(image, "back", &listed(&temp));
            let now = ["fs_config", "file_contexts", "manifest"].map(|f| temp.bytes(f)).to_vec();
            assert!(*lists.get_or_insert_with(|| now.clone()) == now, "round {round}");
            let manifest = Some(temp.path("manifest"));
            let metadata = Metadata { manifest, ..Metadata::default() };
            let again = BuildOptions { metadata, ..options.clone() };
            if round == rounds - 1 {
                temp.build(&temp.of_dir("back"), "image", &again);
            } else {
                temp.try_build(&temp.of_dir("back"), "image", &again).unwrap();
            }
            temp.assert_same("first", "image");
        }
        // The image itself is a source too.
        let metadata = Metadata::default();
        temp.build(&Source::Image(temp.path("first")), "copy", &BuildOptions { metadata, ..options });
        temp.assert_same("first", "copy");
    }
}

/// Sets owners, capabilities, labels and devices, as far as this host permits.
fn decorate(temp: &TestDir) {
    let tree = temp.path("tree");
    let capability = [1u8, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let set = |name: &str, key: &str, value: &[u8]| {
        // Not all file systems, and not all users.
        let _unsupported = lsetxattr(tree.join(name), key, value, XattrFlags::empty());
    };
    set("text1.txt", "user.origin", b"camera");
    set("text4097.txt", "user.large", &[b'v'; 3000]);
    set("noise4096.so", "security.capability", &capability);
    set("deep", "security.selinux", b"u:object_r:vendor_file:s0");
    let mode = std::fs::Permissions::from_mode(0o4511);
    std::fs::set_permissions(tree.join("text3400.txt"), mode).unwrap();
    if rustix::process::geteuid().is_root() {
        chown(tree.join("text4096.txt"), Some(70_000), Some(80_000)).unwrap();
        let device = rustix::fs::makedev(300, 70_000);
        mknodat(CWD, tree.join("device"), FileType::BlockDevice, Mode::RUSR, device).unwrap();
        std::fs::hard_link(tree.join("device"), tree.join("deep/device too")).unwrap();
        mknodat(CWD, tree.join("socket"), FileType::Socket, Mode::RUSR, 0).unwrap();
    }
}

/// Without a manifest a build takes owners and labels from the two lists.
#[test]
fn lists_of_an_extraction_label_the_next_image() {
    let temp = TestDir::new();
    let tree = temp.dir("tree");
    for name in ["plain", "with blank", "back\\slash", "a.b+c(d)", "l\u{f6}we"] {
        std::fs::write(tree.join(name), name).unwrap();
    }
    let contexts = temp.path("contexts");
    std::fs::write(&contexts, "/vendor(/.*)? u:object_r:v:s0\n/vendor/plain u:object_r:p:s0\n").unwrap();
    let config = temp.path("config");
    std::fs::write(
        &config,
        "vendor 0 2000 0755\nvendor/plain 0 2000 0750 capabilities=0x1400\nvendor/with\\040blank 70000 1 644\n",
    )
    .unwrap();
    let metadata = Metadata {
        mount_point: "vendor".into(),
        fs_config: vec![config],
        fs_config_default: Some((1, 2, 0o700, 0o600)),
        file_contexts: vec![contexts],
        ..Metadata::default()
    };
    temp.build(&temp.of_dir("tree"), "one", &BuildOptions { metadata, ..with(Features::RO) });
    temp.extract("one", "back", &listed(&temp));
    let metadata = Metadata {
        mount_point: "/vendor/".into(),
        fs_config: vec![temp.path("fs_config")],
        file_contexts: vec![temp.path("file_contexts")],
        ..Metadata::default()
    };
    temp.build(&temp.of_dir("tree"), "two", &BuildOptions { metadata, ..with(Features::RO) });
    temp.assert_same("one", "two");
}
