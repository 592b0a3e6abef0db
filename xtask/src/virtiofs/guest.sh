# The guest: no F2FS, the volume as virtiofs. Everything else is in the scripts behind this one.
set -eu
modprobe -r f2fs
if grep -q f2fs /proc/filesystems; then echo "virtiofs: the guest has F2FS"; exit 1; fi
modprobe virtiofs
mkdir -p /dev/shm /mnt/fs
mount -t tmpfs tmpfs /dev/shm
mount -t virtiofs segno /mnt/fs
dir=/mnt/fs
