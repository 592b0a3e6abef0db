//! Images edited without a mount, and by `segno shell`: the judges are coreutils and attr on a mount of another image.
use super::{Scratch, can_mount, output};
use segno_testkit::f2fs_tools::assert_clean;
use std::path::Path;
use std::process::{Command, Output};

/// Commands with the words that both have: `mkdir -p a` runs mkdir(1) in a mount, and `segno mkdir IMAGE -p a`.
const STEPS: &[&str] = &[
    "mkdir d d/sub",
    "mkdir d",
    "mkdir -p d/x/y/z d",
    "mkdir -m 1777 tmp",
    "mkdir -m u=rwx,go= private",
    "mkdir -p -m 700 p/q",
    "mkdir missing/x",
    "touch a b c d/f 'with space' -- -dash",
    "touch -c none",
    "touch missing/x",
    "touch -d '2001-02-03 04:05:06.5' a d/sub",
    "touch -d @1000000000 b",
    "touch -a -d 2002-01-01 c",
    "touch -m -d 2003-01-01T00:00:00Z c",
    "touch -t 200102030405.06 d/f",
    "touch -t 0102030405.06 'with space'",
    "ln a hard",
    "ln -s target link",
    "ln -s ../a d/up",
    "ln a d",
    "ln a b",
    "ln -f a b",
    "ln -s x link",
    "ln -sf other link",
    "ln link link-of-link",
    "touch -h -d 2004-05-06 link",
    "touch -h -d 2004-05-06 nothing",
    "touch -r d/sub b",
    "touch -h -r link d/up",
    "touch -a -r link hard || :",
    "touch -r nothing b",
    "ln a a",
    "ln -f a a",
    "ln d of-directory",
    "ln none x",
    "ln hard c d/sub",
    "ln -sf c c",
    "ln -sf d/sub/../../c c",
    "ln -s b none/",
    "ln -s b d/none/",
    "ln -s . d/.none/.",
    "ln -s b c/.",
    "ln -s /etc /usr d/sub",
    "mv c moved",
    "mv moved d",
    "mv d/moved d/sub/back",
    "mv none x",
    "mv a none/",
    "mv a none/.",
    "mv -f a b/.",
    "mv d/x none/.",
    "mv d/x renamed/",
    "mv renamed d/x",
    "mv -n 'with space' a || :",
    "mv a d/sub/back/x",
    "mv a a",
    "mv a ./a",
    "mv d d/sub",
    "mv d/sub b",
    "mv b d/sub",
    "mkdir e1 e2",
    "mv e1 e2",
    "touch one two three",
    "mv one two three e2",
    "mv one two three",
    "mv a d/a",
    "mv -f d/a hard",
    "mv e2/one e2/two",
    "chmod 640 hard",
    "chmod -R u=rwX,go=rX d",
    "chmod g+s d",
    "chmod 755 d",
    "chmod u+s,a+x e2/two",
    "chmod o-x,a+t tmp",
    "chmod -w d/f || :",
    "chmod 600 link",
    "chmod 600 d/up",
    "chmod -R 700 e2 private",
    "chmod 999 hard",
    "chmod -x hard none",
    "chmod u+s,g+s,a+x e2/three",
    "chown 1000:100 hard e2/two",
    "chown :50 d/f",
    "chown 7 d",
    "chown -h 5:5 link",
    "chown 6:6 link",
    "chown 8 e2/three",
    "chown -R 9:9 d/sub",
    "setfattr -n user.a -v text d/f",
    "setfattr -n user.b -v 0x0102ff d/f",
    "setfattr -n user.c -v 0sAAEC d/f",
    "setfattr -n user.d -v '\"quo\\\"te\\012\"' d/f",
    "setfattr -n user.e d/f",
    "setfattr -n trusted.t -v 'a b' d",
    "setfattr -n user.gone -v 1 d/f",
    "setfattr -x user.gone d/f",
    "setfattr -x user.none d/f",
    "setfattr -n odd -v 1 d/f",
    "setfattr -h -n trusted.l -v x link",
    "getfattr d/f",
    "getfattr -d d/f hard",
    "getfattr -d -m - d",
    "getfattr -n user.b d/f",
    "getfattr -n user.none d/f",
    "getfattr -d -m '[bc]$' d/f",
    "getfattr -h -d -m trusted link",
    "rm none",
    "rm -f none",
    "rm d",
    "rm d/f/",
    "rm d/f/.",
    "rm -r d/f/.",
    "rm -f d/f/none",
    "rm -rf d/.",
    "rm -rf d/sub/..",
    "rm -rf d/sub/.",
    "rm -r d/x",
    "rm link link-of-link",
    "rm -rf p tmp none",
    "rm -- -dash",
    "rm d/f d/sub",
    "setfattr -n user.a -v 'of a directory' d/sub",
];

/// Where commands run, as the first lines of a script.
fn run(prelude: &str, command: &str, dir: &Path) -> Output {
    let script = format!("umask 022; cd \"$0\" || exit 99\n{prelude}\n{command}");
    Command::new("sh").args(["-c", &script]).arg(dir).env("TZ", "UTC").env("LC_ALL", "C").output().unwrap()
}

/// Paths, attributes and, of times that were set, the times.
fn tree(image: &str, dir: &Path) -> String {
    output(&["mount", image, dir.to_str().unwrap()]);
    let listing = "find . -printf '%P|%y|%m|%U:%G|%n|%l|%s' \\( ! -newermt 2010-01-01 -printf '|%T@' -o -true \\) -printf '\\n' | sort
        getfattr -P -R -h -d -m - .";
    let found = run("", listing, dir);
    output(&["umount", dir.to_str().unwrap()]);
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    String::from_utf8(found.stdout).unwrap()
}

#[test]
fn commands_on_an_image_do_what_coreutils_do_on_a_mount() {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        return;
    }
    let (mounted, edited, shelled) = (Scratch::new(), Scratch::new(), Scratch::new());
    let dir = mounted.path("mnt");
    std::fs::create_dir(&dir).unwrap();
    let (program, image) = (env!("CARGO_BIN_EXE_segno"), edited.image());
    let names = ["mkdir", "touch", "ln", "mv", "chmod", "chown", "setfattr", "getfattr", "rm"];
    let ours: String =
        names.iter().map(|name| format!("{name}() {{ {program} {name} {image} \"$@\"; }}\n")).collect();
    output(&["mount", &mounted.image(), dir.to_str().unwrap()]);
    let mut wrong = Vec::new();
    for step in STEPS {
        let [theirs, ours] =
            [("", dir.as_path()), (&ours, edited.dir.path())].map(|(prelude, dir)| run(prelude, step, dir));
        let differs = theirs.status.success() != ours.status.success() || theirs.stdout != ours.stdout;
        // 2 is a command line that is not accepted.
        if differs || ours.status.code().is_none_or(|code| code > 2) {
            wrong.push(format!("{step}: {theirs:?} against {ours:?}"));
        }
    }
    output(&["umount", dir.to_str().unwrap()]);
    assert!(wrong.is_empty(), "{wrong:#?}");
    let expected = tree(&mounted.image(), &dir);
    assert_eq!(tree(&image, &dir), expected);
    // The same commands on one open volume.
    let script = STEPS.iter().map(|step| step.trim_end_matches(" || :")).collect::<Vec<_>>().join("\n");
    let done = Command::new(program).args(["shell", "-k", "-c", &script, &shelled.image()]).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert_eq!(tree(&shelled.image(), &dir), expected);
    for scratch in [&edited, &shelled] {
        assert_clean("after all commands", &scratch.path("image"));
        assert!(output(&["check", &scratch.image()]).ends_with("clean\n"));
    }
}
