//! The programs, and their options in all versions of f2fs-tools from 1.15 on.
use super::call::Call;
use super::tool::Effect::{Each, Level, Nothing, Only, Own, Refused, Same};
use super::tool::{Row, Tool, flag, long, with};
use super::{dump, fsck, label, mkfs, mount, sload};
use crate::exit::{self, Outcome};

/// A program of f2fs-tools, and the function that stands in for it.
pub struct Program {
    pub tool: Tool,
    pub run: fn(&Call) -> Outcome,
}

/// Exit code of a failure of all but fsck.f2fs: main returns -1.
const FAILED: u8 = 255;
/// Of a wrong command line of all but fsck.f2fs.
const USAGE: u8 = 1;

pub const PROGRAMS: &[Program] = &[
    Program {
        tool: Tool {
            name: "mkfs.f2fs",
            of_android: Some("make_f2fs"),
            options: MKFS,
            usage: USAGE,
            failed: FAILED,
        },
        run: mkfs::run,
    },
    // The original exits with 1 after a wrong command line; for fsck(8), 1 means that errors were corrected.
    Program {
        tool: Tool {
            name: "fsck.f2fs",
            of_android: Some("fsck_f2fs"),
            options: FSCK,
            usage: exit::fsck::USAGE,
            failed: exit::fsck::OPERATIONAL,
        },
        run: fsck::run,
    },
    Program {
        tool: Tool {
            name: "sload.f2fs",
            of_android: Some("sload_f2fs"),
            options: SLOAD,
            usage: USAGE,
            failed: FAILED,
        },
        run: sload::run,
    },
    Program {
        tool: Tool {
            name: "dump.f2fs",
            of_android: Some("dump_f2fs"),
            options: DUMP,
            usage: USAGE,
            failed: FAILED,
        },
        run: dump::run,
    },
    Program {
        tool: Tool { name: "f2fslabel", of_android: None, options: LABEL, usage: USAGE, failed: FAILED },
        run: label::run,
    },
    // The options of a helper of mount(8) are its own.
    Program {
        tool: Tool {
            name: "mount.f2fs",
            of_android: None,
            options: mount::OPTIONS,
            usage: USAGE,
            failed: exit::FAILED,
        },
        run: mount::run,
    },
];

const MKFS: &[Row] = &[
    with('a', Nothing),
    with('b', Only(&["4096"], "blocks have 4096 bytes")),
    with('c', Each),
    with('C', Same),
    with('d', Nothing),
    with('e', Same),
    with('E', Same),
    flag('f', Same),
    with('g', Own),
    flag('h', Own),
    long("help", false, Own),
    flag('H', Nothing),
    flag('i', Same),
    with('l', Same),
    flag('m', Same),
    with('o', Same),
    with('O', Each),
    flag('q', Same),
    flag('r', Same),
    with('R', Own),
    with('s', Same),
    with('S', Own),
    with('t', Same),
    with('T', Own),
    with('U', Same),
    flag('V', Own),
    with('w', Own),
    with('z', Same),
    with('Z', Same),
];

const FSCK: &[Row] = &[
    flag('a', Own),
    with('c', Nothing),
    with('C', Own),
    with('d', Nothing),
    flag('f', Own),
    with('g', Own),
    flag('H', Nothing),
    flag('l', Refused("`segno info IMAGE` shows superblock and checkpoint")),
    with('m', Nothing),
    flag('M', Own),
    flag('N', Own),
    with('O', Refused("a check switches no features on; leave it out")),
    flag('p', Level),
    with('q', Nothing),
    flag('S', Nothing),
    flag('t', Refused("`segno ls -R IMAGE` shows the directory tree")),
    flag('V', Own),
    flag('y', Own),
    long("dry-run", false, Own),
    long("kernel-check", false, Nothing),
    long("no-kernel-check", false, Nothing),
    long("debug-cache", false, Nothing),
    long("nolinear-lookup", true, Nothing),
    long("fault_injection", true, Refused("no faults are injected")),
    long("fault_type", true, Refused("no faults are injected")),
];

const SLOAD: &[Row] = &[
    with('a', Own),
    flag('c', Own),
    with('C', Own),
    with('d', Nothing),
    with('f', Own),
    with('i', Own),
    with('L', Own),
    with('m', Only(&["1"], "a cluster is compressed if that saves a block")),
    with('p', Nothing),
    flag('P', Own),
    flag('r', Own),
    with('s', Own),
    flag('S', Own),
    with('t', Own),
    with('T', Own),
    flag('V', Own),
    with('x', Own),
];

const DUMP: &[Row] = &[
    with('a', Own),
    with('b', Own),
    with('d', Nothing),
    flag('f', Nothing),
    flag('H', Nothing),
    with('i', Own),
    with('I', Own),
    flag('L', Nothing),
    flag('M', Own),
    with('n', Own),
    flag('N', Nothing),
    with('o', Own),
    flag('P', Own),
    flag('r', Own),
    with('s', Own),
    flag('S', Nothing),
    flag('V', Own),
    flag('y', Nothing),
];

const LABEL: &[Row] = &[flag('V', Own)];
