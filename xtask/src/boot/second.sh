fsck_all
fsck_all
mount -a -t segno
verify /mnt/plain @PLAIN@
verify /mnt/journal @JOURNAL@
echo "second boot" >/mnt/plain/last
echo "second boot" >/mnt/journal/last
# Shutdown unmounts what it can, and sends SIGTERM to what still runs.
umount /mnt/plain
pkill -TERM -f /dev/vdb
n=0
while mountpoint -q /mnt/journal; do
    n=$((n + 1))
    [ $n -lt 300 ] || { echo "boot: SIGTERM did not unmount"; exit 1; }
    sleep 0.1
done
