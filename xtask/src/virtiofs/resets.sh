# Each boot finds what the one before it has synced, syncs other files, and resets the machine while it writes.
boot=$(cat $dir/boot 2>/dev/null || echo 0)
for i in $(seq 20); do
    [ $boot = 0 ] || [ "$(cat $dir/reset-$boot-$i)" = "content $boot $i" ] || fail "reset-$boot-$i after reset $boot"
done
if [ $boot = @RESETS@ ]; then
    echo "virtiofs: $boot resets"
    umount $dir
    exit 0
fi
boot=$((boot + 1))
for i in $(seq 20); do
    echo "content $boot $i" >$dir/reset-$boot-$i
    sync $dir/reset-$boot-$i
done
echo $boot >$dir/boot
sync $dir/boot
(while :; do
    for i in $(seq 50); do echo $i >$dir/unsynced-$i; done
    mv $dir/unsynced-1 $dir/unsynced-2
    rm $dir/unsynced-*
done) &
dd if=/dev/zero of=$dir/stream bs=64k count=10000 status=none &
sleep 0.$((boot % 10))
echo b >/proc/sysrq-trigger
sleep 60
