# Programs where mount(8) and fsck(8) look for them; the host's /usr/sbin stays as it is.
set -eu
modprobe fuse
mkdir -p /mnt/upper /mnt/work /mnt/plain /mnt/journal
mount -t overlay -o lowerdir=/usr/sbin,upperdir=/mnt/upper,workdir=/mnt/work overlay /usr/sbin
for helper in mount.segno fsck.segno mkfs.segno; do ln -s @SEGNO@ /usr/sbin/$helper; done
# mount(8) and fsck(8) read this one.
export LIBMOUNT_FSTAB=/mnt/fstab
cat >$LIBMOUNT_FSTAB <<'END'
/dev/vda  /mnt/plain    segno  noatime,cache=32M                     0  2
/dev/vdb  /mnt/journal  segno  noatime,cache=32M,journal=auto,guard  0  2
END
fsck_all() {
    code=0
    fsck -A -a -T || code=$?
    echo "boot: fsck $code"
}
# Each file has its own path and number as content.
verify() { # DIRECTORY LAST
    i=0
    while [ $i -lt "$2" ]; do
        i=$((i + 1))
        [ "$(cat "$1/$i")" = "$1 $i" ] || { echo "boot: $1/$i is lost"; exit 1; }
    done
    echo "boot: $1 has its $2 files"
}
