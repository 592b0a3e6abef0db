# Fills volumes as Linux does, for crates/cli/tests/data/foreign. $DISKS: the devices of plain, features, after-sload, cut; in this order.
# crates/cli/tests/it/foreign/linux.rs knows the tree.
set -e

# put PATH BYTES: numbered lines that begin with the path
put() {
    mkdir -p "$(dirname "$DIR/$1")"
    awk -v name="$1" -v bytes="$2" 'BEGIN { for (i = 1; n < bytes; i++) { line = name " " i "\n"; line = substr(line, 1, bytes - n); printf "%s", line; n += length(line) } }' > "$DIR/$1"
}

fill() {
    for i in $(seq 0 39); do put "d$((i % 4))/file-$i" $((i % 5 * 120 * i)); done
    put large 3000
    truncate -s 6000000 "$DIR/large"
    printf end >> "$DIR/large"
    ln -s ../outside "$DIR/d0/link"
    for i in $(seq 0 7); do put "gone/file-$i" $((i * 1500)); done
    sync
    for i in $(seq 0 5 39); do put "d$((i % 4))/file-$i" $((i * 200 + 10)); done
    mv "$DIR/d1/file-1" "$DIR/d2/moved"
    sync
}

begin() {
    DIR=/mnt/$1; device=$2
    mkdir -p "$DIR"
    mount -t f2fs -o "nodiscard,$3" "$device" "$DIR" || { dmesg | tail -5; false; }
    fill
}

set -- $DISKS
begin plain "$1" background_gc=off
rm -r "$DIR/gone"
umount "$DIR"

begin features "$2" background_gc=off
rm -r "$DIR/gone"
umount "$DIR"

begin after-sload "$3" background_gc=off
rm -r "$DIR/gone" "$DIR/sload/many"
umount "$DIR"

# What fsync wrote after the checkpoint, and what nothing promised.
begin cut "$4" background_gc=off,checkpoint=enable
for i in $(seq 0 3); do put "synced/file-$i" $((i * 2500 + 1)); done
sync "$DIR"/synced/*
put unsynced 5000
dd if="$4" of="$COPY" bs=1M iflag=direct status=none
umount "$DIR"
