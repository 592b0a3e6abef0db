//! A file made from an image is readable only for users who may read the image: root's copy of a private
//! image does not publish it.
use super::fsck::damaged;
use super::{Scratch, output};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Commands that make the file OUT of IMAGE, or of SPARSE, which is its Android sparse form; NEW is a path for something else.
pub(super) const COMMANDS: [&[&str]; 11] = [
    &["check", "--to", "OUT", "IMAGE"],
    &["check", "-y", "--undo", "OUT", "IMAGE"],
    &["rescue", "--to-image", "OUT", "IMAGE"],
    &["rescue", "--list", "--scan", "OUT", "IMAGE"],
    &["undelete", "--scan", "OUT", "IMAGE"],
    &["extract", "--tar", "OUT", "IMAGE"],
    &["extract", "--manifest", "OUT", "IMAGE", "NEW"],
    &["extract", "--fs-config", "OUT", "IMAGE", "NEW"],
    &["build", "IMAGE", "OUT"],
    &["sparse", "pack", "IMAGE", "OUT"],
    &["sparse", "unpack", "SPARSE", "OUT"],
];

#[test]
fn a_copy_of_an_image_is_as_open_as_the_image() {
    for command in COMMANDS {
        for (given, made) in [(0o600, 0o600), (0o640, 0o640), (0o664, 0o644), (0o400, 0o600)] {
            let scratch = Scratch::new();
            let (image, path) = (scratch.image(), |name: &str| scratch.path(name).display().to_string());
            output(&["sparse", "pack", &image, &path("sparse")]);
            if ["check", "rescue"].contains(&command[0]) {
                damaged(&scratch);
            }
            for name in ["image", "sparse"] {
                set_permissions(scratch.path(name), Permissions::from_mode(given)).unwrap();
            }
            let words = command.iter().map(|word| match *word {
                "IMAGE" => image.clone(),
                "SPARSE" => path("sparse"),
                "OUT" => path("out"),
                "NEW" => path("new"),
                word => word.to_owned(),
            });
            let script = "umask 022; exec \"$@\"";
            let done = Command::new("sh")
                .args(["-c", script, "sh", env!("CARGO_BIN_EXE_segno")])
                .args(words)
                .output()
                .unwrap();
            let out = scratch.path("out");
            let found = out.metadata().unwrap_or_else(|e| panic!("{command:?}: {e}: {done:?}"));
            assert_eq!(
                format!("{:o}", found.permissions().mode() & 0o7777),
                format!("{made:o}"),
                "{command:?}"
            );
        }
    }
}
