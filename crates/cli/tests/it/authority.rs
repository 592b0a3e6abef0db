//! Settings of a mount by users of the machine; `segno-fuse` tests `authority` have the table of operations and callers.
use super::{Scratch, can_mount};
use segno_testkit::OPEN_FUSE;
use std::process::{Command, Output};

/// Options of setpriv(1) that leave root no capability.
const NO_CAPABILITIES: &str = "setpriv --bounding-set=-all --inh-caps=-all";
/// A program that all users reach, the image and directory of a user, and his identity.
const AS_USER: &str = "cp $S $D/segno && chown 65534 $I $M || exit 99; \
                       U=\"setpriv --reuid=65534 --regid=65534 --clear-groups\"; S=$D/segno;";

/// Runs a shell script with mounts of each transport, `-o $T`, in new mount namespaces; less if this machine cannot.
fn run(script: &str) -> Vec<Output> {
    ["classic", "io_uring"]
        .into_iter()
        .filter_map(|transport| run_on(transport, &Scratch::new(), script))
        .collect()
}

fn run_on(transport: &str, scratch: &Scratch, script: &str) -> Option<Output> {
    if !can_mount() || !rustix::process::geteuid().is_root() {
        println!("NOT TESTED: only root can become other users");
        return None;
    }
    let dir = scratch.path("mnt");
    std::fs::create_dir(&dir).unwrap();
    let (program, image) = (env!("CARGO_BIN_EXE_segno"), scratch.image());
    let names = format!("T=transport={transport} S={program} I={image} M={}; ", dir.display());
    let out = Command::new("unshare").args(["--mount", "sh", "-c", &(names + script)]).output().unwrap();
    if out.status.code() == Some(99) {
        println!("NOT TESTED: {}", String::from_utf8_lossy(&out.stderr));
        return None;
    }
    Some(out)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn root_without_capabilities_does_not_stop_a_volume() {
    let script = format!(
        "$S mount -o $T,shutdown $I $M || exit 99; for how in system trusted; do \
         {NO_CAPABILITIES} setfattr -n $how.segno.shutdown -v 2 $M; echo $?; done; \
         {NO_CAPABILITIES} $S ctl $M gc=off; echo $?; $S ctl $M shutdown gc; touch $M/file; echo $?; \
         $S ctl $M gc=off; {NO_CAPABILITIES} fstrim $M 2>/dev/null; echo $?; $S umount $M"
    );
    for out in run(&script) {
        let said = text(&out.stderr);
        let lines = "1\n1\n1\nshutdown=running\ngc=normal 0\n0\ngc=off 0\n1\n";
        assert_eq!(text(&out.stdout), lines, "{said}");
        let refused = "segno: gc=off: this needs CAP_SYS_ADMIN or, if the server of ";
        assert_eq!(said.lines().filter(|line| line.starts_with(refused)).count(), 1, "{said}");
    }
}

#[test]
fn a_shutdown_needs_its_option() {
    let script = "$S mount -o $T $I $M || exit 99; $S ctl $M shutdown=2; echo $?; touch $M/file; echo $?; $S umount $M; \
                  $S mount -o $T,shutdown $I $M && $S ctl $M shutdown=2; touch $M/other 2>/dev/null; echo $?; $S umount $M 2>/dev/null";
    for out in run(script) {
        let said = text(&out.stderr);
        assert_eq!(text(&out.stdout), "1\n0\nshutdown=shut down\n1\n", "{said}");
        let permits = " with -o shutdown to permit this\n";
        assert!(said.starts_with("segno: shutdown=2: mount ") && said.ends_with(permits), "{said}");
    }
}

/// The kernel sets no attribute there. Without the option the server still refuses it.
#[test]
fn a_mount_that_became_read_only_is_shut_down_too() {
    let script = "$S mount -o $T $I $M || exit 99; mount -o remount,ro $M; $S ctl $M shutdown=2; echo $?; $S umount $M; \
                  $S mount -o $T,shutdown $I $M && touch $M/file && mount -o remount,ro $M; $S ctl $M shutdown=9; echo $?; \
                  $S ctl $M shutdown=2; ls $M 2>/dev/null; echo $?; $S umount $M 2>/dev/null; $S ls $I";
    for out in run(script) {
        assert_eq!(text(&out.stdout), "1\n1\nshutdown=shut down\n2\nfile\n", "{}", text(&out.stderr));
    }
}

/// Its user sets what root sets on a mount of root's; other file systems get no attribute.
#[test]
fn a_server_that_is_not_roots_takes_settings_from_its_user() {
    let script = format!(
        "D=$(dirname $I); chmod 755 $D; {OPEN_FUSE} && {AS_USER} cd /; $U $S mount -o $T,auto_unmount,shutdown $I $M || exit 99; \
         P=$($U getfattr --only-values -n system.segno.server $M | cut -d' ' -f1); \
         grep -hE '^(NoNewPrivs|Seccomp):' /proc/$P/task/*/status | sort -u; $U $S ctl $M gc=off; \
         $U setfattr -n system.segno.gc -v urgent $M; $U $S ctl $M gc; \
         $U setfattr -n trusted.segno.gc -v off $M 2>/dev/null; echo $?; $U $S ctl $M shutdown=2; \
         kill -9 $P; \
         while grep -q \" $M \" /proc/self/mountinfo; do sleep 0.01; done; \
         $S ctl $D gc=off 2>/dev/null; echo $?; getfattr -d -m - $D"
    );
    for out in run(&script) {
        let lines = "NoNewPrivs:\t1\nSeccomp:\t2\ngc=off 0\ngc=urgent 0\n1\nshutdown=shut down\n1\n";
        assert_eq!(text(&out.stdout), lines, "{}", text(&out.stderr));
    }
}
