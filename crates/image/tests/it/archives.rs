//! Tar archives as source: all forms of headers, and hostile ones.
use super::TestDir;
use super::layouts::with;
use segno_format::Features;
use segno_image::{BuildOptions, Exclude, ExtractOptions, OpenImage, Source, Target, extract};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// An archive that is written byte by byte, so that it can be wrong.
#[derive(Default)]
pub struct Archive(pub Vec<u8>);

impl Archive {
    fn header(&mut self, path: &str, kind: u8, size: u64, link: &str) {
        let mut block = [0u8; 512];
        let mut put = |at: usize, text: &[u8]| block[at..at + text.len()].copy_from_slice(text);
        put(0, &path.as_bytes()[..path.len().min(100)]);
        put(100, b"0000644\x000000000\x000000000\x00");
        put(124, format!("{size:011o}\0").as_bytes());
        put(136, b"00000000144\0");
        put(148, b"        ");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u32 = block.iter().map(|&b| u32::from(b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&block);
    }

    fn data(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
    }

    pub fn entry(&mut self, path: &str, kind: u8, link: &str) {
        self.header(path, kind, 0, link);
    }

    pub fn file(&mut self, path: &str, bytes: &[u8]) {
        self.header(path, b'0', bytes.len() as u64, "");
        self.data(bytes);
    }

    pub fn link(&mut self, path: &str, to: &str) {
        self.entry(path, b'1', to);
    }

    pub fn extended(&mut self, kind: u8, bytes: &[u8]) {
        self.header("extended", kind, bytes.len() as u64, "");
        self.data(bytes);
    }

    pub fn with_records(&mut self, path: &str, records: &[(&str, &str)], bytes: &[u8]) {
        let text: String = records
            .iter()
            .map(|(k, v)| {
                let rest = k.len() + v.len() + 3;
                let len = (rest + 1..).find(|n| n - n.to_string().len() == rest).unwrap();
                format!("{len} {k}={v}\n")
            })
            .collect();
        self.extended(b'x', text.as_bytes());
        self.file(path, bytes);
    }

    pub fn save(mut self, temp: &TestDir, name: &str) -> Source {
        self.0.extend_from_slice(&[0; 1024]);
        self.save_cut(temp, name)
    }

    fn save_cut(self, temp: &TestDir, name: &str) -> Source {
        std::fs::write(temp.path(name), self.0).unwrap();
        Source::of_path(&temp.path(name)).unwrap()
    }
}

/// The error names a command that works.
#[test]
fn other_compressors_are_named() {
    let temp = TestDir::new();
    for (tool, magic) in [("zstd", &b"\x28\xB5\x2F\xFD\x04\x58"[..]), ("xz", b"\xFD7zXZ\0\0\x04")] {
        let source = Archive(magic.to_vec()).save(&temp, "archive");
        let refused = temp.try_build(&source, "image", &with(Features::empty())).unwrap_err().to_string();
        let name = temp.path("archive");
        let wanted = format!(
            "{} is compressed with {tool}, which is not read: use `{tool} -dc ARCHIVE | segno build - IMAGE`",
            name.display()
        );
        assert_eq!(refused, wanted);
    }
}

#[track_caller]
fn refusal(make: impl FnOnce(&mut Archive)) -> String {
    let temp = TestDir::new();
    let mut archive = Archive::default();
    make(&mut archive);
    let source = archive.save(&temp, "archive");
    temp.try_build(&source, "image", &with(Features::empty())).unwrap_err().to_string()
}

#[test]
fn archives_that_lie_are_refused_with_entry_and_place() {
    type Corruption<'a> = &'a dyn Fn(&mut Archive);
    let cases: [(Corruption<'_>, &str); 13] = [
        (&|a| a.file("../outside", b"x"), "leads out of the tree"),
        (&|a| a.file("a/../../b", b"x"), "leads out of the tree"),
        (&|a| a.link("x", "../../etc/passwd"), "leads out of the tree"),
        (&|a| a.link("x", "later"), "a hard link to later, which is no file before it"),
        (
            &|a| {
                a.entry("way", b'2', "/tmp");
                a.file("way/file", b"x");
            },
            "way on its way is no directory",
        ),
        (
            &|a| {
                a.file("dir/file", b"x");
                a.file("dir", b"x");
            },
            "it would replace a directory that is not empty",
        ),
        (&|a| a.header("large", b'0', 1 << 32, ""), "the archive ends before the data"),
        (&|a| a.header("name", b'L', 1 << 30, ""), "an extended header has 1073741824 bytes"),
        (&|a| a.extended(b'x', b"99 path=a\n"), "a record without length, key and value"),
        (&|a| a.with_records("x", &[("VENDOR.secret", "y")], b""), "VENDOR.secret is \"y\" is not supported"),
        (
            &|a| {
                let map = [("GNU.sparse.size", "9000000000000000000"), ("GNU.sparse.map", "5,3,4,1")];
                a.with_records("x", &map, b"data");
            },
            "the parts of a sparse file overlap or leave it",
        ),
        (&|a| a.entry("x", b'M', ""), "entries of type 'M' are not supported"),
        (&|a| a.data(&[7; 512]), "is no octal number"),
    ];
    for (make, why) in cases {
        let said = refusal(make);
        assert!(said.contains(why) && said.contains("archive, entry "), "{said}");
    }
}

#[test]
fn a_truncated_archive_is_refused() {
    for cut in [0, 100, 512, 700, 1024] {
        let temp = TestDir::new();
        let mut archive = Archive::default();
        archive.file("one", &[1; 300]);
        archive.file("two", &[2; 300]);
        archive.0.truncate(2048 - cut);
        let said = temp
            .try_build(&archive.save_cut(&temp, "archive"), "image", &with(Features::empty()))
            .unwrap_err()
            .to_string();
        assert!(said.contains("the archive"), "{cut}: {said}");
    }
}

#[test]
fn absolute_paths_and_dots_are_paths_of_the_volume() {
    let temp = TestDir::new();
    let mut archive = Archive::default();
    archive.file("/etc/./passwd", b"root");
    archive.file("./etc//passwd", b"later");
    archive.entry("etc/", b'0', "");
    archive.entry("lib", b'2', "/usr/lib");
    let source = archive.save(&temp, "archive");
    temp.build(&source, "image", &with(Features::RO));
    temp.extract("image", "back", &Default::default());
    assert_eq!(temp.bytes("back/etc/passwd"), b"later");
    assert_eq!(temp.path("back/lib").read_link().unwrap().to_str(), Some("/usr/lib"));
}

#[test]
fn extended_headers_say_what_they_mean() {
    let temp = TestDir::new();
    let mut archive = Archive::default();
    archive.extended(b'g', b"14 mtime=77.5\n19 SCHILY.xattr.u=\n".split_at(14).0);
    let long = "d/".repeat(120) + "file";
    archive.with_records("short", &[("path", &long), ("mtime", "5.000000007")], b"long");
    archive.file("global", b"");
    archive.extended(b'L', long.replace("file", "gnu\0").as_bytes());
    archive.file("short", b"gnu");
    archive.with_records(
        "attributes",
        &[
            ("SCHILY.xattr.user.plain", "v\nw"),
            ("LIBARCHIVE.xattr.user.with%20blank", "aGVsbG8"),
            ("RHT.security.selinux", "u:object_r:x:s0"),
            ("SCHILY.acl.access", "user::rw-,group::r--,other::---,user:7:r--,mask::r--"),
        ],
        b"",
    );
    let source = archive.save(&temp, "archive");
    temp.build(&source, "image", &BuildOptions { time: None, ..with(Features::empty()) });
    let manifest = temp.path("manifest");
    let options = ExtractOptions { manifest: Some(manifest), ..ExtractOptions::default() };
    temp.extract("image", "back", &options);
    let at = |name: &str| {
        let meta = temp.path("back").join(name).metadata().unwrap();
        (meta.mtime(), meta.mtime_nsec())
    };
    assert_eq!(at(&long), (5, 7));
    assert_eq!(at("global"), (77, 500_000_000));
    assert_eq!(temp.bytes(&format!("back/{}", long.replace("file", "gnu"))), b"gnu");
    let manifest = String::from_utf8(temp.bytes("manifest")).unwrap();
    let line = manifest.lines().find(|l| l.contains("\"attributes\"")).unwrap();
    for part in [
        "\"user.plain\":\"dgp3\"",
        "user.with\\\\040blank\":\"aGVsbG8=\"",
        "security.selinux",
        "system.posix_acl_access",
    ] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

/// For example the headers of TWRP.
#[test]
fn extended_headers_of_other_programs_are_left_out_on_request() {
    let temp = TestDir::new();
    let mut archive = Archive::default();
    archive.extended(b'g', b"16 TWRP.all=yes\n");
    archive.with_records("file", &[("TWRP.security.fscrypt", "0"), ("mtime", "5")], b"content");
    let source = archive.save(&temp, "archive");
    let build = |patterns: &[&str]| {
        let ignored_headers = patterns.iter().map(|p| Exclude::regex(p).unwrap()).collect();
        temp.try_build(
            &source,
            "image",
            &BuildOptions { time: None, ignored_headers, ..with(Features::empty()) },
        )
    };
    for patterns in [&[][..], &["^security"], &["^TWRP.all$"], &["^TWRP.security"]] {
        let said = build(patterns).unwrap_err().to_string();
        assert!(
            said.contains("extended header TWRP.") && said.contains("--ignore-header"),
            "{patterns:?}: {said}"
        );
    }
    build(&["^TWRP"]).unwrap();
    temp.extract("image", "back", &Default::default());
    assert_eq!(temp.bytes("back/file"), b"content");
    assert_eq!(temp.path("back/file").metadata().unwrap().mtime(), 5);
}

/// The system's tar writes all forms of sparse files; each is read back.
#[test]
fn gnu_tar_archives_hold_the_same_tree_as_the_directory() {
    let temp = TestDir::new();
    super::layouts::plant(&temp, "tree");
    temp.build(&temp.of_dir("tree"), "direct", &with(Features::EXTRA_ATTR));
    for (i, format) in [
        &["--format=gnu"][..],
        &["--format=posix"],
        &["--format=gnu", "-S"],
        &["--format=posix", "-S"],
        &["--format=posix", "-S", "--sparse-version=0.1"],
        &["--format=posix", "-z", "-S"],
    ]
    .iter()
    .enumerate()
    {
        // Without -S the hole of 7 GiB would be stored.
        let exclude: &[&str] = if format.contains(&"-S") { &[] } else { &["--exclude=holes"] };
        let archive = temp.path(&format!("archive{i}"));
        let made = Command::new("tar")
            .args(*format)
            .args(exclude)
            .args(["-cf", archive.to_str().unwrap(), "-C", temp.path("tree").to_str().unwrap(), "."])
            .output()
            .unwrap();
        assert!(made.status.success(), "{made:?}");
        let source = Source::of_path(&archive).unwrap();
        temp.build(&source, "from tar", &with(Features::EXTRA_ATTR));
        if exclude.is_empty() {
            temp.assert_same("direct", "from tar");
        }
        std::fs::remove_file(archive).unwrap();
    }
}

#[test]
fn an_archive_of_an_image_is_read_by_tar_and_gives_the_image_again() {
    let temp = TestDir::new();
    super::layouts::plant(&temp, "tree");
    temp.build(&temp.of_dir("tree"), "image", &with(Features::RO));
    let archive = |image: &str, name: &str| {
        let mut file = std::fs::File::create(temp.path(name)).unwrap();
        extract(
            OpenImage::open(&temp.path(image), &[], None).unwrap(),
            Target::Tar(&mut file),
            &ExtractOptions::default(),
            &mut |_| {},
        )
        .unwrap();
    };
    archive("image", "one.tar");
    temp.build(&Source::of_path(&temp.path("one.tar")).unwrap(), "again", &with(Features::RO));
    temp.assert_same("image", "again");
    archive("again", "two.tar");
    temp.assert_same("one.tar", "two.tar");
    let back = temp.dir("back");
    let unpacked = Command::new("tar")
        .args(["-xf", temp.path("one.tar").to_str().unwrap(), "-C", back.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(unpacked.status.success(), "{unpacked:?}");
    assert_eq!(super::layouts::contents(&temp, "back"), super::layouts::contents(&temp, "tree"));
}
