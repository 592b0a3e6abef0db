#!/bin/busybox sh
# First process of the guest: shares the host's root, runs /run/script in it, reports the exit status.
export PATH=/bin:/sbin
p9=trans=virtio,version=9p2000.L,msize=524288

mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
modprobe -a @MODULES@

# Uncached: the status must reach the host even when the guest ends badly.
mount -t 9p -o $p9,cache=none run /run
mount -t 9p -o $p9,cache=loose host /host
for d in proc sys dev mnt run; do
    [ -d /host/$d ] || echo "kernel-twin: the shared root has no /$d"
done
mount -t proc proc /host/proc
mount -t sysfs sys /host/sys
mount -t debugfs debug /host/sys/kernel/debug
mount -t devtmpfs dev /host/dev
# 9p is slow and is the real machine's disk: what a script needs for itself goes here, and /run is not ours.
mount -t tmpfs tmpfs /host/mnt
mount -t tmpfs tmpfs /host/run
mkdir -p /host/mnt/bin /host/mnt/lib/modules
mount --bind /lib/modules /host/mnt/lib/modules
cat /run/script > /host/mnt/script
cat > /host/mnt/bin/modprobe <<'END'
#!/bin/sh
for tool in /usr/sbin/modprobe /sbin/modprobe; do
    [ -x $tool ] && exec $tool -d /mnt "$@"
done
echo "modprobe: install kmod on the host" >&2
exit 1
END
/bin/busybox chmod 755 /host/mnt/bin/modprobe

# A port can be opened once only; through a pipe the script may reopen its own output.
(
    HOME=/mnt TMPDIR=/mnt DM_DISABLE_UDEV=1 \
        PATH=/mnt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        /bin/busybox chroot /host /bin/sh /mnt/script
    echo $? > /run/status
) 2>&1 < /dev/null | cat > /dev/vport0p1
sync
poweroff -f
