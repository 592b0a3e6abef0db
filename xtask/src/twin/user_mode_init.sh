#!/bin/sh
# First process of the guest, on the host's root: runs the script, reports its exit status.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t configfs config /sys/kernel/config
mount -t debugfs debug /sys/kernel/debug
mount -t devtmpfs dev /dev 2> /dev/null
# As in QEMU: /mnt and /run are the guest's.
cp @ROOM@/script /dev/script
mount -t tmpfs tmpfs /mnt
mount -t tmpfs tmpfs /run
stty -F /dev/ttyS0 -opost 2> /dev/null
(
    HOME=/mnt TMPDIR=/mnt DM_DISABLE_UDEV=1 /bin/sh /dev/script
    echo $? > @ROOM@/status
) 2>&1 < /dev/null | cat > /dev/ttyS0
sync
echo o > /proc/sysrq-trigger
sleep 10
