//! Where paths lead, and where they do not.
use super::{finish, volume};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

#[test]
fn symbolic_links_stay_inside_the_directory() {
    let (volume, device) = volume();
    volume.create_dir_all("/jail/below").unwrap();
    volume.write("/secret", "").unwrap();
    volume.write("/jail/own", "own").unwrap();
    for (target, link) in [("/own", "/jail/absolute"), ("../../own", "/jail/below/relative")] {
        volume.symlink(target, link).unwrap();
    }
    volume.symlink("../secret", "/jail/escape").unwrap();
    let jail = volume.open_dir("jail").unwrap();
    assert_eq!(jail.read("absolute").unwrap(), b"own");
    assert_eq!(jail.read("below/relative").unwrap(), b"own");
    assert_eq!(jail.read("../../../below/../own").unwrap(), b"own");
    assert_eq!(jail.read("escape").unwrap_err().kind(), ErrorKind::NotFound);
    assert!(volume.exists("/jail/escape").unwrap());
    assert_eq!(jail.canonicalize("below/relative").unwrap(), Path::new("/own"));
    // From the volume's root the absolute target is another one.
    assert!(!volume.exists("/jail/absolute").unwrap());
    drop(jail);
    finish(volume, &device);
}

#[test]
fn a_moved_directory_is_no_way_out() {
    let (volume, device) = volume();
    volume.create_dir_all("/a/b/c").unwrap();
    volume.write("/a/file", "").unwrap();
    let b = volume.open_dir("/a/b").unwrap();
    let c = b.open_dir("c").unwrap();
    volume.rename("/a/b/c", "/moved").unwrap();
    assert!(!c.exists("../a").unwrap() && !b.exists("c").unwrap() && !b.exists("../file").unwrap());
    drop((b, c));
    finish(volume, &device);
}

#[test]
fn loops_end() {
    let (volume, device) = volume();
    volume.symlink("two", "/one").unwrap();
    volume.symlink("one", "/two").unwrap();
    let looped = volume.metadata("/one").unwrap_err();
    assert_eq!((looped.errno(), volume.read_link("/one").unwrap().as_path()), (40, Path::new("two")));
    assert_eq!(looped.to_string(), "cannot look up /one: too many symbolic links");
    finish(volume, &device);
}

#[test]
fn paths_are_bytes() {
    let (volume, device) = volume();
    let odd = Path::new(OsStr::from_bytes(b"/caf\xe9\n"));
    volume.write(odd, "odd").unwrap();
    let names: Vec<_> = volume.read_dir("/").unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, [OsStr::from_bytes(b"caf\xe9\n")]);
    assert_eq!(volume.read("/a\0b").unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(volume.write(format!("/{}", "n".repeat(256)), "").unwrap_err().errno(), 36);
    finish(volume, &device);
}

#[test]
fn what_is_in_the_way_is_named() {
    let (volume, device) = volume();
    volume.write("/file", "").unwrap();
    volume.symlink("target", "/dangling").unwrap();
    for (path, kind) in [
        ("/file/below", ErrorKind::NotADirectory),
        ("/file/", ErrorKind::NotADirectory),
        ("/file/..", ErrorKind::NotADirectory),
        ("/missing/below", ErrorKind::NotFound),
        ("/dangling", ErrorKind::NotFound),
    ] {
        let refused = volume.metadata(path).unwrap_err();
        assert_eq!((refused.kind(), refused.path()), (kind, Some(Path::new(path))));
    }
    assert_eq!(volume.write("/new/", "").unwrap_err().kind(), ErrorKind::IsADirectory);
    assert_eq!(volume.remove_dir("/").unwrap_err().kind(), ErrorKind::ResourceBusy);
    assert_eq!(volume.remove_dir("/x/..").unwrap_err().kind(), ErrorKind::InvalidInput);
    // As with open(2), the target is created.
    volume.write("/dangling", "made").unwrap();
    assert_eq!(volume.read("/target").unwrap(), b"made");
    finish(volume, &device);
}
