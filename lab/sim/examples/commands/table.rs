//! The commands, as scripts for sh, and the exit codes that they document.

/// One command. Its script has the variables of [`crate::measure::Job`].
pub struct Row {
    pub name: &'static str,
    pub script: &'static str,
    pub codes: &'static [i32],
}

const fn row(name: &'static str, codes: &'static [i32], script: &'static str) -> Row {
    Row { name, script, codes }
}

const DONE: &[i32] = &[0, 1];
const REFUSED: &[i32] = &[1];
/// Of fsck(8): clean, corrected, left, not possible.
const FSCK: &[i32] = &[0, 1, 4, 5, 8, 12];
/// Of a process that a write of another one ends, too: the reader of a pipe has enough.
const PIPED: &[i32] = &[0, 1, 141];

/// Mounts, lists the tree, reads some of it, writes, and unmounts. `wait` waits for the server.
const MOUNT: &str = r#"
$S mount -f $D $I $M 2>$W/server & server=$!
n=0; while kill -0 $server 2>$W/null && ! mountpoint -q $M && [ $n -lt 400 ]; do sleep 0.01; n=$((n+1)); done
if mountpoint -q $M; then
    find $M -maxdepth 4 -printf '%i %s\n' 2>/dev/null | head -n 3000 >/dev/null
    find $M -maxdepth 3 -type f -size -8M 2>/dev/null | head -n 20 | xargs -r -d '\n' head -q -c 100000 >/dev/null 2>&1
    { echo x >$M/new-file; mkdir $M/new-dir; rm -f $M/three; sync -f $M; $S stats $M; $S metrics $M; $S sync $M; $S map $M; $S report -o $N $M; } >/dev/null 2>&1
    $S umount $M >/dev/null 2>&1 || umount -l $M
fi
wait $server; code=$?
cat $W/server >&2; exit $code"#;

/// Commands on an image. Commands that write get a copy, `$C`. `journal create` writes zeros to
/// all space after the volume, so its copy is short.
pub const ON_IMAGES: &[Row] = &[
    row("info", DONE, "$S info $D $I"),
    row("label", DONE, "$S label $D $I; cp $I $C && $S label $C new"),
    row("find", DONE, "$S find --json $I"),
    row("ls -R", DONE, "$S ls -lR $D $I"),
    row("ls --json", DONE, "$S ls -R --json $D $I"),
    row("cat", DONE, "$S cat $D $I /inline /three /packed /reserved /new /a/deep /a/logged"),
    row("cat large", PIPED, "$S cat $D $I /spread | head -c 50000000"),
    row("stat", DONE, "$S stat --json $D $I /many/target"),
    row("get", DONE, "$S get $D $I / $N"),
    row("put", DONE, "cp $I $C && $S put $C $F"),
    row(
        "edit",
        DONE,
        "cp $I $C; code=0; for words in 'mkdir -p $C /new/dir' 'touch $C /three /new/file' 'chmod -R $C u+rX /' 'chown -R $C 1:2 /' \
         'ln -sf $C a /new/link' 'mv $C /new/file /new/dir' 'setfattr -n user.x -v 1 $C /inline' 'getfattr -d -m - $C /attributes' \
         'rm -r $C /many /new'; do eval $S $words || code=1; done; exit $code",
    ),
    row(
        "shell",
        DONE,
        "cp $I $C && $S shell -k -c 'ls -R; cat /inline; touch /many/*; getfattr -d /*; rm -r /a /*e*' $C",
    ),
    row("extract", DONE, "$S extract $D $I $N"),
    row(
        "extract --tar",
        DONE,
        "for path in a many spread reserved; do $S extract -f --tar $N --path /$path $D $I || code=1; done; exit $code",
    ),
    row("check", FSCK, "$S check -f $D $I"),
    row("check -n", FSCK, "$S check -f -n --json $D $I"),
    row("check --data", FSCK, "$S check -f --data $D $I"),
    row("check -a", FSCK, "cp $I $C && $S check -a $C"),
    row(
        "check -y --undo",
        FSCK,
        "cp $I $C && $S check -f -y --undo $N $C; c=$?; [ ! -e $N ] || $S check --undo $N $C || exit; exit $c",
    ),
    row("check --to", FSCK, "$S check -f -y --to $N $D $I"),
    row("rescue", DONE, "$S rescue $D $I $N"),
    row("rescue --list", DONE, "$S rescue --list --json $D $I"),
    row("rescue --to-image", DONE, "$S rescue --to-image $N $D $I"),
    row("undelete --list", DONE, "$S undelete --list --unproven $D $I"),
    row("undelete --to", DONE, "$S undelete --unproven --to $N $D $I"),
    row(
        "dump tables",
        DONE,
        "for what in sb cp nat sit 'ssa 0..20' orphans quota chain journal; do $S dump --json $D $I $what || code=1; done; exit $code",
    ),
    row(
        "dump path",
        DONE,
        "for what in 'path /spread' 'dentry /many' 'xattr /attributes' 'inode 3' 'owner 7000' 'segment 1'; do $S dump $D $I $what || code=1; done; exit $code",
    ),
    row("dump --versions", DONE, "$S dump --versions $D $I node 5; $S dump --cleared $I dentry 3"),
    row("extents", DONE, "$S extents --all --json $D --image $I /"),
    row("map", DONE, "$S map -o $N.svg $D $I"),
    row("map --json", DONE, "$S map --json $D $I"),
    row("report", DONE, "$S report -o $N $D $I"),
    row("journal info", DONE, "$S journal info $D $I"),
    row("journal replay", DONE, "cp $I $C && $S journal replay $C"),
    row("journal discard", DONE, "cp $I $C && $S journal discard $C"),
    row("journal create", DONE, "cp $I $C && truncate -s '<128M' $C && $S journal create -f $C"),
    row("journal resize", DONE, "cp $I $C && $S journal resize --size 8M $C"),
    row("journal remove", DONE, "cp $I $C && $S journal remove $C"),
    row("build", DONE, "$S build $I $N"),
    row("mkfs", DONE, "cp $I $C && $S mkfs -q $C"),
    row("mkfs -f", DONE, "cp $I $C && $S mkfs -q -f $C"),
    row("sparse pack", DONE, "$S sparse pack $I $N"),
    row(
        "sparse unpack of a volume",
        DONE,
        "$S sparse pack $I $N && $S ls -R $N >/dev/null; $S sparse unpack $N $C",
    ),
    row("mount", DONE, MOUNT),
];

/// Commands on an archive or a sparse image.
pub const ON_ARCHIVES: &[Row] = &[
    row("build archive", DONE, "$S build $I $N"),
    row("build --compress", DONE, "$S build --compress lz4 --read-only $I $N"),
    row("build --exclude", DONE, "$S build --exclude-path other --exclude-regex '^x' $I $N"),
    row("check others", &[8], "$S check -f $I"),
    row("info others", REFUSED, "$S info $I"),
    row("ls others", REFUSED, "$S ls -R $I"),
];

pub const ON_SPARSE: &[Row] = &[
    row("sparse unpack", DONE, "trap '' XFSZ; ulimit -f 4194304; $S sparse unpack $I $N"),
    row("check sparse", FSCK, "$S check -f $I"),
    row("info sparse", DONE, "$S info $I"),
    row("ls sparse", DONE, "$S ls -R $I"),
    row("rescue sparse", DONE, "$S rescue --list $I"),
    row("build sparse", DONE, "$S build $I $N"),
];

/// Commands on a volume in a bucket, whose URL is `$I`.
pub const ON_BUCKETS: &[Row] = &[
    row("store: ls", DONE, "$S ls -R $I"),
    row("store: cat", DONE, "$S cat $I /file"),
    row("store: stat", DONE, "$S stat $I /file"),
    row("store: get", DONE, "$S get $I / $N"),
    row("store: put", DONE, "$S put -f $I $F"),
    row("store: info", DONE, "$S info $I"),
    row("store: map", DONE, "$S map --json $I"),
    row("store: check", FSCK, "$S check -f $I"),
    row("store: extents", DONE, "$S extents --all --image $I /"),
    row("store: mkfs", REFUSED, "$S mkfs -q --size 1G $I"),
    row("store info", DONE, "$S store info $I"),
    row("store export", DONE, "$S store export $I $N"),
    row("store drain", DONE, "mkdir $N && $S store drain --cache $N $I"),
    row("store: mount", DONE, MOUNT),
];
